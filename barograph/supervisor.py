"""Run programs in parallel, and end them together: `python -m barograph.supervisor PARENT_PID STEP_S JSON`.

JSON is a list of commands. When one of them ends, when SIGINT or SIGTERM comes, or when the parent dies in any way,
every process that any of them has started is ended: SIGINT, after STEP_S SIGTERM, then SIGKILL. This process is the
parent of orphans among them (a subreaper), so it knows them all; it ignores emulated machines. The kernel sends each
command SIGTERM if this process is killed.

Signals are waited for and never handled: a handler that raises could interrupt the end at any point.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from barograph.child_processes import POLL_S, Step, descendants, die_with_parent, keep_exit_codes

PR_SET_CHILD_SUBREAPER = 36
# Schedulers end their tasks first; a task that is being ended collects its measurements.
STEP_S = 15.0
# Podman's parent process of an emulated machine leaves its starter, and becomes a child of this process. It belongs to
# a lease: the series or the reaper ends it, with its network and record.
NOT_OURS = ("conmon",)
STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # to end
AWAITED = (*REQUESTS, signal.SIGCHLD)


def command(commands: Sequence[Sequence[str]], parent_pid: int, step_s: float = STEP_S) -> list[str]:
    """Return the command that starts this module as a program."""
    return [sys.executable, "-m", "barograph.supervisor", str(parent_pid), str(step_s), json.dumps(commands)]


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
    """Prepare the child before its command begins."""
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
    """Yield ended children: process ids and statuses."""
    with suppress(ChildProcessError):
        while (result := os.waitpid(-1, os.WNOHANG))[0]:
            yield result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
