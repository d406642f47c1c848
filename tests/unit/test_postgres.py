"""The tests' own PostgreSQL ends with the process that started it, whatever ends that."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barograph.settings import ROOT

HOLDER = """
from tests.support import postgres
with postgres.running() as server:
    first = server.create("first")
    assert server.create("second", template="first") != first and server.answers()
    print(server.folder, flush=True)
    input()
"""


def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit_s:g} s"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_neither_server_nor_folder_outlives_its_holder(number: signal.Signals | None) -> None:
    argv = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        assert alive(server)
        if number is not None:
            os.kill(holder.pid, number)
        holder.communicate("\n")
        until(lambda: not alive(server))
        until(lambda: not folder.exists())
