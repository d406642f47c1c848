"""A cell of a campaign in memory: one experiment with the labels that tell it from the others, in the folder of a
series.

`barograph report`, `sql`, `replay` and `bundle` accept it. It needs no lease, since machines in memory have no owner. A
file marks it as over; if it failed, or has no such file, its complete runs stay and the others are repeated.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record.files import SeriesPaths, is_complete, read_json, write_json_atomic
from barograph.campaign.simulation import SimulationFailure
from barograph.plan.blocks import plan_runs
from barograph.plan.experiment import Experiment
from barograph.series.series import Series, keep_traces, trace_contents

OUTCOME_FILE = "point.json"


def open_cell(folder: Path, experiment: Experiment, facts: Mapping[str, Any], kept_in: Path | None = None) -> Series:
    """Open a cell: keep the complete runs of an earlier execution, and remove the folder of another experiment.

    `facts`: those of the campaign and the cell's labels, for its document. `kept_in`: the series that has the traces
    which its events follow.
    """
    if _is_of_other_experiment(folder, experiment):
        shutil.rmtree(folder, ignore_errors=True)
    (folder / OUTCOME_FILE).unlink(missing_ok=True)
    SeriesPaths(folder).runs.mkdir(parents=True, exist_ok=True)
    keep_traces(folder, trace_contents(experiment, kept_in))
    document = {
        "v": 1,
        "series_id": folder.name,
        "experiment": experiment.name,
        "spec": experiment.as_data(),
        "runs": [run.run_id for run in plan_runs(experiment)],
        "opened_s": time.time(),
        **facts,
    }
    write_json_atomic(SeriesPaths(folder).series_json, document)
    return Series(folder, experiment, document["opened_s"])


def _is_of_other_experiment(folder: Path, experiment: Experiment) -> bool:
    """Return False where no document names the experiment: the folder's name has the experiment's digest."""
    try:
        document = read_json(SeriesPaths(folder).series_json)["spec"]
    except (RecordError, KeyError):
        return False
    return bool(document != json.loads(json.dumps(experiment.as_data())))


def end_cell(folder: Path, failures: Sequence[SimulationFailure]) -> None:
    """Mark the cell as over. Raises OSError where its folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json_atomic(folder / OUTCOME_FILE, {"v": 1, "failures": [each.as_data() for each in failures]})
    for each in failures:
        if each.trace:
            (folder / "failure.txt").write_text(each.trace, encoding="utf-8")


def failures_of(folder: Path) -> list[dict[str, Any]]:
    """Return the failures of a cell that is over."""
    try:
        return list(read_json(folder / OUTCOME_FILE)["failures"])
    except RecordError:
        return []


def state_of(folder: Path) -> str:
    """Return `complete`, `failed` (one of its runs failed), or `missing`, also where it was cut short."""
    if not (folder / OUTCOME_FILE).is_file():
        return "missing"
    return "failed" if failures_of(folder) else "complete"


def link_runs(root: Path, cells: Mapping[str, Path]) -> dict[str, str]:
    """Link every complete run of the cells in `runs/` of a folder that is analysed as one, as `<cell>.<run>`; return
    the cell of each link.
    """
    links = {}
    for cell, folder in cells.items():
        for run in sorted(SeriesPaths(folder).runs.glob("*")):
            if is_complete(run):
                name = f"{cell}.{run.name}"
                (SeriesPaths(root).runs / name).symlink_to(os.path.relpath(run, SeriesPaths(root).runs), True)
                links[name] = cell
    return links
