"""Every point of every figure answers: to the mouse, to a finger and to the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import looks
from tests.browser.looks import Open, tip

if TYPE_CHECKING:
    from playwright.sync_api import Page

SAMPLED = 24


def test_hovering_shows_series_values_units_and_run(open_page: Open, report: Path) -> None:
    page = open_page(report, height=6000)
    figures = looks.points(page)
    assert [len(points) > 5 for points in figures] == [True] * 4
    for points in figures:
        looks.require_answers(page, points[:: max(1, len(points) // SAMPLED)])
    page.mouse.move(2, 2)
    assert tip(page) == ""


def test_a_point_says_what_the_table_has(open_page: Open, report: Path) -> None:
    """stela-r1 restarts for 8 s and reaches 160 tuples/s: the generator of the golden records says so."""
    page = open_page(report, height=6000)
    page.locator("#figure-throughput svg").focus()
    seen = [press(page, "ArrowRight") for _ in range(200)]
    largest = [said for said in seen if said.startswith("Stela, largest run")]
    assert any("time: 105 s" in said and "tuples/s" in said and "run: stela-r3" in said for said in largest), largest
    assert any(said == "event\ntime: 0 s\nevent: scale out, +1 machine" for said in seen), seen[-5:]


def press(page: Page, key: str) -> str:
    page.keyboard.press(key)
    return tip(page)


@pytest.mark.parametrize("number", range(4))
def test_arrow_keys_reach_every_point(open_page: Open, report: Path, number: int) -> None:
    page = open_page(report, height=6000)
    points = looks.points(page)[number]
    figure = page.locator(".drawing").nth(number)
    figure.locator("svg").first.focus()
    press(page, "End")
    visited = page.evaluate(
        """([number, times]) => { // real keys for thousands of points would take minutes
          const svg = document.querySelectorAll(".drawing")[number].querySelector("svg");
          return Array.from({ length: times }, () => {
            svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
            const ring = svg.querySelector(".ring").getBoundingClientRect();
            return [ring.x + ring.width / 2, ring.y + ring.height / 2, document.querySelector(".tip b").textContent];
          });
        }""",
        [number, len(points)],
    )
    for (x, y, head), point in zip(visited, points, strict=True):
        assert (x, y) == pytest.approx((point["x"], point["y"]), abs=0.6)
        assert head == point["head"]


def test_keys_go_between_series_and_readers_are_told_what_figures_are(open_page: Open, report: Path) -> None:
    page = open_page(report, height=6000)
    page.locator("#figure-throughput svg").focus()
    first = press(page, "Home")
    other = press(page, "ArrowDown")
    assert first.splitlines()[0] != other.splitlines()[0]
    assert press(page, "ArrowUp") == first
    assert press(page, "ArrowRight") != first
    assert press(page, "Escape") == ""
    svg = page.locator("#figure-convergence svg")
    assert "Convergence time in seconds" in (svg.get_attribute("aria-label") or "")
    assert svg.get_attribute("tabindex") == "0"
    assert page.locator(".tip").get_attribute("role") == "status"


def test_a_finger_shows_a_point_until_it_touches_elsewhere(open_page: Open, report: Path) -> None:
    page = open_page(report, width=360, height=780, has_touch=True, is_mobile=True)
    page.locator("#figure-throughput").scroll_into_view_if_needed()
    drawing = page.locator("#figure-throughput .drawing").bounding_box()
    assert drawing is not None
    points = [p for p in looks.points(page)[0] if drawing["x"] < p["x"] < 350 and 0 < p["y"] < 780]
    page.touchscreen.tap(points[0]["x"], points[0]["y"])
    assert points[0]["head"] in tip(page)
    box = page.locator(".tip").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
    assert looks.overflow_px(page) == 0
    page.touchscreen.tap(180, drawing["y"] - 12)
    assert tip(page) == ""


def test_without_scripts_the_page_is_whole(open_page: Open, report: Path) -> None:
    page = open_page(report, java_script_enabled=False)
    assert page.locator("figure svg").count() == 4
    for box in (page.locator("figure svg").nth(i).bounding_box() for i in range(4)):
        assert box is not None and box["height"] > 80
    assert page.locator("a[download]").count() > 30
    assert page.locator(".tip").count() == 0
