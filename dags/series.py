"""A series on disk: `results/<experiment>/<series>/`, opened new or resumed, and what of its plan is done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record import RunPaths, SeriesPaths, is_complete, read_json, write_json_atomic
from dags import changes
from dags.changes import git_state
from dags.errors import ExperimentError
from dags.experiment import Experiment, from_data
from dags.places import results_root
from dags.plan import PlannedRun, digest, next_run, plan_runs, series_id
from dags.results import results
from dags.run_record import read_run
from dags.sources.refs import resolved

ENOUGH = "enough.json"  # there: what was measured answers what was asked, whatever is left of the plan


@dataclass(frozen=True)
class Series:
    """`opened_s` (epoch seconds) is when this execution began: a run that it has tried is not its next run again."""

    folder: Path
    experiment: Experiment
    opened_s: float

    @property
    def series_id(self) -> str:
        return self.folder.name

    def plan(self) -> tuple[PlannedRun, ...]:
        return plan_runs(self.experiment)

    def run_folder(self, run_id: str) -> Path:
        return SeriesPaths(self.folder).run(run_id).root

    @property
    def attempts(self) -> Path:
        return self.folder / "attempts"

    def complete(self) -> frozenset[str]:
        return frozenset(run.run_id for run in self.plan() if is_complete(self.run_folder(run.run_id)))

    def tried(self) -> frozenset[str]:
        """Runs that this execution has begun, whatever became of them."""
        return frozenset(run.run_id for run in self.plan() if self._begun_s(run.run_id) >= self.opened_s)

    def enough(self) -> bool:
        return (self.folder / ENOUGH).is_file()

    def next_run(self) -> PlannedRun | None:
        return None if self.enough() else next_run(self.plan(), self.complete(), self.tried())

    def is_last(self, run: PlannedRun) -> bool:
        """Whether this execution has nothing to do after `run`."""
        return next_run(self.plan(), self.complete() | {run.run_id}, self.tried()) is None

    def left(self) -> int:
        """How many runs have no complete record and are needed."""
        return 0 if self.enough() else len(self.plan()) - len(self.complete())

    def _begun_s(self, run_id: str) -> float:
        document = read_run(self.run_folder(run_id)) or {}
        return float(document.get("started_s", 0.0))


def open_series(
    experiment: Experiment,
    *,
    new: bool = False,
    now_s: float | None = None,
    estimate: Mapping[str, Any] | None = None,
) -> Series:
    """The newest unfinished series of exactly this request, or (or if `new`) a fresh one.

    `estimate` is what this execution may cost; each execution of a series that costs money has its own.
    """
    now = time.time() if now_s is None else now_s
    experiment = resolved(experiment)
    unfinished = None if new else resumable(experiment)
    estimates = series_document(unfinished.folder).get("estimates", []) if unfinished else []
    if estimate is not None:
        estimates = [*estimates, {"opened_s": now, **estimate}]
    folder = unfinished.folder if unfinished else _fresh(experiment, now)
    results().begin(folder)
    commit, dirty = git_state()
    document = {
        "v": 1,
        "series_id": folder.name,
        "experiment": experiment.name,
        "spec": experiment.as_data(),
        "runs": [run.run_id for run in plan_runs(experiment)],
        "opened_s": now,
        "resumed": unfinished is not None,
        "git_commit": commit,
        "git_dirty": dirty,
        "git_changes": changes.keep(folder) if dirty else None,
        "estimates": estimates,
    }
    write_json_atomic(SeriesPaths(folder).series_json, document)
    return Series(folder, experiment, now)


def read_series(folder: Path) -> Series:
    """The series in a folder. Raises ExperimentError where the folder holds none."""
    document = series_document(folder)
    try:
        return Series(folder, from_data(document["spec"]), float(document["opened_s"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ExperimentError(f"{folder}/series.json is not a series' document: {error!r}") from error


def series_document(folder: Path) -> dict[str, Any]:
    try:
        return read_json(SeriesPaths(folder).series_json)
    except RecordError as error:
        message = f"{folder} holds no series: {error}; give a folder results/<experiment>/<series>"
        raise ExperimentError(message) from error


def find_series(name: str) -> Path:
    """A series by its folder, its id, or an experiment's name (then its newest). Raises ExperimentError.

    In a bucket its name there does too; what reports are made of has been brought from it.
    """
    place = results()
    if (Path(name) / "series.json").is_file() and not Path(name).absolute().is_relative_to(place.root):
        return Path(name).absolute()
    place.refresh()
    found = _find(name)
    place.refresh(found.relative_to(place.root).as_posix(), digest=True)
    return found


def _find(name: str) -> Path:
    for folder in (Path(name), results_root() / name):
        if (folder / "series.json").is_file():
            return folder.absolute()
    everything = [path.parent for path in results_root().glob("*/*/*/series.json")]
    fitting = [folder for folder in everything if name in (folder.name, _experiment_of(folder))]
    if not fitting:
        having = ", ".join(sorted({_experiment_of(folder) for folder in everything})) or "nothing yet"
        message = f"no series {name!r}; give a folder results/<experiment>/<series>, a series id or an experiment"
        raise ExperimentError(f"{message}; there are series of {having}")
    return max(fitting, key=lambda folder: folder.name)


def _experiment_of(folder: Path) -> str:
    return f"{folder.parent.parent.name}/{folder.parent.name}"


def resumable(experiment: Experiment) -> Series | None:
    """The newest series of exactly this request, if it has runs to do."""
    newest = _newest(experiment)
    return newest if newest is not None and newest.left() else None


def finished(experiment: Experiment) -> Series | None:
    """The newest series of exactly this request, if every run of it has a complete record."""
    newest = _newest(experiment)
    return newest if newest is not None and not newest.left() else None


def _newest(experiment: Experiment) -> Series | None:
    experiment = resolved(experiment)
    results().refresh(experiment.name)
    ours = sorted(results_root().glob(f"{experiment.name}/*-{digest(experiment)}"))
    if not ours or not (ours[-1] / "series.json").is_file():
        return None
    return Series(ours[-1], experiment, 0.0)


def _fresh(experiment: Experiment, now_s: float) -> Path:
    folder = results_root() / experiment.name / series_id(experiment, now_s)
    try:
        RunPaths(folder / "runs").root.mkdir(parents=True)
    except FileExistsError:  # twice within one second
        return _fresh(experiment, now_s + 1)
    return folder
