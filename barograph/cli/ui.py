"""`barograph ui`: Airflow on loopback with its own password; it ends together with everything it started.

Airflow's parts are started one by one, for `airflow standalone` has log servers that listen on every address. The
pages read logs as files.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from barograph.airflow_environment import (
    CONNECTION,
    DATABASE,
    environment,
    prepare,
    prepare_users_database,
    write_scheduler_database,
)
from barograph.child_processes import POLL_S, STEP_S, STEPS, ChildProcess, supervisor_command
from barograph.cli.terminal import say, signals_as_interrupt
from barograph.errors import BarographError, ConfigurationError, Say
from barograph.settings import HOLDER, ROOT, airflow_home
from inventory.files import replace_file

USER = "admin"
READY_S = 300.0  # on a busy box; an Airflow that ended is noticed at once
HEARTBEATS = ("scheduler", "dag_processor", "triggerer")
PARTS = (("api-server",), ("dag-processor",), ("scheduler", "--skip-serve-logs"), ("triggerer", "--skip-serve-logs"))
SUPERVISOR_S = len(STEPS) * STEP_S + 5.0
# First the supervisor alone, which ends the others step by step, then the rest of its group.
ENDING = ((signal.SIGTERM, SUPERVISOR_S), (signal.SIGTERM, 5.0), (signal.SIGKILL, 15.0))
LAST_PORT = 65_535
LOG, LOCK = "ui.log", "ui.lock"


def add_ui_arguments(ui: argparse.ArgumentParser) -> None:
    ui.add_argument("--port", type=int, default=8080, metavar="N", help="port of 127.0.0.1 (default 8080)")


def execute_ui(options: argparse.Namespace) -> int:
    return serve(options.port, say)


def serve(port: int, say: Say) -> int:
    """Serve until Ctrl-C, with a new password each time, in a file of Airflow's home (mode 0600)."""
    home = airflow_home()
    with _alone(home):
        if not 1 <= port <= LAST_PORT:
            raise ConfigurationError(f"--port is {port}; allowed: 1 to {LAST_PORT}, such as 8080")
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise ConfigurationError(
                    f"port {port} on 127.0.0.1: {error.strerror}; give another with --port"
                ) from error
        prepare(home)
        prepare_users_database(home)
        write_password(home)
        say("starting Airflow")
        begin, parts = datetime.now(UTC), list[ChildProcess]()
        with signals_as_interrupt(), ExitStack() as stack:
            try:
                # A task that begins before the server answers fails; one that ends after it cannot tell so.
                for commands, names in ((PARTS[:1], ()), (PARTS[1:], HEARTBEATS)):
                    parts.append(stack.enter_context(start_airflow(home, port, commands)))
                    _await(parts, port, names, begin)
                # A journal may have this line: the password is for this user's eyes.
                say(
                    f"Airflow: http://127.0.0.1:{port}  user {USER}, password in {_password_file(home)}; Ctrl-C ends it"
                )
                while True:
                    _require_running(parts)
                    time.sleep(POLL_S)
            except KeyboardInterrupt:
                say("stopping Airflow")
                return 0


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Lock the home; the kernel ends the lock with this process. Two schedulers on one database would each do tasks of
    the other's runs, and neither could release the machines of the other."""
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ConfigurationError(
            f"another `barograph ui` serves from {home}; use that one, or end it, or set BAROGRAPH_HOME to another"
            " folder for a second one"
        ) from None
    try:
        yield
    finally:
        lock.release()


def start_airflow(home: Path, port: int, parts: Sequence[Sequence[str]]) -> ChildProcess:
    """Start parts of Airflow under a supervisor, which ends with all their processes."""
    commands = [[sys.executable, "-m", "airflow", *part] for part in parts]
    return start_supervised(commands, home / LOG, ui_environment(home, port))


def start_supervised(commands: Sequence[Sequence[str]], log: Path, environment: Mapping[str, str]) -> ChildProcess:
    argv = supervisor_command(commands, os.getpid())
    with log.open("ab") as output:
        return ChildProcess(argv, folder=ROOT, output=output, environment=environment, ending=ENDING, ends_its_own=True)


def ui_environment(home: Path, port: int) -> dict[str, str]:
    manager = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
    variables = environment(home)
    return {
        **variables,
        DATABASE: str(write_scheduler_database(home, variables[CONNECTION])),
        "AIRFLOW__CORE__AUTH_MANAGER": manager,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(_password_file(home)),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        # Its tasks are short-lived: their leases end with this process.
        HOLDER: str(os.getpid()),
    }


def write_password(home: Path) -> None:
    """Write a new password into the file that Airflow reads, readable by nobody else."""
    replace_file(_password_file(home), json.dumps({USER: secrets.token_urlsafe(12)}), mode=0o600)


def _await(airflow: Sequence[ChildProcess], port: int, parts: Sequence[str], begin: datetime) -> None:
    """Wait until the server answers, and these parts have had a heartbeat since `begin`."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        _require_running(airflow)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=10) as answer:
                health = json.load(answer)
            if all(_is_healthy(health[part], part, begin) for part in parts):
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.5)
    raise BarographError(f"Airflow does not answer after {READY_S:g} s; see {airflow_home() / LOG}")


def _is_healthy(facts: Mapping[str, str | None], part: str, begin: datetime) -> bool:
    """Return whether it works; for a while Airflow takes the part of an earlier start for a living one."""
    heartbeat = facts.get(f"latest_{part}_heartbeat")
    return facts["status"] == "healthy" and heartbeat is not None and datetime.fromisoformat(heartbeat) >= begin


def _require_running(airflow: Sequence[ChildProcess]) -> None:
    for process in airflow:
        if (code := process.exit_code()) is not None:
            raise BarographError(f"Airflow ended by itself with {code}; see {airflow_home() / LOG}")


def _password_file(home: Path) -> Path:
    return home / "passwords.json"
