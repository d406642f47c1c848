"""Carry out a series from a terminal: start its process, show its progress, end it on request, and print its
measurements.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from analysis.record.files import SeriesPaths, read_json
from barograph.child_processes import AT_ONCE, ChildProcess
from barograph.cli.claims import show_claims
from barograph.cli.terminal import line_printer, signals_as_interrupt, signals_held
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, NotReleased, RunsFailed, Say, message_of
from barograph.machines import holdings
from barograph.machines.series_lease import saved_lease
from barograph.series import hold
from barograph.series.progress import (
    PHASE_WORDS,
    PROGRESS_FILE,
    ProgressReader,
    SeriesStatus,
    fact_rows,
    initial_status,
    sparkline,
    time_words,
    update_status,
)
from barograph.series.results import store
from barograph.series.series import Series
from barograph.settings import ROOT, process_environment, program_paths
from barograph.testbeds.costs import usd
from inventory.leases import registry

# After SIGINT the child has time to collect and release before it is ended.
ESCALATION = ((signal.SIGINT, 120.0), (signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))
# For processes that outlived the child, such as a JVM: nothing to finish, but files to remove.
REMAINS = ((signal.SIGTERM, 10.0), *AT_ONCE)
LINE_EVERY_S = 10.0  # where the output is no terminal


class ExecutionProcess:
    """A child process, signalled alone: it ends its own children in order; those that remain are ended afterwards."""

    def __init__(self, series_dir: Path) -> None:
        self._series_dir = series_dir
        self._reader = ProgressReader(series_dir)
        argv = [sys.executable, "-m", "barograph.campaign.execution", str(series_dir), str(os.getpid())]
        variables = process_environment()
        variables |= program_paths(variables)
        with (series_dir / "harness.log").open("ab") as log:
            self._child = ChildProcess(argv, folder=ROOT, output=log, environment=variables)

    @property
    def pid(self) -> int:
        return self._child.pid

    def follow(self, view: SeriesView) -> int:
        """Follow the child and return its exit code. Passes KeyboardInterrupt on."""

        def refresh() -> None:
            self._pass_on(view)
            view.tick()

        code = self._child.wait(each_time=refresh)
        assert code is not None, "without a limit it is waited for"
        self._child.end_group(REMAINS)
        self._pass_on(view)
        if number := self._reader.damaged:
            lines = "1 line" if number == 1 else f"{number} lines"
            view.say(f"note: {lines} of {PROGRESS_FILE} could not be read: was the disk full?")
        return code

    def end(self, view: SeriesView) -> None:
        """End the child, with a harder signal at each Ctrl-C or time limit."""
        for number, limit_s in ESCALATION:
            self._child.send(number)
            try:
                if self._child.wait(limit_s, lambda: self._pass_on(view)) is not None:
                    break
            except KeyboardInterrupt:
                view.say("hurrying")
        self._child.end_group(REMAINS)
        self._pass_on(view)

    def _pass_on(self, view: SeriesView) -> None:
        for line in self._reader.new():
            try:
                view.update(line)
            except (KeyError, TypeError, ValueError):  # valid JSON, but not a complete progress line
                self._reader.damaged += 1


@dataclass(frozen=True)
class Ending:
    """The last lines of an execution. After a report, `show` prints its tables, and `answer` is the last line, if it is
    not empty. After an interruption, `resume` is the command that continues."""

    show: Callable[[Path, Console], None]
    resume: str
    answer: Callable[[Path], str] = lambda _: ""


def carry_out(series: Series, console: Console, ending: Ending | None = None) -> int:
    """Carry out the series and return the exit code: 0, or that of an interruption. Raises RunsFailed."""
    resume = f"barograph run {series.experiment.name}, with the same options"
    lines = ending or Ending(_show_claims, resume, headline)
    child: ExecutionProcess | None = None
    with signals_as_interrupt(), SeriesView(console, initial_status(series.missing_runs(), series.experiment)) as view:
        try:
            with signals_held():
                child = ExecutionProcess(series.folder)
            code = child.follow(view)
        except KeyboardInterrupt:
            view.say("interrupted: keeping what was measured, releasing machines (once more to hurry)")
            return _end_interrupted(series, child, view, lines)
        except Exception:
            if child is None:  # else the child has the series
                _clean_up(series, None, view.say)
            raise
        if code != 0:
            _clean_up(series, child, view.say)
    return _finish(series, view.status, code, console, lines)


def _clean_up(series: Series, child: ExecutionProcess | None, say: Say) -> None:
    """Release and store on behalf of a child that was killed, or that failed before doing so."""
    from barograph.machines.provision import release

    try:
        release(series.folder, say)
    except NotReleased as left:
        held_by = "" if child is None else _held_by(child, series.folder)
        say(held_by or message_of(left))
    current = hold.read(series.folder)
    if current is not None and not current.is_anothers(time.time()):
        store(series.folder, say)


def _held_by(child: ExecutionProcess, series_dir: Path) -> str:
    """Return a message about a killed child that the kernel cannot end yet. Empty if it has no lease."""
    saved = saved_lease(series_dir)
    lease = registry.read(saved.lease_id) if saved else None
    if lease is None or lease.holder.pid != child.pid or lease.ending:
        return ""
    return (
        f"lease {lease.lease_id} on testbed {lease.testbed} is not released: its holder, {lease.holder}, does not end,"
        f" whatever signal it gets (see `ps {child.pid}`); once it has ended, `barograph reap` ends its machines"
    )


def _say_cost(series: Series, say: Say) -> None:
    estimates = read_json(SeriesPaths(series.folder).series_json).get("estimates", [])
    usage = holdings.usage_so_far(series)
    if not estimates or "used_usd" not in usage:
        return
    entry = estimates[-1]
    spent_usd = entry["spent_before_usd"]
    say(
        f"money: {usd(usage['used_usd'])} used for {usage['machine_hours']:.2f} machine-hours; estimated were about"
        f" {usd(spent_usd + entry['expected_usd'])}, at most {usd(spent_usd + entry['longest_usd'])}, of a budget of"
        f" {usd(usage['budget_usd'])}"
    )


def _end_interrupted(series: Series, child: ExecutionProcess | None, view: SeriesView, ending: Ending) -> int:
    try:
        if child is not None:
            child.end(view)
    finally:
        _clean_up(series, child, view.say)
    view.say(f"{len(series.complete())} of {len(series.plan())} runs are complete in {series.folder}")
    _say_cost(series, view.say)
    # With every run complete the same command would also write the report, but asks for the testbed first.
    view.say(
        f"to resume: {ending.resume}" if series.missing_runs() else f"to analyse it: barograph report {series.folder}"
    )
    return INTERRUPTED_EXIT


def _show_claims(series_dir: Path, console: Console) -> None:
    show_claims(series_dir, console)


def headline(series_dir: Path) -> str:
    """Return the sentence that the series' report begins with; empty where there is none."""
    from analysis.report.index_page import headline_of

    return headline_of(SeriesPaths(series_dir))


def _finish(series: Series, status: SeriesStatus, code: int, console: Console, ending: Ending) -> int:
    say = line_printer(console)
    if status.report:
        ending.show(series.folder, console)
    _say_cost(series, say)
    if status.report:
        if answer := ending.answer(series.folder):
            say(answer)
        say(f"report: {status.report}")
    if code == INTERRUPTED_EXIT:
        return code
    if code != 0:
        blame, message = status.failure or _death(code)
        raise RunsFailed(f"{message}; log: {series.folder / 'harness.log'}", blame)
    return 0


def _death(code: int) -> tuple[str, str]:
    """Return the blame and message for a child that ended without a message."""
    said_by_code = {number: blame for blame, number in EXIT_CODES.items() if blame != "harness"}
    if code in said_by_code:
        return said_by_code[code], "the series' process could not begin, or not say why it failed"
    if code == -signal.SIGKILL:
        return "infrastructure", "the series' process was killed (SIGKILL; the kernel does that where memory is short)"
    return "harness", f"the series' process ended with {signal.Signals(-code).name if code < 0 else code}"


class SeriesView:
    """The live view of a series: a panel that is redrawn in place on a terminal; elsewhere a line for each change, and
    the throughput every LINE_EVERY_S."""

    def __init__(self, console: Console, status: SeriesStatus, clock: Callable[[], float] = time.time) -> None:
        self.status, self._console, self._clock, self._printed_s = status, console, clock, 0.0
        self._live = Live(
            console=console, refresh_per_second=4, transient=True, get_renderable=lambda: panel(self.status, clock())
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, line: Mapping[str, Any]) -> None:
        """Take in one line of the progress file."""
        self.status = update_status(self.status, line)
        kind, text = line["kind"], _line_of(line)
        if self._console.is_terminal:
            text = text if kind in ("run_ended", "run_failed", "message") else ""
        elif kind == "phase":
            text = f"{text} (about {time_words(self.status.time_left_s(self._clock()))} left)"
        if text:
            self.say(text)

    def tick(self) -> None:
        """Print the throughput where some time has passed; a panel redraws by itself."""
        now_s, rate = self._clock(), self.status.throughput_words() if self.status.run_id else ""
        if rate and not self._console.is_terminal and now_s - self._printed_s >= LINE_EVERY_S:
            self._printed_s = now_s
            self.say(f"{self.status.run_id}: {rate}")

    def say(self, text: str) -> None:
        stamp = "" if self._console.is_terminal else time.strftime("%H:%M:%S ", time.localtime(self._clock()))
        self._console.print(Text(f"{stamp}{text}"), soft_wrap=not self._console.is_terminal)


def panel(status: SeriesStatus, now_s: float) -> Table:
    """Return phase, time left, throughput now and runs done."""
    table = Table.grid(padding=(0, 2))
    for name, words in fact_rows(status, now_s):
        bars = f"{sparkline(status.throughput)}  " if name == "throughput" else ""
        table.add_row(name, Text.assemble((bars, "cyan"), words))
    return table


def _line_of(line: Mapping[str, Any]) -> str:
    kind, run = line["kind"], line.get("run_id")
    if kind == "phase":
        words = PHASE_WORDS.get(line["phase"], line["phase"])
        return f"{run}: {words}" if run else words
    if kind == "run_ended":
        return f"{run}: {line['status']}"
    if kind == "run_failed":
        return f"{run}: {line['blame']}: {line['message']}{'; repeating it' if line['again'] else ''}"
    if kind == "money" and "used_usd" in line:
        return f"money so far: {usd(line['used_usd'])} of {usd(line['budget_usd'])}"
    return str(line["text"]) if kind == "message" else ""
