"""`barograph run`: check, prepare, start the DAG in a child process, show it, and print what it measured.

With several names or a glob such as 'stela/*' each experiment gets its own series, in order of name; the failure of
one does not stop the others.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.record.files import SeriesPaths
from barograph.cli.dag_process import DagProcess, signals_as_interrupt
from barograph.cli.view import View, view_for
from barograph.code.refs import resolve_experiment, uncommitted_remark
from barograph.errors import (
    EXIT_CODES,
    INTERRUPTED_EXIT,
    BarographError,
    ExperimentError,
    Interrupted,
    RunsFailed,
    blame_of,
    message_of,
    worst_exit,
)
from barograph.machines import holdings
from barograph.plan.checks import IN_MEMORY_TESTBEDS, check, remarks
from barograph.plan.costs import Cost, cost_lines, usd
from barograph.plan.durations import series_s
from barograph.plan.experiment import Experiment, load, names, with_changes
from barograph.series.results import results, send_waiting, write_index
from barograph.series.series import Series, complete_series, open_series, series_document, unfinished_series
from barograph.series.status import SeriesStatus, hours, initial_status
from barograph.series.variant_code import prepare_code
from barograph.settings import airflow_home, results_root
from barograph.software import BRIDGE, TOPOLOGIES, build_jar, storm_home

Tell = Callable[[str], None]


class UnfitBox(BarographError):
    """Something on this box has to be mended first; nothing was touched."""

    def __init__(self, message: str, blame: str) -> None:
        super().__init__(message)
        self.blame = blame


def require_fit_box(tell: Tell) -> None:
    """Raises BoxUnfit listing what is fatal; says what is only a limit."""
    from inventory.local import preflight

    problems = preflight.check_box()
    fatal = [problem for problem in problems if problem.fatal]
    missing = java_problems()
    if fatal or missing:
        said = [str(problem) for problem in fatal] + missing
        raise UnfitBox("; ".join(said), fatal[0].blame if fatal else "configuration")
    for problem in problems:
        tell(f"note: {problem}")


def java_problems() -> list[str]:
    """What building and submitting need beside the testbed's own programs."""
    found = []
    if shutil.which("mvn") is None:
        found.append("mvn is not installed; apt-get install maven")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        found.append("Java 17 is not installed; apt-get install openjdk-17-jdk-headless")
    return found


def software_parts() -> Mapping[str, Callable[[Tell], object]]:
    """The parts in the order in which they are made; a part that is there costs only the look."""
    return {
        "root filesystem of the machines": _root_filesystem,
        "topologies (Java)": lambda tell: build_jar(TOPOLOGIES, tell),
        "scheduler bridge (Java)": lambda tell: build_jar(BRIDGE, tell),
        "Storm home": storm_home,
        "Airflow's database": _airflow,
    }


def prepare_software(tell: Tell) -> None:
    """Make every part that is not there; says what took more than a second."""
    for name, make in software_parts().items():
        begin_s = time.monotonic()
        make(tell)
        took_s = time.monotonic() - begin_s
        if took_s > 1:
            tell(f"{name}: ready after {took_s:.0f} s")


def _root_filesystem(tell: Tell) -> object:
    from inventory.local.rootfs import build, cache_dir

    return build(cache_dir(), tell)


def _airflow(tell: Tell) -> object:
    from barograph.airflow_environment import prepare, ready

    if not ready(airflow_home()):
        tell("Airflow: making its database")
    return prepare(airflow_home())


def run(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> int:
    """The exit code. Raises errors with `blame` where nothing was started."""
    return carry_out(prepare(name, changes, new=new, console=console, rebuild=rebuild), console)


@dataclass(frozen=True)
class Ending:
    """What an execution says at its end: the answer, once there is a report, and how to go on after an interruption."""

    show: Callable[[Path, Console], None]
    again: str


def carry_out(series: Series, console: Console, ending: Ending | None = None) -> int:
    """The exit code: 0, or that of an interruption. Raises RunsFailed."""
    last = ending or Ending(_show_claims, f"barograph run {series.experiment.name}, with the same options")
    supervised: DagProcess | None = None
    with signals_as_interrupt(), view_for(console, initial_status(series.left(), series.experiment)) as view:
        try:
            supervised = DagProcess(series.folder)
            code = supervised.follow(view)
        except KeyboardInterrupt:
            view.say("interrupted: keeping what was measured, releasing machines (once more to hurry)")
            return _end_interrupted(series, supervised, view, last)
    return _finish(series, view.story, code, console, last)


def prepare(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """What is asked for, validated, with its series opened."""
    return prepare_series(with_changes(load(name), changes), new=new, console=console, rebuild=rebuild)


def prepare_series(experiment: Experiment, *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """Everything that can be said before machines are touched, then the software, then the series.

    `rebuild`: also code of variants that was built, or failed to build, before.
    """
    from barograph.airflow_environment import prepare as prepare_airflow
    from barograph.machines.provision import require_free_testbed

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    experiment = resolve_experiment(experiment)
    local = experiment.testbed.name == "local"
    if local:
        require_fit_box(say)
    for line in _reap_first(experiment.testbed.name):
        say(line)
    check(experiment)
    require_free_testbed(experiment)
    results().require()
    send_waiting(say)
    for remark in all_remarks(experiment):
        say(remark)
    cost = holdings.estimate_cost(experiment, new=new)
    for line in cost_remarks(cost):
        say(line)
    if experiment.testbed.name not in IN_MEMORY_TESTBEDS:
        prepare_software(say)
    else:
        from barograph.settings import airflow_home

        prepare_airflow(airflow_home())
    prepare_code(experiment, say, rebuild=rebuild)
    series = open_series(experiment, new=new, estimate=cost.as_data() if cost else None)
    resumed = series_document(series.folder)["resumed"]
    begun, left = "resuming" if resumed else "new", series.left()
    time_s = hours(series_s(experiment, left))
    say(f"{begun} series {series.folder}: {left} of {len(series.plan())} runs to do, about {time_s}")
    return series


def _reap_first(testbed: str) -> list[str]:
    """Raises NotReaped only where this experiment's testbed is not free of remains: others must not keep it."""
    from barograph.machines.reaper import require_all_released, sweep

    rows = sweep(dry_run=False)
    require_all_released(tuple(row for row in rows if row.testbed == testbed))
    return [f"reaped {row}" if row.error is None else f"warning: not reaped: {row}: {row.error}" for row in rows]


def all_remarks(experiment: Experiment) -> tuple[str, ...]:
    """What is worth saying of an experiment, and of changes of its code that no commit has."""
    changed = uncommitted_remark(experiment)
    return (*remarks(experiment), *([] if changed is None else [changed]))


def cost_remarks(cost: Cost | None) -> list[str]:
    """What it may cost, and whether what ends forgotten machines is awake; nothing where machines cost nothing."""
    if cost is None:
        return []
    from barograph.machines.reaper import health_warning

    asleep = health_warning(time.time())
    return [*cost_lines(cost), *([asleep] if asleep else [])]


def _say_cost(series: Series, say: Callable[[str], None]) -> None:
    """The bill: what was used beside what was estimated."""
    from analysis.record.files import SeriesPaths, read_json

    estimates = read_json(SeriesPaths(series.folder).series_json).get("estimates", [])
    stand = holdings.usage_so_far(series)
    if not estimates or "used_usd" not in stand:
        return
    last = estimates[-1]
    before = last["spent_before_usd"]
    say(
        f"money: {usd(stand['used_usd'])} used for {stand['machine_hours']:.2f} machine-hours; estimated were about"
        f" {usd(before + last['expected_usd'])}, at most {usd(before + last['longest_usd'])}, of a budget of"
        f" {usd(stand['budget_usd'])}"
    )


def _end_interrupted(series: Series, supervised: DagProcess | None, view: View, ending: Ending) -> int:
    by_itself = supervised.end(view) if supervised is not None else True
    if not by_itself:
        from barograph.machines.provision import release

        release(series.folder)
    view.say(f"{len(series.complete())} of {len(series.plan())} runs are complete in {series.folder}")
    _say_cost(series, view.say)
    # With every run there, the same command again would begin a new series.
    view.say(f"to resume: {ending.again}" if series.left() else f"to analyse it: barograph report {series.folder}")
    return INTERRUPTED_EXIT


def _show_claims(series_dir: Path, console: Console) -> None:
    from barograph.cli.claims import show_claims

    show_claims(series_dir, console)


def _finish(series: Series, story: SeriesStatus, code: int, console: Console, ending: Ending) -> int:
    if story.report:
        ending.show(series.folder, console)
        console.print(f"report: {story.report}", markup=False, highlight=False, soft_wrap=True)
    _say_cost(series, lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True))
    if code == INTERRUPTED_EXIT:
        return code
    if code != 0:
        blame, message = story.failure or ("harness", f"the DAG's process ended with {code}")
        raise RunsFailed(f"{message}; log: {series.folder / 'harness.log'}", blame)
    return 0


@dataclass(frozen=True)
class SuiteRow:
    """What became of one experiment; `code` is its exit code, `series` None where none was opened."""

    experiment: str
    outcome: str
    code: int
    series: Series | None = None

    @property
    def runs(self) -> str:
        return f"{len(self.series.complete())} of {len(self.series.plan())}" if self.series else "–"

    @property
    def report(self) -> Path | None:
        return _report_of(self.series.folder) if self.series else None


def is_suite(patterns: Sequence[str]) -> bool:
    return len(patterns) > 1 or any(character in patterns[0] for character in "*?[")


def select_experiments(patterns: Sequence[str], known: Sequence[str] | None = None) -> tuple[str, ...]:
    """The experiments that the names and globs mean, each once, sorted. Raises ExperimentError for one without any."""
    there = names() if known is None else known
    found = {pattern: [name for name in there if fnmatchcase(name, pattern)] for pattern in patterns}
    strangers = [pattern for pattern, fitting in found.items() if not fitting]
    if strangers:
        raise ExperimentError(f"no experiment is called {', '.join(strangers)}; there are: {', '.join(there)}")
    return tuple(sorted({name for fitting in found.values() for name in fitting}))


def run_suite(patterns: Sequence[str], changes: Mapping[str, Any], *, new: bool, console: Console) -> int:
    """The exit code of the worst. Raises ExperimentError, before anything is started, for a name that is not known."""
    selected = select_experiments(patterns)
    console.print(estimate_suite(selected, changes, new=new), markup=False, highlight=False, soft_wrap=True)
    rows: list[SuiteRow] = []
    for name in selected:
        rows.append(run_one(name, changes, new=new, console=console))
        if rows[-1].code == INTERRUPTED_EXIT:
            break
    show_suite(rows, console)
    if rows[-1].code != INTERRUPTED_EXIT:
        rows += family_reports(rows, console)
    return worst_exit([row.code for row in rows])


def estimate_suite(selected: Sequence[str], changes: Mapping[str, Any], *, new: bool) -> str:
    """How much is to do; an experiment that cannot be read takes no time and is told of in its turn."""
    left = [_work_left(name, changes, new) for name in selected]
    runs, seconds = sum(runs for runs, _ in left), sum(seconds for _, seconds in left)
    return f"{len(selected)} experiment{'s'[: len(selected) - 1]}, {runs} runs to do, about {hours(seconds)}"


def _work_left(name: str, changes: Mapping[str, Any], new: bool) -> tuple[int, float]:
    try:
        experiment = resolve_experiment(with_changes(load(name), changes))
    except ExperimentError:
        return 0, 0.0
    runs = _runs_left(experiment, new)
    return runs, series_s(experiment, runs)


def _runs_left(experiment: Experiment, new: bool) -> int:
    if not new and complete_series(experiment):
        return 0
    series = None if new else unfinished_series(experiment)
    return series.left() if series else experiment.repetitions * len(experiment.variants)


def run_one(name: str, changes: Mapping[str, Any], *, new: bool, console: Console) -> SuiteRow:
    """Skip it where it is done, else resume or begin its series. Never raises what is the experiment's own failure."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    series: Series | None = None
    try:
        experiment = with_changes(load(name), changes)
        series = None if new else complete_series(experiment)
        if series is not None:
            say(f"{name}: complete in {series.folder}; skipped (--new does it again)")
            return SuiteRow(name, "was complete", 0, series)
        series = prepare(name, changes, new=new, console=console)
        code = carry_out(series, console)
    except (KeyboardInterrupt, Interrupted):
        return SuiteRow(name, "interrupted", INTERRUPTED_EXIT, series)
    except Exception as error:  # noqa: BLE001 - the table says whose failure it was, and the next experiment goes on
        said = f"{blame_of(error).replace('_', ' ')}: {message_of(error)}"
        say(f"{name}: {said}")
        return SuiteRow(name, said, EXIT_CODES[blame_of(error)], series)
    return SuiteRow(name, "interrupted" if code == INTERRUPTED_EXIT else "complete", code, series)


def show_suite(rows: Sequence[SuiteRow], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "runs", "outcome"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(row.experiment, row.runs, row.outcome)
    console.print(table)
    for row in rows:
        if row.report is not None:
            console.print(f"{row.experiment}: {row.report}", markup=False, highlight=False, soft_wrap=True)


def family_reports(rows: Sequence[SuiteRow], console: Console) -> list[SuiteRow]:
    """One report over each family's newest series; a row for each that could not be made."""
    failed = []
    for family in sorted({row.experiment.partition("/")[0] for row in rows}):
        try:
            path = _family_report(family, rows)
        except Exception as error:  # noqa: BLE001 - what was measured is there; only its report is not
            failed.append(SuiteRow(family, message_of(error), EXIT_CODES[blame_of(error)]))
            said = f"{family}: no report of the family: {blame_of(error).replace('_', ' ')}: {message_of(error)}"
        else:
            said = f"{family}: {path}" if path else f"{family}: nothing to report on"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    return failed


def _family_report(family: str, rows: Sequence[SuiteRow]) -> Path | None:
    place = results()
    place.refresh(family, digest=True)
    series_dirs = family_series(family, {row.experiment: row.series.folder for row in rows if row.series})
    if not series_dirs:
        return None
    from analysis.pipeline import family_report

    page = family_report(series_dirs, place.root / family / "report.html")
    for file in (page, *sorted((page.parent / "figures").iterdir())):
        place.keep(file)
    write_index()
    return page


def family_series(family: str, own: Mapping[str, Path]) -> list[Path]:
    """Of each experiment of the family: its series of this suite, or else its newest one, if it has a report."""
    found = []
    for name in names():
        if name.partition("/")[0] != family:
            continue
        newest = sorted((results_root() / name).glob("*/series.json"), key=lambda path: path.parent.name, reverse=True)
        folders = [own[name]] if name in own and _report_of(own[name]) else [path.parent for path in newest]
        found += [folder for folder in folders if _report_of(folder)][:1]
    return found


def _report_of(series_dir: Path) -> Path | None:
    path = SeriesPaths(series_dir).report
    return path if path.is_file() else None
