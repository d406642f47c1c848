"""Programs end together: when one ends, when the supervisor is asked to end, when its parent or it itself is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from barograph import child_processes
from barograph.child_processes import descendants
from inventory.leases.holder import process_start

# A program that leaves an orphan in a session of its own, as servers do with their workers.
ORPHAN = """
import subprocess, sys, time
from pathlib import Path
sleeper = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
shell = subprocess.run(
    ["sh", "-c", '"$0" -c "$1" >/dev/null 2>&1 & echo $!', sys.executable, sleeper],
    start_new_session=True, capture_output=True, text=True,
)
Path(sys.argv[1]).write_text(shell.stdout)
"""
SUPERVISOR = " -m barograph.child_processes "
STAYS = "import time; time.sleep(600)"
AWAITS = """
import sys, time
from pathlib import Path
while not Path(sys.argv[1] + ".go").exists():
    time.sleep(0.05)
"""
PARENT = """
import os, subprocess, sys, time
from barograph import child_processes
from barograph.child_processes import descendants
commands = [[sys.executable, "-c", code, sys.argv[1]] for code in sys.argv[2:]]
subprocess.Popen(child_processes.supervisor_command(commands, os.getpid(), step_s=0.3))
time.sleep(600)
"""


@contextmanager
def supervised(folder: Path, *programs: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """The parent of a supervisor, and every process below it once the orphan is there."""
    orphan = folder / "orphan"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(orphan), ORPHAN + STAYS, *programs])
    try:
        while not (orphan.exists() and orphan.read_text().strip() and are_begun(parent.pid, 1 + len(programs))):
            assert parent.poll() is None
            time.sleep(0.05)
        yield parent, sorted({*descendants(parent.pid), int(orphan.read_text())})
    finally:
        for pid in (*descendants(parent.pid), int(orphan.read_text() or 0) if orphan.exists() else 0):
            if process_start(pid):
                os.kill(pid, signal.SIGKILL)
        parent.kill()
        parent.wait()


def are_begun(parent: int, programs: int) -> bool:
    """The supervisor, and so many programs below it: between a fork and its exec one looks like the supervisor."""
    commands = []
    for pid in descendants(parent):
        with suppress(OSError):  # it has ended meanwhile
            commands.append(command_of(pid))
    return (
        sum(SUPERVISOR in each for each in commands) == 1 and sum("time.sleep" in each for each in commands) > programs
    )


def await_ends(pids: list[int]) -> None:
    """Pytest's own limit is the only one: a busy box is slow."""
    while any(process_start(pid) for pid in pids):
        time.sleep(0.05)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def the_supervisor(pids: list[int]) -> int:
    (found,) = [pid for pid in pids if SUPERVISOR in command_of(pid)]
    return found


def test_everything_ends_when_the_parent_is_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, STAYS) as (parent, everybody):
        assert len(everybody) == 4, "the supervisor, two programs, and the orphan of one"
        parent.kill()
        await_ends(everybody)


def test_everything_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with supervised(tmp_path, STAYS) as (_, everybody):
        os.kill(the_supervisor(everybody), signal.SIGTERM)
        await_ends(everybody)


def test_everything_ends_with_the_first_program(tmp_path: Path) -> None:
    with supervised(tmp_path, AWAITS) as (_, everybody):
        (tmp_path / "orphan.go").touch()
        await_ends(everybody)


def test_programs_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, STAYS) as (_, everybody):
        mine = the_supervisor(everybody)
        programs = [pid for pid in everybody if "time.sleep(600)" in command_of(pid) and pid != mine][:2]
        os.kill(mine, signal.SIGKILL)
        await_ends([pid for pid in programs if str(pid) != (tmp_path / "orphan").read_text().strip()])


def test_the_exit_code_is_that_of_the_program_that_ended(tmp_path: Path) -> None:
    for code, expected in (("raise SystemExit(7)", 7), ("pass", 1)):
        commands = [[sys.executable, "-c", each] for each in (STAYS, code)]
        assert subprocess.run(child_processes.supervisor_command(commands, os.getpid())).returncode == expected


def mask_of(pid: int, field: str) -> set[int]:
    """The numbers of the signals that a process ignores (`SigIgn`), blocks (`SigBlk`) or handles (`SigCgt`)."""
    (mask,) = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if field in line]
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


def test_the_supervisor_waits_for_signals_and_handles_none(tmp_path: Path) -> None:
    """A handler that raises could come between a program's end and the end of all."""
    with supervised(tmp_path, STAYS) as (parent, everybody):
        one = the_supervisor(everybody)
        assert not mask_of(one, "SigCgt") & {signal.SIGTERM, signal.SIGHUP}
        assert not any(mask_of(pid, "SigBlk") for pid in everybody if pid not in (parent.pid, one))


def test_signals_do_not_cut_the_end_short(tmp_path: Path) -> None:
    """They come all the time, from before a program ends until the orphan has, which ignores SIGINT."""
    with supervised(tmp_path, AWAITS) as (parent, everybody):
        while signal.SIGINT not in mask_of(int((tmp_path / "orphan").read_text()), "SigIgn"):
            time.sleep(0.05)
        one = the_supervisor(everybody)
        ends = [pid for pid in everybody if pid != parent.pid]
        os.kill(one, signal.SIGSTOP)  # both are there when it goes on: that a program has ended, and a request to end
        (tmp_path / "orphan.go").touch()
        (awaits,) = [pid for pid in everybody if ".go" in command_of(pid) and pid not in (parent.pid, one)]
        while "State:\tZ" not in Path(f"/proc/{awaits}/status").read_text():
            time.sleep(0.05)
        os.kill(one, signal.SIGCONT)
        while any(process_start(pid) for pid in ends):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                with suppress(ProcessLookupError):
                    os.kill(one, number)


ANOTHER_USERS = """
import os, signal, subprocess, sys
from barograph import child_processes
sleepers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(3)]
theirs, send = sleepers[0], os.kill

def kill(pid, number):  # root may signal everybody, so the kernel's refusal is said in its place
    if pid == theirs.pid:
        raise PermissionError(1, "Operation not permitted")
    send(pid, number)

os.kill = kill
child_processes._end_all([(signal.SIGTERM, 60.0), (signal.SIGKILL, 60.0)])
print(theirs.pid, child_processes.descendants(os.getpid()) == [theirs.pid])
send(theirs.pid, signal.SIGKILL)
"""


def test_a_process_of_another_user_keeps_no_other_one(tmp_path: Path) -> None:
    begin_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", ANOTHER_USERS], capture_output=True, text=True, check=True)
    said, result = done.stdout.splitlines()
    pid, is_left_alone = result.split()
    assert said == f"process {pid} is another user's and cannot be ended; see `ps {pid}`"
    assert is_left_alone == "True" and time.monotonic() - begin_s < 60, "it is not waited for"


def test_an_emulated_machine_is_left_to_its_lease(tmp_path: Path) -> None:
    """Podman's `conmon` has left the one that started it; here it is a program of that name with one below it."""
    conmon = tmp_path / "conmon"
    shutil.copy2("/bin/sh", conmon)
    (tmp_path / "machine.sh").write_text("sleep 600 & echo $! $$ >machine.new; mv machine.new machine; wait\n")
    machine = f"cd {tmp_path}; setsid {conmon} machine.sh &"
    starts = f"import subprocess, time; subprocess.run(['sh', '-c', {machine!r}]); time.sleep(600)"
    left: list[int] = []
    try:
        with supervised(tmp_path, starts) as (_, everybody):
            while not (tmp_path / "machine").exists():
                time.sleep(0.05)
            left = [int(pid) for pid in (tmp_path / "machine").read_text().split()]
            one = the_supervisor(everybody)
            os.kill(one, signal.SIGTERM)
            await_ends([one])
            assert all(process_start(pid) for pid in left)
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
