"""`barograph sweep`: check every point of a sweep, simulate missing ones side by side, draw the curves; of a search, do
that round by round."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from analysis import java
from barograph.campaign import search as searches
from barograph.campaign import sweep as sweep_report
from barograph.campaign.simulation import (
    SimulatedRun,
    SimulationFailure,
    SimulationPool,
    end_cell,
    failure_of,
    failures_of,
    missing_runs,
    open_cell,
    simulate,
    simulate_cells,
    simulation_pool,
)
from barograph.campaign.sweep import SweepFolder, open_sweep, update_document
from barograph.cli.arguments import add_changes, changes_of, jobs_of
from barograph.cli.execution import LINE_EVERY_S, Ending, carry_out
from barograph.cli.preparation import prepare_series
from barograph.cli.run import report_of_sweeps
from barograph.cli.terminal import line_printer, signals_as_interrupt, stdout_console
from barograph.errors import (
    EXIT_CODES,
    INTERRUPTED_EXIT,
    BarographError,
    RunsFailed,
    Say,
    blame_of,
    message_of,
    worst_exit,
)
from barograph.plan.search import Numbers, Search, search_rounds
from barograph.plan.simulation import is_simulated
from barograph.plan.sweep import Sweep, SweepPoint, load, point_words, require_simulated, values_words
from barograph.series import hold
from barograph.series.interruption import limited
from barograph.series.progress import minutes
from barograph.series.provenance import code_of_today, code_words
from barograph.series.results import results
from barograph.series.series import complete_series
from barograph.testbeds.checks import check

SHOWN_COMPLAINTS = 10


def add_sweep_arguments(sweep: argparse.ArgumentParser) -> None:
    add = sweep.add_argument
    add("file", help="an experiment's file with `sweep` or `search`, or the name of one of dags/sweeps/")
    add("--jobs", type=int, metavar="N", help="runs simulated at once; without it as many as there are cores")
    add_changes(sweep)
    add("--new", action="store_true", help="begin anew even where the same sweep is there")


def execute_sweep(options: argparse.Namespace) -> int:
    jobs = jobs_of(options)
    return run_sweep(load(options.file, changes_of(options)), jobs, new=options.new, console=stdout_console())


def run_sweep(sweep: Sweep, jobs: int, *, new: bool, console: Console) -> int:
    """Simulate the sweep and return the exit code. Raises ExperimentError, before anything is simulated, for invalid
    points."""
    say = line_printer(console)
    results().require()
    java.require()
    points = sweep.points()
    require_simulated(sweep, points)
    runs = sum(point.runs for point in points)
    if sweep.search is not None:
        searches.require_metric(sweep, sweep.search.until)
        for point in points:
            check(point.experiment)
        folder = open_sweep(sweep, points, new=new)
        with signals_as_interrupt(), hold.held(folder.root), ExitStack() as spark:
            return SearchExecution(folder, sweep, sweep.search, jobs, console, new, spark).carry_out()
    say(f"{sweep.name}: {sweep.words()}, {runs} runs")
    with signals_as_interrupt(), simulation_pool(min(jobs, runs)) as pool:
        complaints: list[tuple[int, str, str]] = []
        with progress_view(console, "points checked", len(points)) as view:

            def note(job: PointCheck, failure: SimulationFailure | None) -> None:
                if failure is not None:
                    where = point_words(sweep.source, job.point.number, job.point.values)
                    complaints.append((job.point.number, failure.blame, f"{where}: {failure.message}"))
                view.advance()

            simulate(pool, [PointCheck(point) for point in points], note, view.tick)
        if complaints:
            complaints.sort()
            rest = len(complaints) - SHOWN_COMPLAINTS
            texts = [text for _, _, text in complaints[:SHOWN_COMPLAINTS]] + ([f"and {rest} more"] if rest > 0 else [])
            raise BarographError("; ".join(texts), complaints[0][1])
        folder = open_sweep(sweep, points, new=new)
        with hold.held(folder.root):
            return _carry_out(folder, pool, console, say)


@dataclass(frozen=True)
class PointCheck:
    """A check of one point, by a process of the pool."""

    point: SweepPoint

    def do(self) -> SimulationFailure | None:
        try:
            check(self.point.experiment)
        except Exception as error:  # noqa: BLE001 - the process goes on with the next point
            return failure_of(error)
        return None


def _carry_out(folder: SweepFolder, pool: SimulationPool, console: Console, say: Say) -> int:
    missing, total = folder.missing(), len(folder.points)
    say(f"{folder.root}: {len(missing)} of {total} points to do, {total - len(missing)} complete")
    today = code_of_today()
    if other_code := folder.runs_of_other_code(today):
        theirs = ", ".join(f"{number} of {words}" for words, number in other_code.items())
        code = code_words(today)
        say(f"note: complete runs are of other code ({theirs}) than the work tree's {code}; --new begins anew")
    try:
        failed_points = _simulate(folder, missing, pool, console)
        codes = [EXIT_CODES[failures[0].blame] for failures in failed_points.values()]
        why, path = "the report says why", None
        try:
            update_document(folder, failed_points, other_code, today)
            with limited("analyse"):
                path = sweep_report.write_report(folder, say)
        except OSError as error:  # as where the disk is full; the failures are still printed
            say(f"no report: {message_of(error)}")
            why = "the lines above say why"
            codes.append(EXIT_CODES[blame_of(error)])
    except KeyboardInterrupt:
        rest = len(folder.missing())
        say(f"interrupted: {total - rest} of {total} points are complete in {folder.root}; the same command goes on")
        return INTERRUPTED_EXIT
    if path is not None:
        _say_reports(folder, path, say)
    if failed_points:
        say(f"{len(failed_points)} of {total} points failed; {why}, the same command tries them again")
    return worst_exit(codes)


def _say_reports(folder: SweepFolder, path: Path, say: Say) -> None:
    """Print where the report is; write the family's page anew where claims are about this sweep."""
    from analysis.claims.statements import load_claims

    say(f"report: {path}")
    family, name = folder.root.parts[-3:-1]
    if any(claim.simulated and claim.experiment == f"{family}/{name}" for claim in load_claims()):
        with limited("report"):
            say(f"{family}, all simulated: {report_of_sweeps(family)}")


def _where(point: SweepPoint) -> str:
    """Return a text such as `stela: machines.before = 4, seed = 1`."""
    return f"{', '.join(each.name for each in point.experiment.variants)}: {values_words(point.values)}"


@dataclass
class SearchExecution:
    """The rounds of a search: what is not measured is carried out and analysed, until no value is left to measure."""

    folder: SweepFolder
    sweep: Sweep
    search: Search
    jobs: int
    console: Console
    new: bool
    spark: ExitStack  # see `searches.measure_numbers`

    def carry_out(self) -> int:
        """Return the exit code: that of a bad request where no edge lies between the ends."""
        say, until = line_printer(self.console), self.search.until
        judge = partial(searches.judge, until, self.search.most_repetitions)
        combinations, ends = self.sweep.combinations(), self.sweep.points()
        targets = [(place, variant.name) for place in range(len(combinations))
                   for variant in ends[2 * place].experiment.variants]  # fmt: skip
        rounds = search_rounds(len(self.search.steps) - 1, targets, judge)
        (numbers, unsteady), points = searches.numbers_on_disk(self.folder.root), list[SweepPoint]()
        ids: dict[tuple[tuple[int, str], int], list[str]] = defaultdict(list)
        answers: Sequence[Numbers] | None = None
        try:
            while True:
                due = next(rounds) if answers is None else rounds.send(answers)
                of_round = [
                    self.sweep.point_of_search(number, combinations[target[0]], target[1], place, runs)
                    for number, (target, place, runs) in enumerate(due, start=len(points) + 1)
                ]
                points += of_round
                for (target, place, _), point in zip(due, of_round, strict=True):
                    ids[target, place].append(point.point_id)
                if missing := [point for point in of_round if point.point_id not in numbers]:
                    say(f"to measure: {'; '.join(map(_where, missing))}")
                    if code := self._measure(missing):
                        say(f"{len(numbers)} points are measured in {self.folder.root}; the same command goes on")
                        return code
                    with limited("analyse"):
                        part = SweepFolder(self.folder.root, tuple(missing))
                        found = searches.measure_numbers(part, until, say, self.spark)
                    numbers, unsteady = numbers | found[0], unsteady | found[1]
                    searches.update_search(SweepFolder(self.folder.root, tuple(points)), self.sweep, numbers, unsteady)
                    for point in missing:
                        say(f"{_where(point)}: {searches.words(until.metric, numbers[point.point_id])}")
                answers = [numbers[point.point_id] for point in of_round]
        except StopIteration as end:
            rows = []
            for target, result in end.value.items():
                of_target = {place: sum(unsteady[each] for each in ids[target, place]) for place in result[1]}
                combination = combinations[target[0]]
                rows.append(searches.result_data(self.sweep, combination, target[1], result, of_target))
        except KeyboardInterrupt:
            say(f"interrupted: {len(numbers)} points are measured in {self.folder.root}; the same command goes on")
            return INTERRUPTED_EXIT
        folder, today = SweepFolder(self.folder.root, tuple(points)), code_of_today()
        searches.update_search(folder, self.sweep, numbers, unsteady, rows)
        failed = {point.point_id: [SimulationFailure(**each) for each in failures_of(folder.of(point))]
                  for point in points}  # fmt: skip
        update_document(folder, failed, folder.runs_of_other_code(today), today)
        with limited("analyse"):
            path = sweep_report.write_report(folder, say)
        for row in rows:
            say(row["sentence"])
        if path is not None:
            _say_reports(folder, path, say)
        return 0 if all(row["value"] is not None for row in rows) else EXIT_CODES["configuration"]

    def _measure(self, points: Sequence[SweepPoint]) -> int:
        """Carry the points out; return the exit code of failures that are no results."""
        for point in points:
            check(point.experiment)
        in_memory = [point for point in points if is_simulated(point.experiment)]
        failed: dict[str, tuple[SimulationFailure, ...]] = {}
        if in_memory:
            pool = simulation_pool(min(self.jobs, sum(point.runs for point in in_memory)))
            failed = _simulate(self.folder, in_memory, pool, self.console)
        for point in points:
            if not is_simulated(point.experiment):
                failed[point.point_id] = self._run(point)
        blames = ["infrastructure" if each.is_late else each.blame for failures in failed.values() for each in failures]
        return worst_exit([EXIT_CODES[blame] for blame in blames if blame != "system_under_test"])

    def _run(self, point: SweepPoint) -> tuple[SimulationFailure, ...]:
        """Carry out, or take, the series of a point on machines. Raises KeyboardInterrupt."""
        failures: tuple[SimulationFailure, ...] = ()
        series = None if self.new else complete_series(point.experiment)
        if series is None:
            series = prepare_series(point.experiment, new=self.new, console=self.console)
            ending = Ending(lambda _folder, _console: None, f"barograph sweep {self.sweep.name}, with the same options")
            try:
                if carry_out(series, self.console, ending) == INTERRUPTED_EXIT:
                    raise KeyboardInterrupt
            except RunsFailed as error:
                failures = (SimulationFailure(error.blame, message_of(error)),)
                line_printer(self.console)(f"{_where(point)}: {failures[0].words()}")
        link = self.folder.of(point)
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(series.folder, target_is_directory=True)
        end_cell(link, failures)
        return failures


def _simulate(
    folder: SweepFolder, missing: Sequence[SweepPoint], pool: SimulationPool, console: Console
) -> dict[str, tuple[SimulationFailure, ...]]:
    """Simulate and return the failures by the id of the point. It always ends the processes of the pool: Spark needs
    the memory."""
    facts, failed_points, cells = (
        folder.facts(),
        dict[str, tuple[SimulationFailure, ...]](),
        dict[str, list[SimulatedRun]](),
    )
    by_id = {point.point_id: point for point in missing}
    with pool, progress_view(console, "points", len(missing)) as view:

        def end(point_id: str, failures: Sequence[SimulationFailure]) -> None:
            point = by_id[point_id]
            where = f"point {point.number} ({point_id})"
            failures = [
                (replace(each, message=f"{each.message}: give a smaller --jobs") if each.is_death else each)
                for each in failures
            ]
            for each in failures:
                view.say(f"{where}: {each.words()}")
            try:
                end_cell(folder.of(point), failures)
            except OSError as error:  # only this point is affected
                view.say(f"{where}: its folder does not keep that: {message_of(error)}")
                failures = failures or [failure_of(error)]
            if failures:
                failed_points[point_id] = tuple(failures)
            view.advance()

        for point in missing:
            try:
                series = open_cell(folder.of(point), point.experiment, {**facts, "values": dict(point.values)})
            except Exception as error:  # noqa: BLE001 - as above
                end(point.point_id, [failure_of(error)])
            else:
                cells[point.point_id] = missing_runs(series)
        simulate_cells(pool, cells, end, view.tick)
    return failed_points


class Progress:
    """The progress of the points: count, rate, time left; an occasional line, or one drawn in place."""

    def __init__(self, say: Say, what: str, total: int, *, is_drawn: bool) -> None:
        self.say, self._what, self._total, self._done = say, what, total, 0
        self._is_drawn = is_drawn
        self._begin_s = self._said_s = time.monotonic()

    def advance(self) -> None:
        self._done += 1
        self.tick()

    def tick(self) -> None:
        now_s = time.monotonic()
        if not self._is_drawn and now_s - self._said_s >= LINE_EVERY_S:
            self._said_s = now_s
            self.say(self.words())

    def words(self) -> str:
        """Return a line such as `12 of 40 points, 9.1 a minute, about 3:05 left`."""
        text, took_s = f"{self._done} of {self._total} {self._what}", time.monotonic() - self._begin_s
        if not self._done or took_s <= 0:
            return f"{text}, {minutes(took_s)} so far"
        left_s = (self._total - self._done) * took_s / self._done
        return f"{text}, {60 * self._done / took_s:.3g} a minute, about {minutes(left_s)} left"


@contextmanager
def progress_view(console: Console, what: str, total: int) -> Iterator[Progress]:
    view = Progress(line_printer(console), what, total, is_drawn=console.is_terminal)
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True, get_renderable=lambda: Text(view.words())):
            yield view
        return
    yield view
    if total:
        view.say(view.words())
