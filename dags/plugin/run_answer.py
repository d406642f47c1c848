"""From a DAG run to its page: finds what the run made below the results and lets `run_page` decide."""

from __future__ import annotations

import time
from pathlib import Path

from dags.nights import tonight
from dags.plugin import run_page, shelf
from dags.plugin.ownership import NIGHTS
from dags.plugin.run_page import Go, Page
from dags.plugin.seen import Made, series_seen

NIGHT_DAGS = "nightly."


def subject(root: Path, made: Made) -> str | None:
    """The folder below the results that the run is about: of its series, or of its suite; None: there is none."""
    if made.opened is None:
        return None
    if made.dag_id.startswith(NIGHT_DAGS):
        return f"{NIGHTS}/{_suite(made)}"
    return shelf.below(root, made.opened)


def answer(root: Path, made: Made) -> Go | Page:
    if made.opened is None:
        return run_page.unopened(made)
    if made.dag_id.startswith(NIGHT_DAGS):
        return _night(root, made, made.opened)
    name = shelf.below(root, made.opened)
    if name is None:
        return run_page.elsewhere(made, str(root))
    seen = series_seen(root, name, made)
    return run_page.removed(made, name) if seen is None else run_page.of_series(made, seen, time.time())


def _suite(made: Made) -> str:
    return made.dag_id.removeprefix(NIGHT_DAGS)


def _night(root: Path, made: Made, night: str) -> Go | Page:
    suite = _suite(made)
    page = f"{NIGHTS}/{suite}/nights/{night}.html"
    under_way = tonight.read(suite)
    if under_way is not None and under_way.id != night:
        under_way = None
    entries = under_way.experiments if under_way else ()
    named = (f"{entry.series}/report.html" for entry in entries if entry.series)
    reports = {report for report in named if shelf.find(root, report)}
    return run_page.of_night(made, suite, page if shelf.find(root, page) else None, under_way, reports)
