"""Child processes: each in a process group of its own, waited for with a limit, and ended step by step.

Because of its own group Ctrl-C reaches the parent alone, which decides; and processes that the child has started (a
JVM, a compiler) can be ended with it. The exit code is read without collecting the child: until `end_group` or
`collect`, the number of its group cannot be reused.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

log = logging.getLogger(__name__)

POLL_S = 0.1
LAST_WAIT_S = 30.0  # for a process that has ended, or got SIGKILL
# A signal, and how long the child may take after it before the next one.
Step = tuple[signal.Signals, float]
AT_ONCE: tuple[Step, ...] = ((signal.SIGKILL, 10.0),)
PR_SET_PDEATHSIG = 1
C_LIBRARY = ctypes.CDLL(None)


class ChildProcess:
    """A program that runs beside this one; leaving the `with` block ends its whole group by `ending`.

    If this process is killed, the program gets the first signal of `ending`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        output: IO[bytes],
        environment: Mapping[str, str] | None = None,
        ending: Sequence[Step] = AT_ONCE,
        ends_its_own: bool = False,
    ) -> None:
        """Start it in `folder`, without input. Raises OSError where it cannot be started.

        `output` receives its output and errors; `environment` None: this process's. `ends_its_own`: the first signal of
        `ending` is for the program alone, which ends the others.
        """
        keep_exit_codes()
        self._ends_its_own = ends_its_own
        self._ending = tuple(ending)
        self._process = subprocess.Popen(
            list(argv),
            cwd=folder,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Only a system call, nothing that another thread of this process may have locked.
            preexec_fn=partial(_request_end, self._ending[0][0]),  # noqa: PLW1509
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        steps: Sequence[Step] = self._ending
        try:
            if self._ends_its_own and self.exit_code() is None:  # if it is gone, the others get its time
                (number, limit_s), steps = steps[0], steps[1:]
                self.send(number)
                self.wait(limit_s)
        except BaseException:  # as in `end_group`
            steps = AT_ONCE
            raise
        finally:
            self.end_group(steps)

    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs; -N where signal N ended it."""
        if self._process.returncode is not None:
            return self._process.returncode
        state = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if state is None:
            return None
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def wait(self, limit_s: float = float("inf"), each_time: Callable[[], None] = lambda: None) -> int | None:
        """Return the exit code; None where it still runs after the limit. `each_time` is called between looks at it."""
        deadline_s = time.monotonic() + limit_s
        while (code := self.exit_code()) is None and time.monotonic() < deadline_s:
            each_time()
            time.sleep(POLL_S)
        return code

    def send(self, number: signal.Signals) -> None:
        """Signal the program alone; nothing where it has ended."""
        if self.exit_code() is None:
            self._process.send_signal(number)

    def end_group(self, steps: Sequence[Step]) -> None:
        """End the rest of its group, the harder the longer it takes, and collect the child."""
        try:
            self._end_by(steps)
        except BaseException:  # a second Ctrl-C hurries; it must not leave the group behind
            self._end_by(AT_ONCE)
            raise
        finally:
            self.collect()

    def _end_by(self, steps: Sequence[Step]) -> None:
        for number, limit_s in steps:
            if not self._members():
                break
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            deadline_s = time.monotonic() + limit_s
            while self._members() and time.monotonic() < deadline_s:
                time.sleep(POLL_S)

    def collect(self) -> None:
        """Wait for its end; after that no process is left to signal.

        One that does not die by SIGKILL waits in the kernel for a disk or a network: it is left, with a warning.
        """
        try:
            self._process.wait(LAST_WAIT_S)
        except subprocess.TimeoutExpired:
            log.warning("process %s does not end, whatever signal it gets; see `ps %s`", self.pid, self.pid)

    def _members(self) -> list[int]:
        """Return processes of its group that have not ended; none once the child is collected."""
        return [] if self._process.returncode is not None else group_members(self.pid)


def keep_exit_codes() -> None:
    """Reset an ignored SIGCHLD, which a parent may have left: the kernel would collect this process's children, and
    every program would seem to have ended with 0. Call it in the main thread.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def group_members(group: int) -> list[int]:
    """Return the process ids of a process group, without those that ended and wait for their parents."""
    members = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _parent, its_group = file.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                members.append(int(file.parent.name))
    return members


def descendants(pid: int, without: Collection[str] = ()) -> list[int]:
    """Return every process below `pid` that has not ended, children before their own; not programs with the names in
    `without` and their children.
    """
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            start, _, rest = file.read_text(errors="replace").rpartition(")")
            state, parent = rest.split()[:2]
            if state not in "ZX" and start.partition("(")[2] not in without:
                children.setdefault(int(parent), []).append(int(file.parent.name))
    pids, todo = [], [pid]
    while todo:
        todo = [child for parent in todo for child in children.get(parent, [])]
        pids += todo
    return pids


def _request_end(number: signal.Signals) -> None:
    """Have the kernel send this process `number` when its parent ends, however that ends."""
    with suppress(AttributeError):  # a kernel without it
        C_LIBRARY.prctl(PR_SET_PDEATHSIG, number)


def die_with_parent(parent_pid: int, number: signal.Signals) -> None:
    """End with the parent as each child does, but by another signal; at once where the parent has ended."""
    _request_end(number)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), number)
