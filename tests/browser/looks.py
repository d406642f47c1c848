"""What tests of pages ask of a page, in one place: overflow, points, positions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]  # conftest.open_page
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
TOO_LARGE = """([width, height]) =>
  [...document.querySelectorAll("figure, table, td, th, p, h1, h2, h3, pre, svg, dl, li")]
  .filter(element => element.checkVisibility()).filter(element => {
    const box = element.getBoundingClientRect();
    const whole = getComputedStyle(element).breakInside === "avoid";
    return box.right > width + 1 || (whole && box.height > height);
  }).map(element => `${element.tagName} ${element.id} ${element.textContent.trim().slice(0, 60)}`)"""
# A figure of graphs may break between them.
CUT = """() => [...document.querySelectorAll("figure svg")].filter(svg =>
  getComputedStyle(svg.closest(".graphs > div") || svg.closest("figure")).breakInside !== "avoid").length"""
SCROLLING = """() => [...document.querySelectorAll("*")].filter(element =>
  ["auto", "scroll"].includes(getComputedStyle(element).overflowX)).length"""


def points(page: Page) -> list[list[dict[str, Any]]]:
    """By figure."""
    found: list[list[dict[str, Any]]] = page.evaluate(POINTS)
    return found


def tip(page: Page) -> str:
    said = page.locator(".tip").inner_text() if page.locator(".tip").is_visible() else ""
    return said.replace("\u00a0", " ").replace("\u2009", " ")


def require_answers(page: Page, points: list[dict[str, Any]]) -> None:
    """Every point answers to the mouse."""
    for point in points:
        page.mouse.move(point["x"], point["y"])
        said = tip(page)
        assert point["head"] in said or "more here" in said, (point, said)


def overflow_px(page: Page) -> int:
    """By how much the page is wider than its window."""
    wide: int = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wide


def require_fits(open_page: Open, path: Path) -> Page:
    """A phone never scrolls sideways, and paper cuts nothing: nothing stands out at the right, and what is kept in one
    piece is not higher than a page. Returns the page on paper."""
    phone = open_page(path, width=360, height=780, is_mobile=True, has_touch=True)
    assert overflow_px(phone) == 0
    phone.evaluate('() => document.querySelectorAll("details").forEach(details => { details.open = true; })')
    assert overflow_px(phone) == 0
    width, height = A4_PX
    paper = open_page(path, width=width, height=height)
    paper.emulate_media(media="print")
    assert paper.evaluate(TOO_LARGE, [width, height]) == []
    return paper
