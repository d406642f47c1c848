"""A PostgreSQL of the tests' own, from Debian's packages: for Airflows whose parts write at the same time.

It listens on a socket in its own folder. It ends, with the folder, when the process that started it ends or is killed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "postgres"  # of Debian's package: the server refuses to run as root
SERVERS = Path("/usr/lib/postgresql")
READY_S = 60.0
# The server's user may not enter root's home, where the links of `.barograph/path` may lie.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
LENIENT = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "jit=off", "listen_addresses=")
# TERM comes from the kernel when the tests die, or from us. QUIT is PostgreSQL's immediate shutdown.
SERVE = """
folder=$1; shift
setpriv --pdeathsig QUIT "$@" &
trap 'kill -QUIT $!; wait; rm -rf "$folder"; exit 0' TERM INT
wait
"""


@dataclass(frozen=True)
class Postgres:
    """A server. Each database is made as a copy of another."""

    folder: Path
    programs: Path

    def create(self, name: str, template: str = "template0") -> str:
        """A new database, as what Airflow calls a connection."""
        self._sql(f'create database "{name}" template "{template}"')
        return f"postgresql+psycopg2://{USER}@/{name}?host={self.folder}"

    def answers(self) -> bool:
        return self._call("pg_isready", "-q").returncode == 0

    def _sql(self, statement: str) -> None:
        done = self._call("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", "template1", "-c", statement)
        assert done.returncode == 0, f"{statement}: {done.stderr}"

    def _call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(self.programs / program), "-h", str(self.folder), "-U", USER, *arguments]
        return subprocess.run(argv, capture_output=True, text=True)


@contextmanager
def running() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="barograph-postgres-", dir="/tmp"))  # a socket's path has 107 characters
    server = Postgres(folder, _programs())
    become = _become(folder)
    log = folder / "log"
    with log.open("wb") as output:
        init = [str(server.programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "--no-sync"]
        made = [*become, *init, "--encoding=UTF8", "--locale=C.UTF-8"]
        if subprocess.run(made, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=output).returncode != 0:
            said = log.read_text()
            shutil.rmtree(folder)
            raise AssertionError(said)
        settings = [part for setting in (*LENIENT, f"unix_socket_directories={folder}") for part in ("-c", setting)]
        postgres = [str(server.programs / "postgres"), "-D", str(folder / "data"), *settings]
        serve = [*become, "--pdeathsig", "TERM", "sh", "-c", SERVE, "sh", str(folder), *postgres]
        process = subprocess.Popen(
            serve,
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _await(server, process, log)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=60)


def _programs() -> Path:
    """Where the newest server's programs are."""
    found = sorted(SERVERS.glob("*/bin"), key=lambda path: float(path.parent.name))
    assert found, f"no PostgreSQL in {SERVERS}: run .ci/bootstrap"
    return found[-1]


def _become(folder: Path) -> list[str]:
    if os.geteuid() != 0:
        return ["setpriv"]
    user = pwd.getpwnam(USER)
    shutil.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _await(server: Postgres, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not server.answers():
        assert process.poll() is None, f"PostgreSQL ended with {process.returncode}: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"PostgreSQL does not answer after {READY_S:g} s"
        time.sleep(0.1)
