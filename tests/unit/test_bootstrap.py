"""What set-up says of a machine that can carry no others: what is missing, and what works there all the same."""

import shutil
import subprocess
from pathlib import Path

NEEDED = ("bash", "dirname", "uname", "df", "awk", "grep", "cut", "cat", "env", "python3", "python3.11", "python3.12")


def check(tmp_path: Path, repository: Path) -> subprocess.CompletedProcess[str]:
    """As a user who is not root, where there is neither sudo nor apt."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in NEEDED:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    (programs / "id").write_text('#!/bin/sh\n[ "$1" = -u ] && echo 1000 || echo ada\n')
    (programs / "id").chmod(0o755)
    argv = [str(repository / ".ci" / "bootstrap"), "--check-only"]
    environment = {"PATH": str(programs), "HOME": str(tmp_path)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_without_root_it_says_so_and_offers_the_simulated_demo(tmp_path: Path, repository: Path) -> None:
    done = check(tmp_path, repository)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and "nothing was changed" in lines[0]
    assert any(line.startswith("  - you are ada, and there is no sudo") for line in lines)
    assert lines[-1] == "The same in a model of Storm needs no root, no Podman and no cgroups: make simulated"


def test_the_command_that_is_offered_is_there_and_needs_no_root(repository: Path) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "simulated"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert ".ci/bootstrap --python-only" in done.stdout and "sudo" not in done.stdout
    assert "barograph run stela/star --testbed simulated" in done.stdout
