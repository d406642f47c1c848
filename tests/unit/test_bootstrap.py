"""What set-up says of a machine that lacks something: what is missing, and what works there all the same."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from barograph.cli import preparation
from barograph.errors import BarographError
from inventory.local import preflight

NEEDED = (
    "bash", "dirname", "uname", "df", "awk", "grep", "cut", "cat", "env", "date", "mkdir", "touch", "tail", "flock",
    "python3", "python3.11", "python3.12",
)  # fmt: skip
OFFER = "The same in a model of Storm needs Python, but no root, Java, Podman or cgroups: make simulated"
ADA = '[ "$1" = -u ] && echo 1000 || echo ada'
ROOM = "printf 'x\\nx 1 1 99999999\\n'"


def bootstrap(
    tmp_path: Path, repository: Path, mode: str = "", stdin: int = subprocess.DEVNULL, **stubs: str,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """In a tree of its own, as a user who is not root, where there is neither sudo nor apt but for these programs."""
    programs, tree = tmp_path / "bin", tmp_path / "tree"
    programs.mkdir()
    for name in NEEDED:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    for name, script in {"id": ADA, "df": ROOM, **stubs}.items():
        program(programs / name.replace("_", "-"), script)
    shutil.copytree(repository / ".ci", tree / ".ci")
    environment = {"PATH": str(programs), "HOME": str(tmp_path)}
    argv = [str(tree / ".ci" / "bootstrap"), *([mode] if mode else [])]
    return subprocess.run(
        argv,
        env=environment,
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )  # without the terminal of who runs the tests


def program(path: Path, script: str) -> None:
    path.unlink(missing_ok=True)  # a link would be followed
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_root_it_says_so_and_offers_the_simulated_demo(tmp_path: Path, repository: Path) -> None:
    done = bootstrap(tmp_path, repository, "--check-only")
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and "nothing was changed" in lines[0]
    assert any(line.startswith("  - you are ada, and there is no sudo") for line in lines)
    assert lines[-1] == OFFER


REFUSES = 'echo "sudo: a password is required" >&2; exit 1'


@pytest.mark.parametrize("mode", ["", "--check-only"])
def test_a_sudo_that_does_nothing_for_the_user_is_none(tmp_path: Path, repository: Path, mode: str) -> None:
    done = bootstrap(tmp_path, repository, mode, sudo=REFUSES)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and lines[-1] == OFFER
    assert "  - you are ada, and sudo does nothing for you without a password" in done.stderr
    assert "sudo: a password" not in done.stderr, "it is asked without a word of its own"


def test_in_a_terminal_sudo_may_ask_for_a_password(tmp_path: Path, repository: Path) -> None:
    terminal, stdin = pty.openpty()
    asks = '[ "$1" = -n ] && exit 1; echo "Sorry, try again." >&2; exit 1'
    done = bootstrap(tmp_path, repository, stdin=stdin, sudo=asks)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and lines[0] == "Sorry, try again." and lines[-1] == OFFER
    assert "  - you are ada, and sudo does nothing for you; " in done.stderr
    os.close(terminal)
    os.close(stdin)


def test_a_sudo_that_works_is_no_problem(tmp_path: Path, repository: Path) -> None:
    assert "you are ada" not in bootstrap(tmp_path, repository, "--check-only", sudo="exit 0").stderr


@pytest.mark.parametrize(
    ("call", "words"),
    [("update", "apt-get could not fetch its lists"), ("install", "apt-get could not install podman runc")],
)
def test_where_packages_cannot_be_installed_it_offers_the_simulated_demo(
    tmp_path: Path, repository: Path, call: str, words: str
) -> None:
    """All that needs root goes through a sudo that does nothing, and fails this call of apt-get."""
    sudo = f'case "$*" in *"apt-get {call}"*) echo "E: Unable to fetch" >&2; exit 100 ;; esac'
    done = bootstrap(tmp_path, repository, sudo=sudo, apt_get="", apt_cache="echo Candidate: 17")
    assert done.returncode == 4, done.stderr
    *_, last, offer = done.stderr.splitlines()
    assert last.startswith(f"infrastructure: {words}") and offer == OFFER


def test_a_simulated_demo_asks_for_no_java(tmp_path: Path, repository: Path) -> None:
    """Spark's comes with the packages. The full disk is what ends it, before anything is fetched."""
    done = bootstrap(tmp_path, repository, "--python-only", df="printf 'x\\nx 1 1 0\\n'")
    assert done.returncode == 2 and "0 GB free" in done.stderr and "Java" not in done.stderr
    assert "make simulated" not in done.stderr, "it is what was tried"
    assert [path.name for path in (tmp_path / "tree").iterdir()] == [".ci"]


def test_the_command_that_is_offered_is_there_and_needs_no_root(repository: Path) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "simulated"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert ".ci/bootstrap --python-only" in done.stdout and "sudo" not in done.stdout
    assert "barograph run stela/star --testbed simulated" in done.stdout


def test_a_box_that_cannot_carry_machines_is_offered_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """In what `make demo` ends with where Podman or cgroups do not work."""
    monkeypatch.setattr(preflight, "check_box", lambda: [preflight.Problem("podman does not start", "mend it")])
    monkeypatch.setattr(preparation, "java_problems", lambda: ["mvn is not installed; apt-get install maven"])
    with pytest.raises(BarographError) as caught:
        preparation.require_fit_box()
    said = str(caught.value)
    assert said.startswith("podman does not start; mend it; ") and "mvn is not installed" in said
    offer = "needs only Python: `make simulated`, or `barograph run NAME --testbed simulated`"
    assert said.endswith(f"; a model of Storm {offer}")
