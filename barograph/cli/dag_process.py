"""The child process that executes a series' DAG: start it, follow its progress, and end it step by step on request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from barograph.airflow_environment import command_line_environment
from barograph.cli.view import View
from barograph.series.progress import ProgressReader
from barograph.settings import ROOT, airflow_home

POLL_S = 0.2
# After SIGINT the child collects and releases; then it has had its chance.
ESCALATION = ((signal.SIGINT, 120.0), (signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))


class DagProcess:
    """One child. Only ever signalled by its pid."""

    def __init__(self, series_dir: Path) -> None:
        self._series_dir = series_dir
        self._reader = ProgressReader(series_dir)
        argv = [sys.executable, "-m", "barograph.cli.child", str(series_dir), str(os.getpid())]
        with (series_dir / "harness.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=command_line_environment(airflow_home()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which decides
            )

    def follow(self, view: View) -> int:
        """The child's exit code. Raises KeyboardInterrupt as it comes."""
        while True:
            code = self._process.poll()
            self._pass_on(view)
            if code is not None:
                return code
            view.tick()
            time.sleep(POLL_S)

    def end(self, view: View) -> bool:
        """End the child, harder at each further Ctrl-C or when it takes too long; whether it ended by itself."""
        for number, limit_s in ESCALATION:
            self._signal(number)
            try:
                if self._wait(view, limit_s):
                    return number != signal.SIGKILL
            except KeyboardInterrupt:
                view.say("hurrying")
        return False

    def _wait(self, view: View, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            code = self._process.poll()
            self._pass_on(view)
            if code is not None:
                return True
            time.sleep(POLL_S)
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _pass_on(self, view: View) -> None:
        for line in self._reader.new():
            view.hear(line)


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does; so does SIGINT in a background job, where shells ignore it."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
