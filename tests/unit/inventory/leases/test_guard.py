"""The guard as the shell script that it is, with an end of the test's own instead of a power-off."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from barograph.child_processes import group_members
from barograph.errors import InfrastructureError
from inventory.leases import guard
from inventory.remote.ssh import Remote, Result

LIMIT_S = 30.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "end").write_text(f"echo over >>{tmp_path}/ended\n")
    return tmp_path


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The guard; while it runs the wall clock is what the file `date` in the folder says, if there is one."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "date").write_text(
        f'#!/bin/sh\n[ -e {folder}/date ] && exec cat {folder}/date\nexec /usr/bin/date "$@"\n'
    )
    (programs / "date").chmod(0o755)
    environment = {
        **os.environ, "BAROGRAPH_GUARD": str(folder), "BAROGRAPH_GUARD_EVERY_S": "0.1",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }  # fmt: skip
    with subprocess.Popen(["sh", str(guard.SCRIPT)], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def say(folder: Path, in_s: float, longest_s: float = 1000) -> None:
    partial = folder / "expires.partial"
    partial.write_text(f"{time.time() + in_s:.0f} {longest_s:.0f}\n")
    partial.rename(folder / "expires")


def ended(folder: Path, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if (folder / "ended").exists():
            return True
        time.sleep(0.05)
    return False


def test_it_ends_the_machine_after_the_end_and_not_before(folder: Path) -> None:
    end_s = time.time() + 2
    say(folder, in_s=2)
    with running(folder) as process:
        assert ended(folder, within_s=LIMIT_S)
        assert time.time() >= end_s - 1, "the guard counts whole seconds"
        assert process.wait(LIMIT_S) == 0


def test_a_later_end_keeps_the_machine(folder: Path) -> None:
    say(folder, in_s=2)
    with running(folder):
        say(folder, in_s=1000)
        assert not ended(folder, within_s=4)


def test_a_wall_clock_that_was_set_back_makes_no_difference(folder: Path) -> None:
    (folder / "date").write_text("1000\n")
    say(folder, in_s=500, longest_s=2)
    with running(folder):
        assert ended(folder, within_s=LIMIT_S)


def test_what_was_counted_survives_a_new_start(folder: Path) -> None:
    (folder / "date").write_text("1000\n")
    say(folder, in_s=500, longest_s=6)
    with running(folder):
        assert not ended(folder, within_s=2.5)
        counted = (folder / "seen").read_text()
    with running(folder):
        assert ended(folder, within_s=LIMIT_S)
    assert (folder / "seen").read_text() == counted, "with the same deadline, not one that is as far from the new start"


@pytest.mark.parametrize("nonsense", ["", "soon 5", "12", "1 2 3", "-5 5", "5 5x"])
def test_nonsense_changes_nothing(folder: Path, nonsense: str) -> None:
    say(folder, in_s=1000)
    with running(folder) as process:
        time.sleep(0.5)
        (folder / "expires").write_text(nonsense)
        assert not ended(folder, within_s=0.5)
        assert process.poll() is None
        say(folder, in_s=-1)
        assert ended(folder, within_s=LIMIT_S)


def test_an_end_that_fails_is_repeated(folder: Path) -> None:
    (folder / "end").write_text(
        f"echo try >>{folder}/tries; [ $(wc -l <{folder}/tries) -ge 3 ] && touch {folder}/ended\n"
    )
    say(folder, in_s=-1)
    with running(folder) as process:
        assert ended(folder, within_s=LIMIT_S)
        assert process.wait(LIMIT_S) == 0
    assert (folder / "tries").read_text() == "try\n" * 3


def test_without_an_end_of_its_own_it_powers_off_again_and_again(folder: Path) -> None:
    (folder / "end").unlink()
    say(folder, in_s=-1)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "poweroff").write_text(f'#!/bin/sh\necho "poweroff $*" >>{folder}/ended\n')
    (programs / "poweroff").chmod(0o755)
    with running(folder) as process:
        deadline = time.monotonic() + LIMIT_S
        while not (folder / "ended").exists() or len((folder / "ended").read_text().splitlines()) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert process.poll() is None
    assert (folder / "ended").read_text().splitlines()[:4] == ["poweroff "] * 3 + ["poweroff -f"]


class Shell:
    """A machine whose root is a folder: the shell text that it is given, with every place below that folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for place in ("/run", "/etc/systemd/system"):
            (root / place[1:]).mkdir(parents=True)

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        *shell, text = argv
        for place in ("/usr/local/sbin", "/run/", "/etc/systemd", "/var/lib/"):
            text = text.replace(place, f"{self.root}{place}")
        environment = {**os.environ, "BAROGRAPH_GUARD": f"{self.root}{guard.FOLDER}", "BAROGRAPH_GUARD_EVERY_S": "0.1"}
        done = subprocess.run([*shell, text], capture_output=True, text=True, env=environment, timeout=timeout_s)
        return Result(done.stdout, done.stderr, done.returncode)

    def expires(self) -> list[int]:
        return [int(word) for word in (self.root / guard.FOLDER[1:] / "expires").read_text().split()]

    def pid(self) -> int:
        return int((self.root / guard.PID[1:]).read_text())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Any]:
    shell = Shell(tmp_path)
    yield shell
    guard.remove(cast(Remote, shell))


def runs(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


def test_once_started_it_gets_every_new_end_and_stays_one(machine: Any) -> None:
    begun = time.time()
    guard.start(machine, begun + 100, end=f"touch {machine.root}/ended")
    first, longest_s = machine.pid(), machine.expires()[1]
    assert machine.expires()[0] == pytest.approx(begun + 100, abs=1.5)
    assert 100 <= longest_s <= 100 + guard.SLACK_S + 1
    guard.prolong(machine, begun + 500)
    assert machine.expires()[0] == pytest.approx(begun + 500, abs=1.5)
    guard.start(machine, begun + 200, end=f"touch {machine.root}/ended")
    assert machine.pid() == first and runs(first)
    guard.prolong(machine, begun - 1)
    assert ended(machine.root, within_s=LIMIT_S)


def test_once_removed_nothing_is_left_of_it_and_nothing_ends(machine: Any) -> None:
    guard.start(machine, time.time() + 100, end=f"touch {machine.root}/ended")
    pid = machine.pid()
    guard.remove(machine)
    guard.remove(machine)
    deadline = time.monotonic() + LIMIT_S
    while runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not [path for path in machine.root.rglob("*") if path.is_file()]


def test_a_guard_that_is_stopped_ends_nothing_more_whatever_it_has_begun(machine: Any) -> None:
    guard.stop(machine)
    guard.start(machine, time.time() - 1, end=f"echo $$ >{machine.root}/ended; sleep 600; touch {machine.root}/late")
    assert ended(machine.root, within_s=LIMIT_S)
    old = machine.pid()
    guard.stop(machine)
    assert group_members(old) == []
    guard.start(machine, time.time() + 100, end=f"touch {machine.root}/late")
    assert machine.pid() != old and runs(machine.pid())


def test_a_machine_without_a_guard_is_not_prolonged(machine: Any) -> None:
    with pytest.raises(InfrastructureError, match="telling the guard the lease's new end failed with code 1"):
        guard.prolong(machine, time.time() + 10)
