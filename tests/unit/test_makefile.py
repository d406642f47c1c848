"""What `make` leaves to its user, and the lock of tests with machines."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = "65534"
HOLDER = """
import subprocess, sys
from pathlib import Path
from tests.support import machines_lock
machines_lock.take(sys.argv[2], Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_what_was_built_with_sudo_is_given_back_before_it_is_removed(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("test_", "popen-", "pytest-")):
            folder.chmod(0o755)
    place, said = tmp_path / "checkout", tmp_path / "said"
    (place / ".barograph" / "built").mkdir(parents=True)
    shutil.copy2(ROOT / "Makefile", place)
    os.chown(place, int(NOBODY), int(NOBODY))
    said.touch()
    said.chmod(0o666)
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    sudo.chmod(0o755)
    argv = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "make", "-C", str(place), "clean"]
    environment = {**os.environ, "PATH": f"{sudo.parent}:/usr/bin:/bin"}  # root's home may be closed to others
    subprocess.run(argv, env=environment, capture_output=True, timeout=60)
    assert said.read_text() == f"chown -R {NOBODY}:{NOBODY} .barograph\n"


@pytest.mark.parametrize(("kind", "others"), [("exclusive", False), ("shared", True)])
def test_the_lock_lives_exactly_as_long_as_the_process_of_the_tests(tmp_path: Path, kind: str, others: bool) -> None:
    lock = tmp_path / "machines.lock"
    argv = [sys.executable, "-c", HOLDER, str(lock), kind]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            assert is_free(lock, fcntl.LOCK_SH) is others and not is_free(lock, fcntl.LOCK_EX)
            holder.kill()
            holder.wait(10)
            assert is_free(lock, fcntl.LOCK_EX), "what it started does not keep it"
        finally:
            os.kill(child, signal.SIGKILL)


def is_free(lock: Path, kind: int) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_tests_with_machines_take_the_lock() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    locked = {line.split("tests,")[1].split(",")[0]: line for line in lines if "BAROGRAPH_MACHINES_LOCK=" in line}
    assert set(locked) == {"cloud", "machines", "experiments"}
    assert "LOCK=exclusive" in locked["experiments"]
