"""What `make` leaves to its user, and the lock of tests with machines."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import WITH_MACHINES

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
    locks = {part: dict(re.findall(r"(MACHINES_LOCK)=(\w+)", command)) for part, command in commands().items()}
    assert {part for part, lock in locks.items() if lock} == {"cloud", "testbeds", "codes", "cluster", "experiments"}
    assert [part for part, lock in locks.items() if "exclusive" in lock.values()] == ["experiments"]


def commands() -> dict[str, str]:
    """What each part of `make test` runs, by the name of its report."""
    parts = ("cloud", "testbeds", "codes", "cluster", "experiments", "analyses", "airflow", "unit")
    argv = ["make", "-n", "-C", str(ROOT), *parts]
    done = subprocess.run(argv, env={**os.environ, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "junitxml=" in line]
    return {line.split("junitxml=.barograph/junit/")[1].split(".xml")[0]: line for line in lines}


def test_every_file_of_tests_with_machines_is_in_one_part() -> None:
    folders = [ROOT / "tests" / name for name in WITH_MACHINES]
    files = {str(path.relative_to(ROOT)) for folder in folders for path in folder.glob("test_*.py")}
    found: list[str] = []
    for part in ("testbeds", "codes", "cluster"):
        words = [word for word in commands()[part].split() if word.startswith(("tests/", "--ignore="))]
        left_out = {word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")}
        found += [file for file in files if is_in(file, set(words)) and not is_in(file, left_out)]
    assert sorted(found) == sorted(files)


def is_in(file: str, places: set[str]) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in places)
