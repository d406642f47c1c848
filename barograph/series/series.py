"""A series on disk, `results/<experiment>/<series>/`: opened new or resumed, its complete runs, and the deadline after
which an execution begins no further run (`deadline.json`). A begun run always ends by itself: half a run is useless,
and its length is bounded.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record.files import (
    SeriesPaths,
    experiment_of,
    is_complete,
    keep_bytes,
    read_json,
    read_json_or_none,
    series_folders,
    write_json_atomic,
)
from analysis.record.simulated import date_s, is_of_testbed, is_simulated_series, simulated_words
from barograph.code.git import resolve_experiment
from barograph.errors import ExperimentError, Say
from barograph.plan.blocks import PlannedRun, digest, next_run, plan_runs, series_id
from barograph.plan.durations import Overhead, run_s
from barograph.plan.events.rates import Trace
from barograph.plan.experiment import SIMULATED, Experiment, from_data
from barograph.series import provenance
from barograph.series.progress import OPENED, ProgressFile
from barograph.series.provenance import git_state
from barograph.series.results import complete_runs, results
from barograph.series.run_record import is_of_execution, median_overhead, read_run
from barograph.settings import ROOT, dag_run, results_root
from inventory.leases.registry import state_dir

PATTERN = frozenset("*?[")
STOP_FILE = "stop"  # if present, this execution begins no further run
SUFFICIENT_FILE = "sufficient.json"  # if present, the measurements answer the question, whatever is left of the plan


@dataclass(frozen=True)
class Series:
    """A series. `opened_s` (epoch seconds) is when this execution began: a run that it has tried is not next again."""

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

    def was_complete(self, run: PlannedRun, before_s: float | None = None) -> bool:
        """Return whether the run had its record before this execution, or before that time."""
        if before_s is None:
            earlier = not self._is_of_this_execution(run.run_id)
        else:
            earlier = (date_s(read_run(self.run_folder(run.run_id)) or {}) or 0.0) < before_s
        return is_complete(self.run_folder(run.run_id)) and earlier

    def current_attempts(self) -> frozenset[str]:
        """Return the runs that this execution has begun, whatever their outcome."""
        return frozenset(run.run_id for run in self.plan() if self._is_of_this_execution(run.run_id))

    def is_sufficient(self) -> bool:
        return (self.folder / SUFFICIENT_FILE).is_file()

    def next_run(self) -> PlannedRun | None:
        return None if self.is_sufficient() else next_run(self.plan(), self.complete(), self.current_attempts())

    def is_last(self, run: PlannedRun) -> bool:
        """Return whether this execution has nothing to do after `run`."""
        return next_run(self.plan(), self.complete() | {run.run_id}, self.current_attempts()) is None

    def missing_runs(self) -> int:
        """Count the needed runs that have no complete record."""
        return 0 if self.is_sufficient() else len(self.plan()) - len(self.complete())

    def is_reported(self) -> bool:
        """Return whether the report covers every complete run as it is now."""
        reported = series_document(self.folder).get("reported")
        return isinstance(reported, dict) and complete_runs(self.folder).items() <= reported.items()

    def lacks_report_alone(self) -> bool:
        """Return whether everything is measured, and the execution ended before its report."""
        return not self.missing_runs() and not self.is_reported()

    def is_finished(self) -> bool:
        return not self.missing_runs() and self.is_reported()

    def _is_of_this_execution(self, run_id: str) -> bool:
        document = read_run(self.run_folder(run_id))
        return document is not None and is_of_execution(document, self.opened_s)


def open_series(
    experiment: Experiment,
    *,
    new: bool = False,
    again: bool = False,
    now_s: float | None = None,
    estimate: Mapping[str, Any] | None = None,
) -> Series:
    """Open the newest unfinished series of exactly this request, or (or if `new`) a fresh one. `again`: a repeated task
    takes the series that its DAG run has opened, complete or not, if there is one. `estimate` is the cost of this
    execution; each execution of a series that costs money has its own. Raises ExperimentError where the series has runs
    that are not measured, or simulated, as this Barograph would."""
    now = time.time() if now_s is None else now_s
    experiment = resolve_experiment(experiment)
    commit, dirty = git_state()
    changes = provenance.work_tree_patch() if dirty else b""  # refused before there is a folder
    code = {"git_commit": commit, "git_dirty": dirty}
    if experiment.testbed.name == SIMULATED:
        code["code_sha256"] = provenance.simulating_code_sha256()
    repeated = series_of_dag_run(experiment) if again else None
    unfinished = repeated or (None if new else unfinished_series(experiment))
    traces = trace_contents(experiment, unfinished.folder if unfinished else None)
    if unfinished:
        _require_same_measurement(unfinished, code)
    parent = results_root() / experiment.name
    folder = unfinished.folder if unfinished else new_folder(lambda at_s: parent / series_id(experiment, at_s), now)
    SeriesPaths(folder).runs.mkdir(exist_ok=True)
    results().begin(folder)
    try:
        predecessor = series_document(folder) if unfinished else {}  # held: nobody ends it meanwhile
        estimates = predecessor.get("estimates", [])
        if estimate is not None:
            estimates = [*estimates, {"opened_s": now, **estimate}]
        keep_traces(folder, traces)
        (folder / STOP_FILE).unlink(missing_ok=True)  # of an earlier execution
        facts = {
            "dag_run": dag_run(),
            "resumed": unfinished is not None,
            **code,
            "git_changes": provenance.save_patch(folder, changes),
            "git_unknown": list(provenance.unknown_files()) if dirty else [],
            "estimates": estimates,
            "reported": predecessor.get("reported", {}),
        }
        series = write_series(folder, experiment, now, facts)
        if dag_run():  # its steps are tasks, each of which reads the document anew
            file, request = _request(folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomic(file, request)
        ProgressFile(folder).tell(OPENED, opened_s=now)
    except Exception:
        with suppress(Exception):  # the original failure matters more
            results().end(folder)
        raise
    return series


def write_series(folder: Path, experiment: Experiment, opened_s: float, facts: Mapping[str, Any]) -> Series:
    """Write the document of a series with these facts, and return the series."""
    document = {
        "v": 1,
        "series_id": folder.name,
        "experiment": experiment.name,
        "spec": experiment.as_data(),
        "runs": [run.run_id for run in plan_runs(experiment)],
        "opened_s": opened_s,
        **facts,
    }
    write_json_atomic(SeriesPaths(folder).series_json, document)
    return Series(folder, experiment, document["opened_s"])


def require_spec(folder: Path) -> None:
    """Raise ExperimentError where a series' request is not the one that a task opened it with: who may write to the
    results, or a bucket, must not name what later tasks start."""
    file, request = _request(folder)
    if (read_json_or_none(file) or request) != request:
        raise ExperimentError(
            f"{folder}/series.json asks for something else than when the series was opened: somebody has changed it;"
            " start a new series with --new (in a trigger form: series: new)"
        )


def _request(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the file for a series' request in the state folder, and its digest as the series' document has it."""
    spec = json.dumps(series_document(folder).get("spec"), sort_keys=True)
    return state_dir() / "series" / f"{folder.name}.json", {"spec_sha256": hashlib.sha256(spec.encode()).hexdigest()}


def trace_contents(experiment: Experiment, kept_in: Path | None) -> dict[str, bytes]:
    """Return the traces that its events follow, by their digests; `kept_in`: a series that has them already. Raises
    ExperimentError where one has changed."""
    contents = {}
    for place, event in enumerate(experiment.events):
        if isinstance(event, Trace):
            original = ROOT / event.file
            copies = [SeriesPaths(kept_in).trace(event.sha256)] if kept_in else []
            content = _content_of(event.sha256, [*copies, original])
            if content is None:
                raise ExperimentError(
                    f"events.{place}.file is {event.file}, and {original}"
                    f" {'has changed' if original.is_file() else 'is gone'}; the request needs the file whose SHA-256"
                    f" begins with {event.sha256[:12]}; restore it, or start a new series"
                )
            contents[event.sha256] = content
    return contents


def _content_of(sha256: str, paths: Sequence[Path]) -> bytes | None:
    """Return the content of the first file with this digest: a full disk may have cut a copy short."""
    contents = (path.read_bytes() for path in paths if path.is_file())
    return next((each for each in contents if hashlib.sha256(each).hexdigest() == sha256), None)


def keep_traces(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Store traces in the folder of a series, where its runs find them."""
    for sha256, content in contents.items():
        keep_bytes(SeriesPaths(folder).trace(sha256), content)


def _require_same_measurement(series: Series, today: Mapping[str, Any]) -> None:
    """Raise ExperimentError where the missing runs would not be comparable with those of another version, or with those
    that code other than `today`'s simulated."""
    records = [read_run(series.run_folder(name)) or {} for name in sorted(series.complete())]
    if not (records and series.missing_runs()):
        return
    if runs := [record for record in records if record.get("measurement", 1) != provenance.MEASUREMENT]:
        raise ExperimentError(
            f"{series.folder} has {_number(runs)} that another version of Barograph measured"
            f" ({_commits(runs)}): that version applied another load after restarts or counted differently, so the"
            " missing runs would not be comparable; start a new series with --new (in a trigger form: series: new), or"
            " finish this one with the code of that commit"
        )
    is_model = "code_sha256" in today
    if runs := [record for record in records if is_model and not provenance.is_of_code(record, today)]:
        raise ExperimentError(
            f"{series.folder} has {_number(runs)} that other code simulated ({_commits(runs)}) than the work tree's"
            f" ({provenance.code_words(today)}), so the missing runs would be another model's; start a new series with"
            " --new (in a trigger form: series: new), or finish this one with that code"
        )


def _number(runs: Sequence[Mapping[str, Any]]) -> str:
    return "a run" if len(runs) == 1 else f"{len(runs)} runs"


def _commits(runs: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({provenance.code_words(run) for run in runs}))


def read_series(folder: Path) -> Series:
    """Return the series in a folder. Raises ExperimentError where the folder holds none."""
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


def find_series(name: str, testbed: str | None = None) -> Path:
    """Return a series by its folder, its id, or an experiment's name (then its newest). Raises ExperimentError.
    `testbed`: the testbed of an experiment's newest series; None: machines, not simulated. A name in a bucket works
    too; the files that reports need have been fetched."""
    place = results()
    if (Path(name) / "series.json").is_file() and not Path(name).absolute().is_relative_to(place.root):
        return Path(name).absolute()
    place.refresh()
    everything = series_folders(place.root)
    by_name = [each.absolute() for each in (Path(name), place.root / name) if (each / "series.json").is_file()]
    by_name += [each for each in reversed(everything) if each.name == name]
    mine = [folder for folder in everything if experiment_of(folder) == name]
    matches = sorted((folder for folder in mine if is_of_testbed(folder, testbed)), key=lambda folder: folder.name)
    if not by_name and mine and not matches:
        raise ExperimentError(
            f"no series of {name}{_of_testbed(testbed) or ' on machines'}{_simulated_remark(mine)}; run the experiment,"
            " or name a series"
        )
    if not by_name and not matches:
        having = ", ".join(sorted({experiment_of(folder) for folder in everything})) or "nothing yet"
        message = f"no series {name!r}; give a folder results/<experiment>/<series>, a series id or an experiment"
        raise ExperimentError(f"{message}; there are series of {having}")
    folder = by_name[0] if by_name else matches[-1]
    place.refresh(folder.relative_to(place.root).as_posix(), digest=True)
    return folder


def find_all_series(name: str, testbed: str | None = None, say: Say = lambda _: None) -> list[Path]:
    """Return the series of a name, or all that match a pattern: `stela/*` the newest of each experiment, `stela/star/*`
    every one. `testbed`: only series from it; None: from machines, not simulated. `say` gets the number of omitted
    simulated ones. Raises ExperimentError for none."""
    place = results()
    if not PATTERN.intersection(name) or (Path(name) / "series.json").is_file():
        matches = [find_series(name, testbed)]
        fitting = [folder for folder in series_folders(place.root) if experiment_of(folder) == name]
    else:
        place.refresh()
        newest: dict[str, Path] = {}
        fitting = []
        for folder in series_folders(place.root):
            key = folder.relative_to(place.root).as_posix() if name.count("/") > 1 else experiment_of(folder)
            if fnmatchcase(key, name):
                fitting.append(folder)
                newest |= {key: folder} if is_of_testbed(folder, testbed) else {}
        if not newest:
            raise ExperimentError(
                f"no series{_of_testbed(testbed)} fits {name!r}{_simulated_remark(fitting)}; a pattern is of"
                " experiments, stela/*, or of series, stela/star/*"
            )
        matches = list(newest.values())
        for folder in matches:
            place.refresh(folder.relative_to(place.root).as_posix(), digest=True)
    simulated = [] if testbed else [folder for folder in fitting if is_simulated_series(folder)]
    if words := simulated_words(len(set(simulated) - set(matches))):
        say(f"{name}: {words}; --testbed {SIMULATED} takes {'it' if len(simulated) == 1 else 'them'}")
    return matches


def _of_testbed(testbed: str | None) -> str:
    return "" if testbed is None else f" of the testbed {testbed}"


def _simulated_remark(folders: Sequence[Path]) -> str:
    names = [folder.name for folder in folders if is_simulated_series(folder)]
    return f" ({len(names)} simulated: name one by its id, such as {names[-1]})" if names else ""


def unfinished_series(experiment: Experiment) -> Series | None:
    """Return the newest series of exactly this request, if it has runs to do or its execution ended before its
    report."""
    newest = newest_series(experiment)
    return newest if newest is not None and not newest.is_finished() else None


def complete_series(experiment: Experiment) -> Series | None:
    """Return the newest series of exactly this request, if it has a complete record of every run and a report."""
    newest = newest_series(experiment)
    return newest if newest is not None and newest.is_finished() else None


def newest_series(experiment: Experiment) -> Series | None:
    """Return the newest series of exactly this request."""
    ours = _series_of(experiment)
    return ours[-1] if ours and (ours[-1].folder / "series.json").is_file() else None


def _series_of(experiment: Experiment) -> list[Series]:
    experiment = resolve_experiment(experiment)
    results().refresh(experiment.name)
    folders = sorted(results_root().glob(f"{experiment.name}/*-{digest(experiment)}"))
    return [Series(folder, experiment, 0.0) for folder in folders]


def series_of_dag_run(experiment: Experiment) -> Series | None:
    """Return the newest series of exactly this request that this task's DAG run opened, and that nobody opened
    since."""
    run = dag_run()
    return next((series for series in reversed(_series_of(experiment)) if run and _dag_run_of(series) == run), None)


def _dag_run_of(series: Series) -> str:
    """Return its DAG run, empty where there was none, or its document lacks it."""
    return str((read_json_or_none(SeriesPaths(series.folder).series_json) or {}).get("dag_run", ""))


def new_folder(path_at: Callable[[float], Path], now_s: float) -> Path:
    """Make the folder of that moment, or of a later second where there is one already, and return it."""
    while True:
        try:
            path_at(now_s).mkdir(parents=True)
        except FileExistsError:  # twice within one second
            now_s += 1
        else:
            return path_at(now_s)


DEADLINE_FILE = "deadline.json"


def set_deadline(series: Series, until_s: float) -> None:
    """Set the deadline of this execution alone: a later execution does not have it."""
    write_json_atomic(series.folder / DEADLINE_FILE, {"v": 1, "opened_s": series.opened_s, "until_s": until_s})


def deadline_s(series: Series) -> float | None:
    with suppress(RecordError, KeyError):
        document = read_json(series.folder / DEADLINE_FILE)
        return float(document["until_s"]) if document["opened_s"] == series.opened_s else None
    return None


def too_late(series: Series, now_s: float, overhead: Overhead | None = None) -> str:
    """Return why no further run begins; empty while there is time for one, by its expected length."""
    end_s = deadline_s(series)
    if end_s is None:
        return ""
    needed_s = run_s(series.experiment, median_overhead(series.experiment.testbed) if overhead is None else overhead)
    if now_s + needed_s <= end_s:
        return ""
    end = time.strftime("%H:%M", time.localtime(end_s))
    return f"deadline {end}: a further run would take about {needed_s / 60:.0f} min, which is more than is left"
