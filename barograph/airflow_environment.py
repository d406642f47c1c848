"""Airflow's folder for this harness: settings as environment variables, and a database, created once a version.

It is a SQLite file. Where the user names a database by Airflow's own setting, the scheduler has that one.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from barograph.errors import BarographError, ConfigurationError
from barograph.settings import ROOT, process_environment, program_paths
from inventory.files import hold_lock, replace_file

POOLS = ROOT / "dags" / "pools.json"
SCHEDULER_DATABASE = "airflow.db"
CONNECTION = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
# Hidden by Airflow from its tasks, so that they do not write to its database.
HIDDEN_CONNECTIONS = (CONNECTION, f"{CONNECTION}_ASYNC", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")
DATABASE = "BAROGRAPH_AIRFLOW_DATABASE"  # names a file with the scheduler's connection, for the task that cleans it
DATABASE_FILE = "scheduler_database"
# Tables of a shared database whose rows name their DAG.
TABLES_OF_DAGS = ("dag_run", "task_instance", "task_reschedule", "log", "job", "dag_version")
# How long one process waits while another writes. After SQLite's own 5 s Airflow's pages answer 500 on a busy box.
SQLITE_WAIT_S = 60
PREPARE_LIMIT_S = 600.0  # to create the tables of a database on a slow disk


def settings(home: Path) -> dict[str, str]:
    """Return the environment of every Airflow process of ours."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "barograph" / "web" / "plugin"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # A process for each slot of the pools: a task that waits in one of them does not block the other.
        "AIRFLOW__CORE__PARALLELISM": str(sum(pools().values())),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "60",
        # Runs of a series are mapped tasks: 1,000 blocks of 20 variants.
        "AIRFLOW__CORE__MAX_MAP_LENGTH": "20000",
        CONNECTION: _sqlite(home),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        # A failed task held its slot for 5.4 s otherwise.
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        # A task without an answer from Airflow's own server for 5 s is killed; on a busy box that is no failure.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        # A task that is being ended collects its measurements first.
        "AIRFLOW__CORE__KILLED_TASK_CLEANUP_TIME": "60",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "PYTHONPATH": str(ROOT),
    }


def environment(home: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `base` (default: this process's) with our settings and the virtual environment's programs on PATH."""
    variables = dict(process_environment() if base is None else base)
    connection = {CONNECTION: users} if (users := _users_database(variables)) else {}
    return {**variables, **settings(home), **connection, **program_paths(variables)}


def _users_database(given: Mapping[str, str]) -> str | None:
    """Return the scheduler's database in Airflow's setting; not a file, which our processes name."""
    connection = given.get(CONNECTION)
    return connection if connection and not connection.startswith("sqlite:") else None


def _sqlite(home: Path) -> str:
    return f"sqlite:///{home / SCHEDULER_DATABASE}?timeout={SQLITE_WAIT_S}"


def ready(home: Path) -> bool:
    return _mark(home).is_file() and (home / SCHEDULER_DATABASE).is_file()


def prepare(home: Path) -> bool:
    """Create the database and the pools unless that was done for this version; returns whether it was needed. One
    process at a time; an existing database is changed in place, for somebody may work with it."""
    if ready(home):
        return False
    home.mkdir(parents=True, exist_ok=True)
    with hold_lock(home / "prepare.lock", "making Airflow's database", 4 * PREPARE_LIMIT_S):
        if ready(home):
            return False
        variables = {**environment(home), CONNECTION: _sqlite(home)}
        variables.pop(f"{CONNECTION}_ASYNC", None)  # it would name the user's database
        _make(home, variables)
        _mark(home).touch()
    return True


def prepare_users_database(home: Path) -> None:
    """Create the tables and pools in the database that the user names, if any. Only the scheduler needs it."""
    users = _users_database(process_environment())
    if users is None:
        return
    with hold_lock(home / "prepare.lock", "making Airflow's database", 4 * PREPARE_LIMIT_S):
        if not _mark(home, users).is_file():
            _make(home, environment(home))
            _mark(home, users).touch()


def write_scheduler_database(home: Path, connection: str) -> Path:
    """Write the connection to a file that nobody else may read: every task's environment is no place for a password."""
    file = home / DATABASE_FILE
    replace_file(file, connection, mode=0o600)
    return file


def clean(home: Path, keep_days: float, now: datetime, dags: Collection[str]) -> str | None:
    """Remove rows older than `keep_days` from the scheduler's database; return its name without passwords, None where
    none is named. Airflow hides its scheduler's connection from tasks; `barograph ui` writes it to the file that
    DATABASE names. From a database that is not a file of `home` only rows of `dags` are removed: that Airflow may have
    other DAGs."""
    connection = _scheduler_database()
    if not connection:
        return None
    variables = {name: value for name, value in environment(home).items() if name not in HIDDEN_CONNECTIONS}
    end_date = (now - timedelta(days=keep_days)).isoformat()
    arguments = ("db", "clean", "--clean-before-timestamp", end_date, "--skip-archive", "--yes")
    is_ours = connection == _sqlite(home)
    part = () if is_ours else ("--dag-ids", ",".join(dags), "--tables", ",".join(TABLES_OF_DAGS))
    _airflow(home, {**variables, CONNECTION: connection}, *arguments, *part)
    return _database_name(connection)


def _scheduler_database() -> str | None:
    if not (name := process_environment().get(DATABASE)):
        return None
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        # Not its value: a connection has a password.
        why = "a connection" if "://" in name else f"a file that cannot be read ({type(error).__name__})"
        raise ConfigurationError(
            f"{DATABASE} is {why}; it must name a file that holds the connection of Airflow's database and that others"
            " cannot read (mode 0600)"
        ) from None


def _database_name(connection: str) -> str:
    """Return kind and name alone: user, password and options may be secrets."""
    parts = urlsplit(connection)
    return f"{parts.scheme} {parts.path.rpartition('/')[2]}"


def _make(home: Path, variables: Mapping[str, str]) -> None:
    _airflow(home, variables, "db", "migrate")
    _airflow(home, variables, "pools", "import", str(POOLS))  # one call: Airflow takes seconds for each


def pools() -> dict[str, int]:
    """Return the slots of our pools, by name."""
    return {name: int(pool["slots"]) for name, pool in json.loads(POOLS.read_text(encoding="utf-8")).items()}


def _mark(home: Path, users: str = "") -> Path:
    """Return the file that marks our files, or the user's database, as prepared with the current pools."""
    state = hashlib.sha256((repr(sorted(pools().items())) + users).encode()).hexdigest()[:8]
    return home / f"prepared-{version('apache-airflow')}-{state}"


def _airflow(home: Path, variables: Mapping[str, str], *arguments: str) -> None:
    log = home / "prepare.log"
    with log.open("a") as file:
        argv = [sys.executable, "-m", "airflow", *arguments]
        try:
            process = subprocess.run(
                argv, env=variables, stdout=file, stderr=file, stdin=subprocess.DEVNULL, timeout=PREPARE_LIMIT_S
            )
        except subprocess.TimeoutExpired as error:
            reason = f"airflow {' '.join(arguments[:2])} did not end within {PREPARE_LIMIT_S:g} s"
            raise BarographError(f"{reason}: does another process hold its database? See {log}") from error
    code = process.returncode
    if code != 0:
        raise BarographError(f"airflow {' '.join(arguments[:2])} failed with {code}; see {log}")
