"""The child process that executes a series' DAG: start it, follow its progress, and end it step by step on request; and
how a signal ends a command that does a step itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from barograph.airflow_environment import command_line_environment
from barograph.child_processes import AT_ONCE, ChildProcess
from barograph.cli.view import View
from barograph.series.progress import PROGRESS_FILE, ProgressReader
from barograph.settings import ROOT, airflow_home

# After SIGINT the child collects and releases; then it has had its chance.
ESCALATION = ((signal.SIGINT, 120.0), (signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))
# What a child that ended has left, such as a JVM: it has nothing to finish, but files of its own to remove.
REMAINS = ((signal.SIGTERM, 10.0), *AT_ONCE)


class DagProcess:
    """One child, signalled alone: what it has started it ends itself, in its own order; what it leaves is ended."""

    def __init__(self, series_dir: Path) -> None:
        self._series_dir = series_dir
        self._reader = ProgressReader(series_dir)
        argv = [sys.executable, "-m", "barograph.cli.child", str(series_dir), str(os.getpid())]
        with (series_dir / "harness.log").open("ab") as log:
            environment = command_line_environment(airflow_home())
            self._child = ChildProcess(argv, folder=ROOT, output=log, environment=environment)

    @property
    def pid(self) -> int:
        return self._child.pid

    def follow(self, view: View) -> int:
        """The child's exit code. Raises KeyboardInterrupt as it comes."""

        def refresh() -> None:
            self._pass_on(view)
            view.tick()

        code = self._child.wait(each_time=refresh)
        assert code is not None, "without a limit it is waited for"
        self._child.end_group(REMAINS)
        self._pass_on(view)
        self._say_damaged(view)
        return code

    def end(self, view: View) -> None:
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

    def _pass_on(self, view: View) -> None:
        for line in self._reader.new():
            try:
                view.update(line)
            except (KeyError, TypeError, ValueError):  # JSON, and yet not a whole line of its kind
                self._reader.damaged += 1

    def _say_damaged(self, view: View) -> None:
        if number := self._reader.damaged:
            lines = "1 line" if number == 1 else f"{number} lines"
            view.say(f"note: {lines} of {PROGRESS_FILE} could not be read: was the disk full?")


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_held() -> Iterator[None]:
    """A signal that asks for the end comes after the block: what begins in it is known then, and can be ended."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda each, _: came.append(each)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    heard = [number for number in came if signal.getsignal(number) != signal.SIG_IGN]
    if heard:
        signal.raise_signal(heard[0])


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does; so does SIGINT in a background job, where shells ignore it.

    A command that `nohup` started goes on after SIGHUP.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    outlives_terminal = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = [number for number in ENDING_SIGNALS if not (number == signal.SIGHUP and outlives_terminal)]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
