"""Tests for simulated series and runs, and the real time of a run. All code that chooses among series, or shows the
time of a measurement, uses this.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.record.files import SeriesPaths, read_json_or_none
from barograph.plan.experiment import SIMULATED


def is_simulated(document: Mapping[str, Any]) -> bool:
    """Return whether a `series.json`, a `run.json` or a row of the table of runs is of a simulation."""
    return _testbed(document) == SIMULATED or simulated_facts(document) is not None


def simulated_facts(run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return how a run was simulated, by its `run.json` or its row; None for one on machines."""
    facts = _object(run.get("harness_facts")).get(SIMULATED)
    return facts if isinstance(facts, Mapping) else None


def is_simulated_series(series_dir: Path) -> bool:
    """Return whether a series was simulated; logs of others, and an unreadable series, were not."""
    return is_simulated(_document(series_dir))


def is_of_testbed(series_dir: Path, testbed: str | None) -> bool:
    """Return whether a series is of that testbed; None: of any testbed with machines."""
    document = _document(series_dir)
    return not is_simulated(document) if testbed is None else _testbed(document) == testbed


def date_s(run: Mapping[str, Any]) -> float | None:
    """Return epoch seconds at which a run was begun, by a real clock; None if its record lacks it.

    A simulated run has `date_s` for that: its other times are simulated ones, the same whenever it is simulated.
    """
    date = run.get("date_s") if is_simulated(run) else run.get("started_s")
    return float(date) if isinstance(date, int | float) else None


def first_date_s(runs: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the date of the first of these runs; None if none has one."""
    return min((date for run in runs if (date := date_s(run))), default=None)


def simulated_words(number: int) -> str:
    """Return the line about series that were left out; empty without any."""
    if not number:
        return ""
    return "1 simulated series is left out" if number == 1 else f"{number} simulated series are left out"


def _document(series_dir: Path) -> Mapping[str, Any]:
    return read_json_or_none(SeriesPaths(series_dir).series_json) or {}


def _testbed(document: Mapping[str, Any]) -> Any:
    return _object(_object(document.get("spec")).get("testbed")).get("name")


def _object(value: Any) -> Mapping[str, Any]:
    """Parse an object that tables hold as text."""
    document = json.loads(value) if isinstance(value, str) else value
    return document if isinstance(document, Mapping) else {}
