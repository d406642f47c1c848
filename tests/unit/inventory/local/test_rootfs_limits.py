"""A root filesystem whose mirror hangs is given up in time, and nothing of its build goes on."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from inventory.local import rootfs

SOURCES = (("http://mirror.example.org/debian", "stable", "main"),)


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A debootstrap that says what it does and hangs."""
    program = tmp_path / "bin" / "debootstrap"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "I: Retrieving InRelease"\nexec sleep 600.25\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(rootfs, "DEBOOTSTRAP_LIMIT_S", 1.0)
    monkeypatch.setattr(rootfs, "_proxy", dict)
    return program


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_mirror_that_hangs_is_infrastructure(hanging: Path, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"debootstrap did not end within 1 s\): I: Retrieving InRelease"):
        rootfs._build(tmp_path / "rootfs-1", "stable", SOURCES, print)
    end_s = time.monotonic() + 10
    while b"600.25" in b"".join(_command_lines()):
        assert time.monotonic() < end_s, "it goes on"
        time.sleep(0.05)


def _command_lines() -> list[bytes]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes())
        except OSError:
            continue
    return found


def test_looking_at_apts_settings_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "COMMAND_LIMIT_S", 0.1)
    with pytest.raises(InfrastructureError, match=r"`sleep 60` did not end within 0\.1 s"):
        rootfs._output_of(["sleep", "60"])


def test_a_failure_is_told_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("I: fine\nE: Failed getting release file\n")
    message = rootfs._failure_message(subprocess.CalledProcessError(1, ["debootstrap"]), tmp_path / "log")
    assert "(exit 1): E: Failed getting release file" in message
