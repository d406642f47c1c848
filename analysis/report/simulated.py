"""Sentences about runs that were simulated: how, and how far such numbers can be trusted.

Two lines; a page folds the second one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from analysis.calibration import validation
from analysis.errors import RecordError
from analysis.record.files import SeriesPaths
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import Row, rows
from analysis.report.series_facts import flatten

PAGE = "docs/simulator.md"


def sentence(runs: Sequence[Row], *series_dirs: Path) -> str:
    """Return the sentence of a report; empty where no run was simulated. `series_dirs`: of the runs; calibrations
    beside them count, and those that ship."""
    facts = [simulated_facts(run) for run in runs]
    simulated = [each for each in facts if each is not None]
    if not simulated:
        return ""
    all_or_some = "" if len(simulated) == len(runs) else f" ({len(simulated)} of the {len(runs)} runs)"
    costs = _words([each.get("costs", {}) for each in simulated])
    settings = _words(
        [{key: value for key, value in each.items() if key not in ("costs", "model")} for each in simulated]
    )
    folders = dict.fromkeys(folder for each in series_dirs for folder in validation.folders_beside(each))
    trust = " ".join(validation.sentences(runs, folders))
    return (
        f"Simulated, not measured{all_or_some}: no machine and no Storm ran. {trust} What lies outside of what was"
        f" validated is a model's answer ({PAGE}).\nWhat Storm is taken to cost: {costs}. Settings: {settings}."
    )


def sentence_of_series(series_dirs: Iterable[Path]) -> str:
    """The same of the simulated runs of analysed series, and which of these cannot be read; empty where none of them is
    here."""
    folders = list(dict.fromkeys(series_dirs))
    runs: list[Row] = []
    damages = []
    for folder in folders:
        try:
            runs += rows(SeriesPaths(folder), "runs")
        except RecordError as error:
            damages.append(f"Nothing is said of a series: {error}.")
    said = sentence([run for run in runs if simulated_facts(run) is not None], *folders)
    first, line_end, second = said.partition("\n")
    return " ".join(filter(None, (first, *damages))) + line_end + second


def _words(facts: Sequence[object]) -> str:
    """`receive_ms 0.02, …`; several values where runs differ."""
    flat = [flatten(each) for each in facts]
    keys = list(dict.fromkeys(key for each in flat for key in each))
    return ", ".join(f"{key} {' or '.join(sorted({each[key] for each in flat if key in each}))}" for key in keys)
