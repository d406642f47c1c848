"""The page of a search for the first bad commit: every commit, what was measured of it, and what that says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.report import page, simulated

WIDTH = 260.0  # of the drawing of an interval, in its own units
MARGIN = 6.0


def write(path: Path, search: Mapping[str, Any]) -> Path:
    """`search` as `barograph.nights.bisection.page_data` has it; its series lie below the results, as `path` does.
    Returns `path`."""
    results = path.absolute().parents[2]
    trust = simulated.sentence_of_series(results / name for name in search["series"])
    text = page.render("bisect.html.j2", search=search, scale=drawing_scale(search), width=WIDTH, trust=trust)
    return page.write(path, text)


class DrawingScale:
    """From differences to places in the drawing."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._span = low, (high - low) or 1.0

    def __call__(self, value: float) -> float:
        return round(MARGIN + (value - self._low) / self._span * (WIDTH - 2 * MARGIN), 1)


def drawing_scale(search: Mapping[str, Any]) -> DrawingScale | None:
    """Over all intervals, 0 and the reference; None where there is nothing to draw."""
    ends = [0.0, *_interval_ends(search)]
    return DrawingScale(min(ends), max(ends)) if len(ends) > 1 else None


def _interval_ends(search: Mapping[str, Any]) -> Iterator[float]:
    measured = [search["reference"], *(probe for commit in search["commits"] for probe in commit["probes"])]
    for each in measured:
        yield from (each[key] for key in ("value", "low", "high") if each[key] is not None)
