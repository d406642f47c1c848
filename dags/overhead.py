"""How long the harness itself took in earlier series on a testbed: from the phases in their runs' records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from analysis.errors import RecordError
from analysis.record import read_json
from dags.duration import DEFAULT, Overhead
from dags.experiment import TestbedChoice
from dags.places import results_root
from dags.run_record import read_run

SERIES = 5  # the newest; older ones were measured with other code


def measured(choice: TestbedChoice) -> Overhead:
    """Medians over complete runs on this testbed that had their joining machines in the same way; else the default."""
    openings, runs, boots = [], [], []
    for folder, document in _newest(choice):
        mine = [run for path in folder.glob("runs/*") if (run := read_run(path)) and run["status"] == "complete"]
        runs += [overhead_of(run) for run in mine]
        boots += [_length(phase) for run in mine for phase in run["phases"] if phase["name"] == "boot"]
        openings += _opening(document, mine)
    if not runs:
        return DEFAULT
    found = replace(DEFAULT, run_s=median(runs), runs=len(runs))
    return replace(
        found,
        opening_s=median(openings) if openings else found.opening_s,
        boot_s=median(boots) if boots else found.boot_s,
    )


def overhead_of(run: dict[str, Any]) -> float:
    """Seconds of a run that the experiment did not ask for; booting stands beside it."""
    planned_s = sum(float(phase["planned_s"]) for phase in run["phases"])
    boots_s = sum(_length(phase) for phase in run["phases"] if phase["name"] == "boot")
    return max(0.0, float(run["ended_s"]) - float(run["started_s"]) - planned_s - boots_s)


def _opening(document: dict[str, Any], runs: list[dict[str, Any]]) -> list[float]:
    """From the opening to the first run of that execution."""
    opened_s = float(document["opened_s"])
    begun = [float(run["started_s"]) - opened_s for run in runs if float(run["started_s"]) >= opened_s]
    return [min(begun)] if begun else []


def _newest(choice: TestbedChoice) -> Iterator[tuple[Path, dict[str, Any]]]:
    found = 0
    for path in sorted(results_root().glob("*/*/*/series.json"), key=lambda each: each.parent.name, reverse=True):
        try:
            document = read_json(path)
        except RecordError:
            continue
        testbed = document.get("spec", {}).get("testbed", {})
        if (testbed.get("name"), testbed.get("joining", "ready")) != (choice.name, choice.joining):
            continue
        found += 1
        yield path.parent, document
        if found == SERIES:
            return


def _length(phase: dict[str, Any]) -> float:
    return float(phase["end_s"] or phase["start_s"]) - float(phase["start_s"])
