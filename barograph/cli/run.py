"""`barograph run`: check, prepare, start the DAG in a child process, show it, and print what it measured.

With several names or a glob such as 'stela/*' each experiment gets its own series, in order of name; the failure of
one does not stop the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.record.files import SeriesPaths
from barograph.cli.arguments import add_renamed, add_testbed, comma_separated, testbed_options
from barograph.cli.execution import carry_out, prepare
from barograph.cli.terminal import line_printer, stdout_console
from barograph.code.refs import resolve_experiment
from barograph.errors import (
    EXIT_CODES,
    INTERRUPTED_EXIT,
    ExperimentError,
    Interrupted,
    blame_of,
    message_of,
    worst_exit,
)
from barograph.plan.durations import series_s
from barograph.plan.experiment import Experiment, load, names, with_changes
from barograph.series.results import results, write_index
from barograph.series.series import Series, complete_series, unfinished_series
from barograph.series.status import hours
from barograph.settings import results_root


def add_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "experiment", nargs="+", help="family/name as `barograph list` shows it, several of them, or a quoted glob such"
        " as 'stela/*'; of several, those that are complete are skipped",
    )  # fmt: skip
    run.add_argument("--variants", type=comma_separated, metavar="A,B", help="only these variants")
    run.add_argument("--repetitions", type=int, metavar="N", help="runs of each variant, instead of the experiment's")
    run.add_argument("--horizon", type=float, metavar="S", help="seconds watched after an event, at most")
    add_testbed(run)
    add_renamed(run, "--policies", "--variants")
    run.add_argument("--new", action="store_true", help="begin a new series even where one is unfinished")
    run.add_argument("--demo", action="store_true", help="one short run of each variant")
    run.add_argument("--rebuild", action="store_true", help="build the code of variants again, even what failed before")


def execute(options: argparse.Namespace) -> int:
    changes = {
        "variants": options.variants,
        "repetitions": options.repetitions,
        "horizon_s": options.horizon,
        "testbed": options.testbed,
        "options": testbed_options(options.option),
        "demo": options.demo or None,
    }
    console = stdout_console()
    if not is_suite(options.experiment):
        return run(options.experiment[0], changes, new=options.new, console=console, rebuild=options.rebuild)
    if options.rebuild:
        raise ExperimentError("--rebuild is for one experiment; name one, and run the others after it")
    return run_suite(options.experiment, changes, new=options.new, console=console)


def run(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> int:
    """The exit code. Raises errors with `blame` where nothing was started."""
    return carry_out(prepare(name, changes, new=new, console=console, rebuild=rebuild), console)


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
    everything = names() if known is None else known
    matches = {pattern: [name for name in everything if fnmatchcase(name, pattern)] for pattern in patterns}
    strangers = [pattern for pattern, fitting in matches.items() if not fitting]
    if strangers:
        raise ExperimentError(f"no experiment is called {', '.join(strangers)}; there are: {', '.join(everything)}")
    return tuple(sorted({name for fitting in matches.values() for name in fitting}))


def run_suite(patterns: Sequence[str], changes: Mapping[str, Any], *, new: bool, console: Console) -> int:
    """The exit code of the worst. Raises ExperimentError, before anything is started, for a name that is not known."""
    selected, say = select_experiments(patterns), line_printer(console)
    say(estimate_suite(selected, changes, new=new))
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
    """How much is to do; an experiment that cannot be read counts as nothing here, and fails in its turn."""
    work = [_work_left(name, changes, new) for name in selected]
    runs, seconds = sum(runs for runs, _ in work), sum(seconds for _, seconds in work)
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
    return series.missing_runs() if series else experiment.repetitions * len(experiment.variants)


def run_one(name: str, changes: Mapping[str, Any], *, new: bool, console: Console) -> SuiteRow:
    """Skip it where it is done, else resume or begin its series. Its failure is a row, not an exception."""
    say = line_printer(console)
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
        outcome = f"{blame_of(error).replace('_', ' ')}: {message_of(error)}"
        say(f"{name}: {outcome}")
        return SuiteRow(name, outcome, EXIT_CODES[blame_of(error)], series)
    return SuiteRow(name, "interrupted" if code == INTERRUPTED_EXIT else "complete", code, series)


def show_suite(rows: Sequence[SuiteRow], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "runs", "outcome"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(row.experiment, row.runs, row.outcome)
    console.print(table)
    say = line_printer(console)
    for row in rows:
        if row.report is not None:
            say(f"{row.experiment}: {row.report}")


def family_reports(rows: Sequence[SuiteRow], console: Console) -> list[SuiteRow]:
    """One report over each family's newest series; a row for each that failed."""
    failed, say = [], line_printer(console)
    for family in sorted({row.experiment.partition("/")[0] for row in rows}):
        try:
            path = _family_report(family, rows)
        except Exception as error:  # noqa: BLE001 - the measurements are there, only the report is not
            failed.append(SuiteRow(family, message_of(error), EXIT_CODES[blame_of(error)]))
            say(f"{family}: no report of the family: {blame_of(error).replace('_', ' ')}: {message_of(error)}")
        else:
            say(f"{family}: {path}" if path else f"{family}: nothing to report on")
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
    newest_folders = []
    for name in names():
        if name.partition("/")[0] != family:
            continue
        newest = sorted((results_root() / name).glob("*/series.json"), key=lambda path: path.parent.name, reverse=True)
        folders = [own[name]] if name in own and _report_of(own[name]) else [path.parent for path in newest]
        newest_folders += [folder for folder in folders if _report_of(folder)][:1]
    return newest_folders


def _report_of(series_dir: Path) -> Path | None:
    path = SeriesPaths(series_dir).report
    return path if path.is_file() else None
