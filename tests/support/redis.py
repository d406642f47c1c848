"""A Redis of the tests' own, from Debian's packages: the broker of an Airflow with workers elsewhere.

It listens on a socket in its own folder, and ends with the process that started it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Debian's server is the program of redis-tools that checks files; the name that it is called by decides.
PROGRAM = "redis-check-rdb"
READY_S = 60.0


@contextmanager
def running() -> Iterator[Path]:
    """Its socket."""
    program = shutil.which(PROGRAM)
    assert program, f"no {PROGRAM}: run .ci/bootstrap"
    folder = Path(tempfile.mkdtemp(prefix="barograph-redis-", dir="/tmp"))  # a socket's path has 107 characters
    server, socket = folder / "redis-server", folder / "socket"
    server.symlink_to(Path(program).resolve())
    told = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", str(server), *told], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_S
        while not socket.exists():
            assert process.poll() is None, f"Redis ended with {process.returncode}"
            assert time.monotonic() < deadline, f"Redis does not answer after {READY_S:g} s"
            time.sleep(0.05)
        yield socket
    finally:
        process.terminate()
        process.wait(timeout=60)
        shutil.rmtree(folder)
