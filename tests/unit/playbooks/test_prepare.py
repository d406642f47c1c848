"""prepare.sh on a machine that is somebody's: accounts that it did not make are not used."""

import os
import subprocess
from pathlib import Path

import pytest

from playbooks import runner

SCRIPT = Path(runner.HERE) / "roles" / "storm" / "files" / "prepare.sh"
PROGRAMS = {
    "getent": 'grep "^$2:" "$MACHINE/$1"',
    "useradd": (
        'for name do :; done; case "$*" in *"--comment Barograph"*) comment=Barograph ;; esac\n'
        'echo "$name:x:990:990:$comment:/nonexistent:/usr/sbin/nologin" >>"$MACHINE/passwd"\n'
        'echo "$name:x:990:" >>"$MACHINE/group"'
    ),
    "java": "echo OpenJDK 17",
    "systemctl": "true",
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tmp_path / "group").write_text("root:x:0:\n")
    return tmp_path


def prepare(machine: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{machine}{os.pathsep}{os.environ['PATH']}", "MACHINE": str(machine)}
    return subprocess.run(["sh", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60)


def test_accounts_are_made_once_and_known_again(machine: Path) -> None:
    assert prepare(machine).stdout == "changed\nchanged\njava OpenJDK 17\n"
    assert prepare(machine).stdout == "java OpenJDK 17\n"


@pytest.mark.parametrize("name", ["storm", "barograph"])
def test_an_account_of_somebody_is_refused(name: str, machine: Path) -> None:
    with (machine / "passwd").open("a") as accounts:
        accounts.write(f"{name}:x:1001:1001:Ann:/home/{name}:/bin/bash\n")
    done = prepare(machine)
    said = f"there is an account {name} that Barograph did not make (1001:/home/{name}:/bin/bash)"
    assert (done.returncode, done.stderr.strip()) == (1, f"the machine is somebody's: {said}")


def test_a_group_of_somebody_is_refused(machine: Path) -> None:
    with (machine / "group").open("a") as groups:
        groups.write("storm:x:1001:ann\n")
    done = prepare(machine)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "the machine is somebody's: there is a group storm that Barograph did not make",
    )
