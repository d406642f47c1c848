"""Airflow's own folder for this harness: its settings as environment variables, and its databases, made once a version.

There are two databases: one for the scheduler and the pages of `barograph ui`, one for what the command line executes
itself. A scheduler takes every DAG run under way in its database for its own: where the DAG is switched on it would do
the tasks of `barograph run` a second time, and an interrupted run would keep the next from its turn for ever.
Both are SQLite files. Where the user names a database by Airflow's own setting, the scheduler has that one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from barograph.errors import BarographError
from barograph.settings import ROOT, process_environment
from inventory.files import hold_lock, replace_file

POOLS = ROOT / "dags" / "pools.json"
SCHEDULER_DATABASE, COMMAND_LINE_DATABASE = "airflow.db", "command_line.db"
CONNECTION = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
# What Airflow hides from its tasks, so that they do not write to its database.
HIDDEN_CONNECTIONS = (CONNECTION, f"{CONNECTION}_ASYNC", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")
DATABASE = "BAROGRAPH_AIRFLOW_DATABASE"  # names a file with the scheduler's connection, for the task that cleans it
DATABASE_FILE = "scheduler_database"
# Of a database that others may use too: tables whose rows name their DAG.
TABLES_OF_DAGS = ("dag_run", "task_instance", "task_reschedule", "log", "job", "dag_version")
# How long one process waits while another writes. After SQLite's own 5 s Airflow's pages answer 500 on a busy box.
SQLITE_WAIT_S = 60
PREPARE_LIMIT_S = 600.0  # to make the tables of a database on a slow disk


class AirflowFailure(BarographError):
    """Airflow itself does not start."""


class DatabaseUnknown(BarographError):
    """What names the scheduler's database does not."""

    blame = "configuration"


def settings(home: Path) -> dict[str, str]:
    """The environment of every Airflow process of ours."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "barograph" / "web" / "plugin"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # A process for each slot of the pools: what waits in one of them does not wait for the other.
        "AIRFLOW__CORE__PARALLELISM": str(sum(pools().values())),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "60",
        # Runs of a series are mapped tasks: 1,000 blocks of 20 variants.
        "AIRFLOW__CORE__MAX_MAP_LENGTH": "20000",
        CONNECTION: _sqlite(home / SCHEDULER_DATABASE),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        # A failed task held its slot for 5.4 s otherwise.
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        # A task that hears nothing from Airflow's own server for 5 s is killed; on a busy box that is no failure.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        # A task that is asked to end collects its measurements first.
        "AIRFLOW__CORE__KILLED_TASK_CLEANUP_TIME": "60",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "PYTHONPATH": str(ROOT),
    }


def environment(home: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (default: this process's) with our settings, and the virtual environment's programs first on PATH."""
    variables = dict(process_environment() if base is None else base)
    path = f"{Path(sys.executable).parent}{os.pathsep}{variables.get('PATH', os.defpath)}"
    modules = os.pathsep.join(filter(None, (str(ROOT), variables.get("PYTHONPATH"))))
    named = {CONNECTION: users} if (users := _users_database(variables)) else {}
    return {**variables, **settings(home), **named, "PATH": path, "PYTHONPATH": modules}


def command_line_environment(home: Path) -> dict[str, str]:
    """As `environment`, with the database that no scheduler reads."""
    return _with_file(home, COMMAND_LINE_DATABASE)


def _with_file(home: Path, name: str) -> dict[str, str]:
    variables = {**environment(home), CONNECTION: _sqlite(home / name)}
    variables.pop(f"{CONNECTION}_ASYNC", None)  # it would be of the database that the user names
    return variables


def _users_database(given: Mapping[str, str]) -> str | None:
    """The scheduler's database that the user names by Airflow's setting; no file, for processes of ours name those."""
    named = given.get(CONNECTION)
    return named if named and not named.startswith("sqlite:") else None


def _sqlite(file: Path) -> str:
    return f"sqlite:///{file}?timeout={SQLITE_WAIT_S}"


def ready(home: Path) -> bool:
    return all(file.is_file() for file in (_mark(home), home / SCHEDULER_DATABASE, home / COMMAND_LINE_DATABASE))


def prepare(home: Path) -> bool:
    """Make the databases and the pools unless that was done for this version; returns whether it was needed.

    One process at a time; a database that is there is changed in place, for somebody may work with it.
    """
    if ready(home):
        return False
    home.mkdir(parents=True, exist_ok=True)
    with hold_lock(home / "prepare.lock", "making Airflow's databases", 4 * PREPARE_LIMIT_S):
        if ready(home):
            return False
        _make(home, _with_file(home, SCHEDULER_DATABASE))
        if (home / COMMAND_LINE_DATABASE).exists():
            _make(home, _with_file(home, COMMAND_LINE_DATABASE))
        else:
            _copy(home)
        _mark(home).touch()
    return True


def prepare_users_database(home: Path) -> None:
    """Make the tables and pools in the database that the user names, if one is named. Only the scheduler needs it."""
    users = _users_database(process_environment())
    if users is None:
        return
    with hold_lock(home / "prepare.lock", "making Airflow's databases", 4 * PREPARE_LIMIT_S):
        if not _mark(home, users).is_file():
            _make(home, environment(home))
            _mark(home, users).touch()


def write_scheduler_database(home: Path, connection: str) -> Path:
    """A file with the connection that nobody else may read: every task's environment is no place for a password."""
    file = home / DATABASE_FILE
    replace_file(file, connection, mode=0o600)
    return file


def clean(home: Path, keep_days: float, now: datetime, dags: Collection[str]) -> tuple[str, ...]:
    """Remove rows older than `keep_days` from the scheduler's and the command line's databases; return their names,
    without passwords.

    Airflow hides its scheduler's connection from tasks; `barograph ui` writes it to the file that DATABASE names. From
    a database that is not a file of `home` only rows of `dags` are removed: that Airflow may have other DAGs.
    """
    named = _scheduler_database()
    own = home / COMMAND_LINE_DATABASE
    connections = [*([named] if named else []), *([_sqlite(own)] if own.is_file() else [])]
    ours = {_sqlite(home / name) for name in (SCHEDULER_DATABASE, COMMAND_LINE_DATABASE)}
    variables = {name: value for name, value in environment(home).items() if name not in HIDDEN_CONNECTIONS}
    before = (now - timedelta(days=keep_days)).isoformat()
    for connection in connections:
        arguments = ("db", "clean", "--clean-before-timestamp", before, "--skip-archive", "--yes")
        part = () if connection in ours else ("--dag-ids", ",".join(dags), "--tables", ",".join(TABLES_OF_DAGS))
        _airflow(home, {**variables, CONNECTION: connection}, *arguments, *part)
    return tuple(_database_name(connection) for connection in connections)


def _scheduler_database() -> str | None:
    """The connection in the file that DATABASE names."""
    if not (said := process_environment().get(DATABASE)):
        return None
    try:
        return Path(said).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        # Not what it says: a connection has a password.
        why = "a connection" if "://" in said else f"a file that cannot be read ({type(error).__name__})"
        raise DatabaseUnknown(
            f"{DATABASE} is {why}; it must name a file that holds the connection of Airflow's database and that others"
            " cannot read (mode 0600)"
        ) from None


def _database_name(connection: str) -> str:
    """Kind and name alone: user, password and options may be secrets."""
    parts = urlsplit(connection)
    return f"{parts.scheme} {parts.path.rpartition('/')[2]}"


def _make(home: Path, variables: Mapping[str, str]) -> None:
    _airflow(home, variables, "db", "migrate")
    _airflow(home, variables, "pools", "import", str(POOLS))  # one call: Airflow takes seconds for each


def _copy(home: Path) -> None:
    """Copy the scheduler's database for the command line: making one takes Airflow seconds."""
    unfinished = home / f".{COMMAND_LINE_DATABASE}-{os.getpid()}"
    with closing(sqlite3.connect(home / SCHEDULER_DATABASE)) as scheduled, closing(sqlite3.connect(unfinished)) as own:
        scheduled.backup(own)
    unfinished.replace(home / COMMAND_LINE_DATABASE)


def pools() -> dict[str, int]:
    """The slots of our pools, by name."""
    return {name: int(pool["slots"]) for name, pool in json.loads(POOLS.read_text(encoding="utf-8")).items()}


def _mark(home: Path, users: str = "") -> Path:
    """Says that our files are made, or the user's database; with the pools of now."""
    state = hashlib.sha256((repr(sorted(pools().items())) + users).encode()).hexdigest()[:8]
    return home / f"prepared-{version('apache-airflow')}-{state}"


def _airflow(home: Path, variables: Mapping[str, str], *arguments: str) -> None:
    log = home / "prepare.log"
    with log.open("a") as file:
        argv = [sys.executable, "-m", "airflow", *arguments]
        try:
            done = subprocess.run(
                argv, env=variables, stdout=file, stderr=file, stdin=subprocess.DEVNULL, timeout=PREPARE_LIMIT_S
            )
        except subprocess.TimeoutExpired as error:
            said = f"airflow {' '.join(arguments[:2])} did not end within {PREPARE_LIMIT_S:g} s"
            raise AirflowFailure(f"{said}: does another process hold its database? See {log}") from error
    code = done.returncode
    if code != 0:
        raise AirflowFailure(f"airflow {' '.join(arguments[:2])} failed with {code}; see {log}")
