"""What tests of pages ask of a page, in one place: overflow, points, positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page


A4_PX = (688, 1009)  # what 14 and 15 mm of margin leave of A4, at 96 px an inch

# Of each figure with points (a trace's places are its own, or those that the page's drawings share): its place among
# them, and every point with its head, text and place in the window.
POINTS = """() => [...document.querySelectorAll("script.points")].map(json => {
  const shared = JSON.parse(document.querySelector("script.shared")?.textContent ?? "{}");
  const within = ([first, last]) => shared.x.slice(first, last + 1);
  const svg = json.previousElementSibling.querySelector("svg"), data = JSON.parse(json.textContent);
  const scale = svg.getScreenCTM();
  return data.traces.flatMap(trace => (trace.x ?? trace.at.flatMap(within)).map((x, i) => {
    const spot = new DOMPoint(x, trace.y[i]).matrixTransform(scale);
    return { head: [trace.p, trace.n, trace.m].filter(Boolean).join(", "), x: spot.x, y: spot.y };
  }));
})"""


def points(page: Page) -> list[list[dict[str, Any]]]:
    """By figure."""
    found: list[list[dict[str, Any]]] = page.evaluate(POINTS)
    return found


def overflow_px(page: Page) -> int:
    """By how much the page is wider than its window."""
    wide: int = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wide


def too_large(page: Page, width: int, height: int) -> list[str]:
    """What stands out at the right of the page, and what is kept in one piece but higher than it."""
    found: list[str] = page.evaluate(
        """([width, height]) => [...document.querySelectorAll("figure, table, td, th, p, h1, h2, h3, pre, svg, dl, li")]
        .filter(element => element.checkVisibility()).filter(element => {
          const box = element.getBoundingClientRect();
          const whole = getComputedStyle(element).breakInside === "avoid";
          return box.right > width + 1 || (whole && box.height > height);
        }).map(element => `${element.tagName} ${element.id} ${element.textContent.trim().slice(0, 60)}`)""",
        [width, height],
    )
    return found
