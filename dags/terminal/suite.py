"""`barograph run 'stela/*'`: several experiments in order of name, a series each; a failure does not stop the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.record import SeriesPaths
from dags.duration import series_s
from dags.errors import (
    EXIT_CODES,
    INTERRUPTED_EXIT,
    ExperimentError,
    Interrupted,
    blame_of,
    message_of,
    worst_exit,
)
from dags.experiment import Experiment, load, names
from dags.places import results_root
from dags.request import requested
from dags.results import results, write_index
from dags.series import Series, finished, resumable
from dags.sources.refs import resolved
from dags.terminal.run import carry_out, prepare
from dags.terminal.story import hours


@dataclass(frozen=True)
class Row:
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
        return _report(self.series.folder) if self.series else None


def is_suite(patterns: Sequence[str]) -> bool:
    return len(patterns) > 1 or any(character in patterns[0] for character in "*?[")


def chosen(patterns: Sequence[str], known: Sequence[str] | None = None) -> tuple[str, ...]:
    """The experiments that the names and globs mean, each once, sorted. Raises ExperimentError for one without any."""
    there = names() if known is None else known
    found = {pattern: [name for name in there if fnmatchcase(name, pattern)] for pattern in patterns}
    strangers = [pattern for pattern, fitting in found.items() if not fitting]
    if strangers:
        raise ExperimentError(f"no experiment is called {', '.join(strangers)}; there are: {', '.join(there)}")
    return tuple(sorted({name for fitting in found.values() for name in fitting}))


def run_suite(patterns: Sequence[str], changes: Mapping[str, Any], *, new: bool, console: Console) -> int:
    """The exit code of the worst. Raises ExperimentError, before anything is started, for a name that is not known."""
    selected = chosen(patterns)
    console.print(estimate(selected, changes, new=new), markup=False, highlight=False, soft_wrap=True)
    rows: list[Row] = []
    for name in selected:
        rows.append(do_one(name, changes, new=new, console=console))
        if rows[-1].code == INTERRUPTED_EXIT:
            break
    show(rows, console)
    if rows[-1].code != INTERRUPTED_EXIT:
        rows += family_reports(rows, console)
    return worst_exit([row.code for row in rows])


def estimate(selected: Sequence[str], changes: Mapping[str, Any], *, new: bool) -> str:
    """How much is to do; an experiment that cannot be read takes no time and is told of in its turn."""
    left = [_left(name, changes, new) for name in selected]
    runs, seconds = sum(runs for runs, _ in left), sum(seconds for _, seconds in left)
    return f"{len(selected)} experiment{'s'[: len(selected) - 1]}, {runs} runs to do, about {hours(seconds)}"


def _left(name: str, changes: Mapping[str, Any], new: bool) -> tuple[int, float]:
    try:
        experiment = resolved(requested(load(name), changes))
    except ExperimentError:
        return 0, 0.0
    runs = _runs_left(experiment, new)
    return runs, series_s(experiment, runs)


def _runs_left(experiment: Experiment, new: bool) -> int:
    if not new and finished(experiment):
        return 0
    series = None if new else resumable(experiment)
    return series.left() if series else experiment.repetitions * len(experiment.variants)


def do_one(name: str, changes: Mapping[str, Any], *, new: bool, console: Console) -> Row:
    """Skip it where it is done, else resume or begin its series. Never raises what is the experiment's own failure."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    series: Series | None = None
    try:
        experiment = requested(load(name), changes)
        series = None if new else finished(experiment)
        if series is not None:
            say(f"{name}: complete in {series.folder}; skipped (--new does it again)")
            return Row(name, "was complete", 0, series)
        series = prepare(name, changes, new=new, console=console)
        code = carry_out(series, console)
    except (KeyboardInterrupt, Interrupted):
        return Row(name, "interrupted", INTERRUPTED_EXIT, series)
    except Exception as error:  # noqa: BLE001 - the table says whose failure it was, and the next experiment goes on
        said = f"{blame_of(error).replace('_', ' ')}: {message_of(error)}"
        say(f"{name}: {said}")
        return Row(name, said, EXIT_CODES[blame_of(error)], series)
    return Row(name, "interrupted" if code == INTERRUPTED_EXIT else "complete", code, series)


def show(rows: Sequence[Row], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "runs", "outcome"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(row.experiment, row.runs, row.outcome)
    console.print(table)
    for row in rows:
        if row.report is not None:
            console.print(f"{row.experiment}: {row.report}", markup=False, highlight=False, soft_wrap=True)


def family_reports(rows: Sequence[Row], console: Console) -> list[Row]:
    """One report over each family's newest series; a row for each that could not be made."""
    failed = []
    for family in sorted({row.experiment.partition("/")[0] for row in rows}):
        try:
            path = _family_report(family, rows)
        except Exception as error:  # noqa: BLE001 - what was measured is there; only its report is not
            failed.append(Row(family, message_of(error), EXIT_CODES[blame_of(error)]))
            said = f"{family}: no report of the family: {blame_of(error).replace('_', ' ')}: {message_of(error)}"
        else:
            said = f"{family}: {path}" if path else f"{family}: nothing to report on"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    return failed


def _family_report(family: str, rows: Sequence[Row]) -> Path | None:
    place = results()
    place.refresh(family, digest=True)
    series_dirs = family_series(family, {row.experiment: row.series.folder for row in rows if row.series})
    if not series_dirs:
        return None
    from analysis import family_report

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
        folders = [own[name]] if name in own and _report(own[name]) else [path.parent for path in newest]
        found += [folder for folder in folders if _report(folder)][:1]
    return found


def _report(series_dir: Path) -> Path | None:
    path = SeriesPaths(series_dir).report
    return path if path.is_file() else None
