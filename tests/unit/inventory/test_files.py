"""Ids that last; locks between processes: who waits hears for whom, and not for ever."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from inventory.files import hold_lock, lasting_id, users_folder

HOLDER = """
import sys, time
from pathlib import Path
from inventory.files import hold_lock
with hold_lock(Path(sys.argv[1]), "building a house"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path / ".lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_waits_too_long_is_told_who_holds_the_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    said: list[str] = []
    waiting = rf"{tmp_path}/.lock is still held after 0.2 s, by process {holder.pid}, building a house since .*end it"
    with pytest.raises(InfrastructureError, match=waiting), hold_lock(tmp_path / ".lock", "waiting", 0.2, said.append):
        raise AssertionError("two hold it")
    assert len(said) == 1 and said[0].startswith(f"waiting for process {holder.pid}, building a house since ")


def test_a_holder_that_is_killed_leaves_the_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait(10)
    with hold_lock(tmp_path / ".lock", "coming next", 0.2):
        assert "coming next" in (tmp_path / ".lock.holder").read_text()
    assert not (tmp_path / ".lock.holder").exists()


def test_a_lock_that_is_free_is_taken_without_a_word(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        with hold_lock(tmp_path / "folder" / ".lock", "looking", 0.2, said.append):
            pass
    assert said == []


def test_an_id_lasts_and_one_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "spool" / ".id"
    made = lasting_id(file)
    assert made and lasting_id(file) == made == file.read_text()
    file.write_text("")  # a full disk, or a kill before it was written
    with ThreadPoolExecutor(8) as pool:
        (anew,) = set(pool.map(lambda _: lasting_id(file), range(40)))
    assert anew not in ("", made) and file.read_text() == anew


@pytest.mark.parametrize(
    ("variables", "root", "writable", "expected"),
    [
        ({"BAROGRAPH_STATE": "/mine"}, True, True, "/mine"),
        ({}, True, False, "/var/lib/barograph"),
        ({}, False, True, "/var/lib/barograph"),
        ({}, False, False, "/home/ada/.local/state/barograph"),
        ({"XDG_STATE_HOME": "/data"}, False, False, "/data/barograph"),
    ],
)
def test_without_root_what_is_kept_is_below_the_home(
    variables: dict[str, str], root: bool, writable: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BAROGRAPH_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/ada", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(os, "access", lambda *_: writable)
    assert users_folder("BAROGRAPH_STATE", Path("/var/lib/barograph"), "state") == Path(expected)
