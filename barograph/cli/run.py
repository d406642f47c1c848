"""`barograph run`: check, prepare, carry the series out in a child process, show it, and print what it measured.

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

from analysis.record.files import SeriesPaths
from analysis.record.simulated import is_simulated_series
from analysis.record.sweep_record import newest_sweeps
from barograph.cli.arguments import add_changes, changes_of
from barograph.cli.execution import carry_out
from barograph.cli.preparation import prepare
from barograph.cli.terminal import line_printer, plain_table, stdout_console
from barograph.code.git import resolve_experiment
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, ExperimentError, blame_of, message_of, worst_exit
from barograph.plan.durations import series_s
from barograph.plan.experiment import load, names, with_changes
from barograph.series.progress import hours
from barograph.series.results import results, write_index
from barograph.series.series import Series, complete_series, newest_series
from barograph.settings import results_root


def add_run_arguments(run: argparse.ArgumentParser) -> None:
    add = run.add_argument
    add("experiment", nargs="+",
        help="family/name as `barograph list` shows it, several of them, or a quoted glob such as"
        " 'stela/*'; of several, those that are complete are skipped")  # fmt: skip
    add_changes(run)
    add("--new", action="store_true", help="begin a new series even where one is unfinished")
    add("--demo", action="store_true", help="one short run of each variant")
    add("--rebuild", action="store_true", help="of one experiment: build its variants' code again")


def execute_run(options: argparse.Namespace) -> int:
    changes = changes_of(options) | {"demo": options.demo or None}
    console = stdout_console()
    if not is_suite(options.experiment):
        return run(options.experiment[0], changes, new=options.new, console=console, rebuild=options.rebuild)
    if options.rebuild:
        raise ExperimentError("--rebuild is for one experiment; name one, and run the others after it")
    return run_suite(options.experiment, changes, new=options.new, console=console)


def run(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> int:
    """Run an experiment and return the exit code. Raises errors with `blame` where nothing was started."""
    return carry_out(prepare(name, changes, new=new, console=console, rebuild=rebuild), console)


@dataclass(frozen=True)
class SuiteRow:
    """The outcome of one experiment; `code` is its exit code, `series` None where none was opened."""

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
    """Return the experiments that the names and globs match, each once, sorted. Raises ExperimentError for one without
    a match."""
    everything = names() if known is None else known
    matches = {pattern: [name for name in everything if fnmatchcase(name, pattern)] for pattern in patterns}
    strangers = [pattern for pattern, hits in matches.items() if not hits]
    if strangers:
        raise ExperimentError(f"no experiment is called {', '.join(strangers)}; there are: {', '.join(everything)}")
    return tuple(sorted({name for hits in matches.values() for name in hits}))


def run_suite(patterns: Sequence[str], changes: Mapping[str, Any], *, new: bool, console: Console) -> int:
    """Run the experiments and return the exit code of the worst. Raises ExperimentError, before anything is started,
    for an unknown name."""
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
    """Return the amount of work; an experiment that cannot be read counts as nothing here, and fails in its turn."""
    runs, seconds = 0, 0.0
    for name in selected:
        try:
            experiment = resolve_experiment(with_changes(load(name), changes))
        except ExperimentError:
            continue
        series = None if new else newest_series(experiment)
        left = experiment.repetitions * len(experiment.variants)
        if series is not None:
            left = series.missing_runs()
        runs, seconds = runs + left, seconds + series_s(experiment, left)
    return f"{len(selected)} experiment{'s'[: len(selected) - 1]}, {runs} runs to do, about {hours(seconds)}"


def run_one(name: str, changes: Mapping[str, Any], *, new: bool, console: Console) -> SuiteRow:
    """Skip the experiment where it is done, else resume or begin its series. Its failure is a row, not an exception."""
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
    except KeyboardInterrupt:
        return SuiteRow(name, "interrupted", INTERRUPTED_EXIT, series)
    except Exception as error:  # noqa: BLE001 - the table has the blame, and the next experiment goes on
        outcome = f"{blame_of(error).replace('_', ' ')}: {message_of(error)}"
        say(f"{name}: {outcome}")
        return SuiteRow(name, outcome, EXIT_CODES[blame_of(error)], series)
    return SuiteRow(name, "interrupted" if code == INTERRUPTED_EXIT else "complete", code, series)


def show_suite(rows: Sequence[SuiteRow], console: Console) -> None:
    table = plain_table("experiment", "runs", "outcome")
    for row in rows:
        table.add_row(row.experiment, row.runs, row.outcome)
    console.print(table)
    say = line_printer(console)
    for row in rows:
        if row.report is not None:
            say(f"{row.experiment}: {row.report}")


def family_reports(rows: Sequence[SuiteRow], console: Console) -> list[SuiteRow]:
    """Write one report over each family's newest series, and one over its simulated series if these include any; return
    a row for each that failed."""
    failure_rows, say = [], line_printer(console)
    pages = sorted({(row.experiment.partition("/")[0], _is_simulated(row)) for row in rows})
    for family, simulated in pages:
        try:
            path = _family_report(family, rows, simulated)
        except Exception as error:  # noqa: BLE001 - only the report is missing, not the measurements
            failure_rows.append(SuiteRow(family, message_of(error), EXIT_CODES[blame_of(error)]))
            say(f"{family}: no report of the family: {blame_of(error).replace('_', ' ')}: {message_of(error)}")
        else:
            say(f"{family}: {path}" if path else f"{family}: nothing to report on")
    return failure_rows


def _is_simulated(row: SuiteRow) -> bool:
    return row.series is not None and is_simulated_series(row.series.folder)


def _family_report(family: str, rows: Sequence[SuiteRow], simulated: bool) -> Path | None:
    """Write the report of series on machines, or of simulated ones: never of both."""
    place = results()
    place.refresh(family, digest=True)
    suite_series = {row.experiment: row.series.folder for row in rows if row.series and _is_simulated(row) == simulated}
    series_dirs = family_series(family, suite_series, simulated=simulated)
    if not series_dirs:
        return None
    from analysis.claims import ledger
    from analysis.report import family_page, index_page

    left_out = 0 if simulated else len(_reported(family, simulated=True))
    target = index_page.family_report(place.root, family, simulated=simulated)
    page = family_page.write(series_dirs, target, ledger.evaluate, simulated_only=simulated, left_out=left_out)
    for file in (page, *sorted((page.parent / family_page.figures_of(simulated)).iterdir())):
        place.keep(file)
    write_index()
    return page


def report_of_sweeps(family: str) -> Path | None:
    """Write the page of a family's simulated series and sweeps anew."""
    return _family_report(family, (), simulated=True)


def family_series(family: str, own: Mapping[str, Path], *, simulated: bool = False) -> list[Path]:
    """Return for each experiment of the family its series of this suite, or else its newest one, if it has a report.
    Either those on machines, or the simulated ones; `own` has only such."""
    newest = {folder.parent: folder for folder in _reported(family, simulated=simulated)}
    own_reported = {folder.parent: folder for folder in own.values() if folder.parent in newest and _report_of(folder)}
    return list((newest | own_reported).values())


def _reported(family: str, *, simulated: bool) -> list[Path]:
    """Return the family's series with a report, by experiment, older ones first; of simulated ones its newest sweeps
    too."""
    mine = [name for name in names() if name.partition("/")[0] == family]
    folders = [path.parent for name in mine for path in sorted((results_root() / name).glob("*/series.json"))]
    series = [folder for folder in folders if _report_of(folder) and is_simulated_series(folder) == simulated]
    sweeps = newest_sweeps(results_root()) if simulated else {}
    return [*series, *(paths.root for name, paths in sweeps.items() if name.partition("/")[0] == family)]


def _report_of(series_dir: Path) -> Path | None:
    path = SeriesPaths(series_dir).report
    return path if path.is_file() else None
