"""Child processes: each in a process group of its own, waited for with a limit, and ended step by step.

Because of its own group Ctrl-C reaches the parent alone, which decides; and processes that the child has started (a
JVM, a compiler) can be ended with it. The exit code is read without collecting the child: until `end_group` or
`collect`, the number of its group cannot be reused.

`python -m barograph.child_processes PARENT_PID STEP_S JSON` is a supervisor: it runs the programs of a JSON list of
commands in parallel. When one of them ends, when SIGINT or SIGTERM comes, or when the parent dies in any way, every
process that any of them has started is ended: SIGINT, after STEP_S SIGTERM, then SIGKILL. This process is the parent of
orphans among them (a subreaper), so it knows them all; it ignores emulated machines. Its signals are waited for and
never handled: a handler that raises could interrupt the end at any point.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
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
    """A program that runs beside this one; leaving the `with` block ends its whole group by `ending`. If this process
    is killed, the program gets the first signal of `ending`."""

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
        """Start it in `folder`, without input. Raises OSError where it cannot be started. `output` receives its output
        and errors; `environment` None: this process's. `ends_its_own`: the first signal of `ending` is for the program
        alone, which ends the others."""
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

    def __exit__(self, *_: object) -> None:
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
        """Wait for its end; after that no process is left to signal. One that does not die by SIGKILL waits in the
        kernel for a disk or a network: it is left, with a warning."""
        try:
            self._process.wait(LAST_WAIT_S)
        except subprocess.TimeoutExpired:
            log.warning("process %s does not end, whatever signal it gets; see `ps %s`", self.pid, self.pid)

    def _members(self) -> list[int]:
        """Return processes of its group that have not ended; none once the child is collected."""
        return [] if self._process.returncode is not None else group_members(self.pid)


def keep_exit_codes() -> None:
    """Reset an ignored SIGCHLD, which a parent may have left: the kernel would collect this process's children, and
    every program would seem to have ended with 0. Call it in the main thread."""
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
    `without` and their children."""
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


PR_SET_CHILD_SUBREAPER = 36
# Schedulers end their tasks first; a task that is being ended collects its measurements.
STEP_S = 15.0
# Podman's parent process of an emulated machine leaves its starter, and becomes a child of this process. It belongs to
# a lease: the series or the reaper ends it, with its network and record.
NOT_OURS = ("conmon",)
STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # to end
AWAITED = (*REQUESTS, signal.SIGCHLD)


def supervisor_command(commands: Sequence[Sequence[str]], parent_pid: int, step_s: float = STEP_S) -> list[str]:
    """Return the command that starts this module as a program."""
    return [sys.executable, "-m", "barograph.child_processes", str(parent_pid), str(step_s), json.dumps(commands)]


def main(arguments: Sequence[str]) -> int:
    parent_pid, step_s, commands = int(arguments[0]), float(arguments[1]), json.loads(arguments[2])
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keep_exit_codes()
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    try:
        die_with_parent(parent_pid, signal.SIGTERM)
        return _first_end([_start(argv) for argv in commands])
    finally:
        _end_all([(number, step_s) for number in STEPS])


def _start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    # This process has one thread, so code may run between fork and exec.
    return subprocess.Popen(list(argv), preexec_fn=partial(_prepare, os.getpid()))  # noqa: PLW1509


def _prepare(supervisor: int) -> None:
    for number in REQUESTS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
    die_with_parent(supervisor, signal.SIGTERM)


def _first_end(programs: Sequence[subprocess.Popen[bytes]]) -> int:
    """Return the first command's exit code, never 0, for no command is expected to end; 0 if the end is requested."""
    by_pid = {program.pid: program for program in programs}
    while signal.sigwait(AWAITED) == signal.SIGCHLD:
        for pid, status in _collect():  # orphans too
            if (program := by_pid.get(pid)) is not None:
                program.returncode = code = os.waitstatus_to_exitcode(status)
                print(f"{program.args!r} ended with {code}", flush=True)
                return code if code > 0 else 1
    return 0


def _end_all(steps: Sequence[Step]) -> None:
    foreign: set[int] = set()
    for number, limit_s in steps:
        deadline_s = time.monotonic() + limit_s
        everybody = descendants(os.getpid(), NOT_OURS)
        for pid in everybody:
            _signal(pid, number, foreign)
        while not foreign.issuperset(everybody) and time.monotonic() < deadline_s:
            list(_collect())
            time.sleep(POLL_S)
            everybody = descendants(os.getpid(), NOT_OURS)
            if number == signal.SIGKILL:  # processes born meanwhile
                for pid in everybody:
                    _signal(pid, number, foreign)


def _signal(pid: int, number: signal.Signals, refused: set[int]) -> None:
    """Signal a process. `refused`: processes of other users (setuid), which are left, each with a message."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        if pid not in refused:
            refused.add(pid)
            print(f"process {pid} is another user's and cannot be ended; see `ps {pid}`", flush=True)


def _collect() -> Iterator[tuple[int, int]]:
    with suppress(ChildProcessError):
        while (result := os.waitpid(-1, os.WNOHANG))[0]:
            yield result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
