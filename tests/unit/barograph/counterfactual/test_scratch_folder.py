"""The folder of a counterfactual goes with it, and one that a killed process has left goes with the next."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from filelock import FileLock

from barograph.counterfactual.simulation import LOCK, PREFIX, YOUNG_S, remove_left_over, scratch_folder

HOLD = """
import sys, time
from barograph.counterfactual.simulation import scratch_folder
with scratch_folder() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def folder(name: str, age_s: float, *, lock: bool = True) -> Path:
    made = Path(tempfile.gettempdir()) / f"{PREFIX}{name}"
    (made / "runs").mkdir(parents=True)
    if lock:
        (made / LOCK).touch()
    then = time.time() - age_s
    os.utime(made, (then, then))
    return made


def test_it_goes_with_the_block() -> None:
    with scratch_folder() as mine:
        assert mine.is_dir() and mine.name.startswith(PREFIX)
        os.utime(mine, (0, 0))
        remove_left_over()
        assert mine.is_dir(), "somebody is at work in it"
    assert not mine.exists()


def test_what_a_killed_process_has_left_goes_with_the_next(repository: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    os.utime(left, (0, 0))
    remove_left_over()
    assert left.is_dir(), "its process lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert left.is_dir()
    with scratch_folder():
        assert not left.exists()


def test_what_may_be_somebodys_stays(temporary: Path) -> None:
    young = folder("young", YOUNG_S / 2)
    (other := temporary / f"{PREFIX}file").write_text("no folder")
    (temporary / "elsewhere").mkdir()
    (link := temporary / f"{PREFIX}link").symlink_to(temporary / "elsewhere")
    os.utime(link, (0, 0), follow_symlinks=False)
    os.utime(other, (0, 0))
    with FileLock(folder("held", YOUNG_S * 2) / LOCK):
        remove_left_over()
        assert (temporary / f"{PREFIX}held").is_dir()
    assert young.is_dir() and other.is_file() and link.is_symlink()
    remove_left_over()
    assert not (temporary / f"{PREFIX}held").exists()
