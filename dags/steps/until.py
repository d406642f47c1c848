"""The time after which an execution of a series begins no run: `until.json`, written by whoever has a deadline.

A run that is under way goes on to its own end: half a run is worth nothing, and its length is bounded.
"""

from __future__ import annotations

import time
from contextlib import suppress

from analysis.errors import RecordError
from analysis.record import read_json, write_json_atomic
from dags.duration import Overhead, run_s
from dags.overhead import measured
from dags.series import Series

FILE = "until.json"


def set_until(series: Series, until_s: float) -> None:
    """Of this execution alone: one that resumes the series later has forgotten it."""
    write_json_atomic(series.folder / FILE, {"v": 1, "opened_s": series.opened_s, "until_s": until_s})


def until_s(series: Series) -> float | None:
    with suppress(RecordError, KeyError):
        document = read_json(series.folder / FILE)
        return float(document["until_s"]) if document["opened_s"] == series.opened_s else None
    return None


def too_late(series: Series, now_s: float, overhead: Overhead | None = None) -> str:
    """Why no further run begins; empty while there is time for one, as long as it may be expected to take."""
    end_s = until_s(series)
    if end_s is None:
        return ""
    needed_s = run_s(series.experiment, measured(series.experiment.testbed) if overhead is None else overhead)
    if now_s + needed_s <= end_s:
        return ""
    end = time.strftime("%H:%M", time.localtime(end_s))
    return f"deadline {end}: a further run would take about {needed_s / 60:.0f} min, which is more than is left"
