"""A record that could not be packed is a failure, and not a shorter record."""

import base64
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "playbooks/roles/collect/files/pack.sh"


def pack(folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    text = SCRIPT.read_text().replace("/var/log/barograph", str(folder))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", text, "pack.sh", "m1"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def left(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    (folder / "machines").mkdir(parents=True)
    (folder / "machines" / "m1.jsonl").write_text("{}\n" * 20_000)
    return folder


def test_what_a_run_left_is_packed(left: Path, tmp_path: Path) -> None:
    done = pack(left, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done.stdout))) as packed:
        assert "./machines/m1.jsonl" in packed.getnames()


def test_a_file_of_a_terabyte_is_left_out_and_named(left: Path, tmp_path: Path) -> None:
    """A topology may leave one, sparse on its disk."""
    with (left / "machines" / "a huge * one").open("wb") as file:
        file.truncate(2**40)
    done = pack(left, tmp_path)
    assert (done.returncode, done.stderr) == (0, "missing machines/a huge * one (above 4 GiB)\n")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done.stdout))) as packed:
        assert sorted(packed.getnames()) == [".", "./machines", "./machines/m1.jsonl"]


@pytest.mark.parametrize(("program", "code"), [("tar", 2), ("gzip", 1), ("base64", 1)])
def test_a_part_that_fails_is_named(left: Path, tmp_path: Path, program: str, code: int) -> None:
    failing = tmp_path / "bin" / program
    failing.parent.mkdir()
    failing.write_text(f"#!/bin/sh\nhead -c 100 /dev/zero\nexit {code}\n")
    failing.chmod(0o755)
    done = pack(left, failing.parent)
    assert done.returncode == 1
    # One that reads no further ends the one before it too.
    assert program in done.stderr.partition("could not be packed: ")[2].split()


def test_a_log_that_changes_while_it_is_read_is_no_failure(left: Path, tmp_path: Path) -> None:
    changing = tmp_path / "bin" / "tar"
    changing.parent.mkdir()
    changing.write_text('#!/bin/sh\n/bin/tar "$@"\nexit 1\n')
    changing.chmod(0o755)
    done = pack(left, changing.parent)
    assert (done.returncode, done.stderr) == (0, "")
