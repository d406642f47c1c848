"""`barograph sweep`: check every point of a sweep, simulate what is missing side by side, draw the curves."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from analysis import java
from barograph.cli.arguments import add_changes, changes_of, jobs_of
from barograph.cli.dag_process import signals_as_interrupt
from barograph.cli.run import report_of_sweeps
from barograph.cli.terminal import line_printer, stdout_console
from barograph.errors import (
    EXIT_CODES,
    INTERRUPTED_EXIT,
    BarographError,
    Say,
    blame_of,
    message_of,
    worst_exit,
)
from barograph.plan.sweep import Point, Sweep, load, point_words, require_simulated
from barograph.pool import Death, Pool
from barograph.series import hold
from barograph.series.interruption import limited
from barograph.series.provenance import code_of_today, code_words
from barograph.series.results import results
from barograph.series.status import minutes
from barograph.sweep import report
from barograph.sweep.folder import SweepFolder, note_failures, open_sweep, update_document
from barograph.sweep.point import CheckJob, Failure, PointJob, PointOutcome, death_failure, do, remove_cluster

SHOWN_COMPLAINTS = 10
LINE_EVERY_S = 10.0  # where the output is no terminal
LOOK_S = 0.5


def add_arguments(sweep: argparse.ArgumentParser) -> None:
    sweep.add_argument("file", help="an experiment's file with `sweep`, or the name of one of dags/sweeps/")
    sweep.add_argument(
        "--jobs", type=int, metavar="N", help="points simulated at once; without it as many as there are cores"
    )
    add_changes(sweep)
    sweep.add_argument("--new", action="store_true", help="begin anew even where the same sweep is there")


def execute(options: argparse.Namespace) -> int:
    jobs = jobs_of(options)
    return run_sweep(load(options.file, changes_of(options)), jobs, new=options.new, console=stdout_console())


def run_sweep(sweep: Sweep, jobs: int, *, new: bool, console: Console) -> int:
    """The exit code. Raises ExperimentError, before anything is simulated, for points that cannot be."""
    say = line_printer(console)
    results().require()
    java.require()
    points = sweep.points()
    require_simulated(sweep, points)
    say(f"{sweep.name}: {sweep.words()}, {sum(point.runs for point in points)} runs")
    with signals_as_interrupt(), Pool(do, min(jobs, len(points))) as pool:
        _check_all(sweep, points, pool, console)
        folder = open_sweep(sweep, points, new=new)
        with hold.held(folder.root):
            return _carry_out(folder, pool, console, say)


def _check_all(sweep: Sweep, points: Sequence[Point], pool: Pool[Any, PointOutcome], console: Console) -> None:
    """Raises ExperimentError with what is wrong, by point."""
    complaints: list[tuple[int, str, str]] = []
    with progress_view(console, "points checked", len(points)) as view:
        for point, outcome in _outcomes(pool, [CheckJob(point) for point in points], view):
            where = point_words(sweep.source, point.number, point.values)
            complaints += [(point.number, each.blame, f"{where}: {each.message}") for each in outcome.failures]
    if complaints:
        complaints.sort()
        more = len(complaints) - SHOWN_COMPLAINTS
        said = [text for _, _, text in complaints[:SHOWN_COMPLAINTS]] + ([f"and {more} more"] if more > 0 else [])
        raise BarographError("; ".join(said), complaints[0][1])


def _carry_out(folder: SweepFolder, pool: Pool[Any, PointOutcome], console: Console, say: Say) -> int:
    missing, whole = folder.missing(), len(folder.points)
    say(f"{folder.root}: {len(missing)} of {whole} points to do, {whole - len(missing)} complete")
    today = code_of_today()
    if others := folder.runs_of_other_code(today):
        theirs = ", ".join(f"{number} of {words}" for words, number in others.items())
        now = code_words(today)
        say(f"note: complete runs are of other code ({theirs}) than the work tree's {now}; --new begins anew")
    try:
        failed = _simulate(folder, missing, pool, console)
        codes = [EXIT_CODES[failures[0].blame] for failures in failed.values()]
        why, path = "the report says why", None
        try:
            update_document(folder, failed, others, today)
            path = _report(folder, say)
        except OSError as error:  # as where the disk is full; what failed is said all the same
            say(f"no report: {message_of(error)}")
            why = "the lines above say why"
            codes.append(EXIT_CODES[blame_of(error)])
    except KeyboardInterrupt:
        left = len(folder.missing())
        say(f"interrupted: {whole - left} of {whole} points are complete in {folder.root}; the same command goes on")
        return INTERRUPTED_EXIT
    if path is not None:
        say(f"report: {path}")
        _family_page(folder, say)
    if failed:
        say(f"{len(failed)} of {whole} points failed; {why}, the same command tries them again")
    return worst_exit(codes)


def _simulate(
    folder: SweepFolder, missing: Sequence[Point], pool: Pool[Any, PointOutcome], console: Console
) -> dict[str, tuple[Failure, ...]]:
    """What failed, by the id of the point. However it ends, no process of the pool is left
    (Spark needs the memory), and no disk of a machine."""
    facts, failed = folder.facts(), dict[str, tuple[Failure, ...]]()
    jobs = [PointJob(point, folder.of(point), facts) for point in missing]
    with ExitStack() as stack:
        for job in jobs:
            stack.callback(remove_cluster, job.folder)
        stack.callback(pool.end)
        view = stack.enter_context(progress_view(console, "points", len(jobs)))
        for point, outcome in _outcomes(pool, jobs, view):
            if outcome.failures:
                failed[point.point_id] = outcome.failures
                _say_failures(folder, point, outcome.failures, view.say)
    return failed


def _say_failures(folder: SweepFolder, point: Point, failures: Sequence[Failure], say: Say) -> None:
    where = f"point {point.number} ({point.point_id})"
    for each in failures:
        say(f"{where}: {each.words()}")
    try:
        note_failures(folder, point, failures)
    except OSError as error:  # this point's trouble, and no other's
        say(f"{where}: its folder does not keep that: {message_of(error)}")


def _outcomes(
    pool: Pool[Any, PointOutcome], jobs: Sequence[CheckJob | PointJob], view: Progress
) -> Iterator[tuple[Point, PointOutcome]]:
    for answer in pool.answers(jobs, LOOK_S):
        if answer is None:
            view.tick()
            continue
        job, outcome = answer
        if isinstance(outcome, Death):
            outcome = PointOutcome(0.0, (death_failure(outcome),))
        yield job.point, outcome
        view.advance()


def _report(folder: SweepFolder, say: Say) -> Path | None:
    with limited("analyse"):
        return report.write(folder, say)


def _family_page(folder: SweepFolder, say: Say) -> None:
    """Where claims are about the sweep: the page of its family that sets its numbers beside what is stated."""
    from analysis.claims.statements import load_claims

    family, name = folder.root.parts[-3:-1]
    if any(claim.simulated and claim.experiment == f"{family}/{name}" for claim in load_claims()):
        with limited("report"):
            say(f"{family}, all simulated: {report_of_sweeps(family)}")


class Progress:
    """How many are done, how fast, and how long the rest takes."""

    def __init__(self, say: Say, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.say = say
        self._begin_s = self._said_s = time.monotonic()

    def advance(self) -> None:
        self.done += 1
        self.tick()

    def tick(self) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= LINE_EVERY_S:
            self._said_s = now_s
            self.say(self.words())

    def words(self) -> str:
        """`12 of 40 points, 9.1 a minute, about 3:05 left`."""
        return progress_words(self.done, self.total, self.what, time.monotonic() - self._begin_s)


def progress_words(done: int, total: int, what: str, took_s: float) -> str:
    said = f"{done} of {total} {what}"
    if not done or took_s <= 0:
        return f"{said}, {minutes(took_s)} so far"
    left_s = (total - done) * took_s / done
    return f"{said}, {60 * done / took_s:.3g} a minute, about {minutes(left_s)} left"


class _Redrawn(Progress):
    """On a terminal the line is drawn in place, by itself."""

    def tick(self) -> None:
        """Live redraws by itself."""


@contextmanager
def progress_view(console: Console, what: str, total: int) -> Iterator[Progress]:
    say = line_printer(console)
    if not console.is_terminal:
        view = Progress(say, what, total)
        yield view
        if total:
            say(view.words())
        return
    drawn = _Redrawn(say, what, total)
    with Live(console=console, refresh_per_second=4, transient=True, get_renderable=lambda: Text(drawn.words())):
        yield drawn
