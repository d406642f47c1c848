"""Airflow's database: made once, or the one that the user names; cleaned."""

import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from filelock import FileLock

from barograph import airflow_environment
from barograph.airflow_environment import (
    CONNECTION,
    DATABASE,
    SCHEDULER_DATABASE,
    clean,
    prepare,
    prepare_users_database,
    ready,
    write_scheduler_database,
)
from barograph.cli.ui import ui_environment
from barograph.errors import ConfigurationError

THEIRS = "postgresql+psycopg2://barograph@db.example.org/airflow"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Airflow was asked to do; to migrate makes a table."""
    asked: list[str] = []

    def airflow(_home: Path, variables: Mapping[str, str], *arguments: str) -> None:
        kind, _, place = variables[CONNECTION].partition("?")[0].partition("://")
        part = f" of {arguments[arguments.index('--dag-ids') + 1]}" if "--dag-ids" in arguments else ""
        asked.append(f"{kind} {' '.join(arguments[:2])}{part}")
        if kind == "sqlite" and arguments == ("db", "migrate"):
            with closing(sqlite3.connect(place.removeprefix("/"))) as database:
                database.execute("create table if not exists dag_run (id)")

    monkeypatch.setattr(airflow_environment, "_airflow", airflow)
    return asked


def test_the_database_is_made_once(made: list[str], tmp_path: Path) -> None:
    assert prepare(tmp_path) and ready(tmp_path)
    assert made == ["sqlite db migrate", "sqlite pools import"]
    assert not prepare(tmp_path) and len(made) == 2
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_the_scheduler_has_the_database_that_the_user_names(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.setenv(CONNECTION, THEIRS)
    monkeypatch.setenv(f"{CONNECTION}_ASYNC", THEIRS.replace("psycopg2", "asyncpg"))
    assert ready(tmp_path) and not prepare(tmp_path) and made[2:] == [], "no command but the scheduler's touches it"
    prepare_users_database(tmp_path)
    prepare_users_database(tmp_path)
    assert made[2:] == ["postgresql+psycopg2 db migrate", "postgresql+psycopg2 pools import"]
    assert ui_environment(tmp_path, 8123)[CONNECTION] == THEIRS
    monkeypatch.setenv(CONNECTION, f"{THEIRS}_2")
    prepare_users_database(tmp_path)
    assert len(made) == 6, "another database is made too"
    monkeypatch.setenv(CONNECTION, f"sqlite:///{tmp_path}/{SCHEDULER_DATABASE}?timeout=60")
    prepare_users_database(tmp_path)
    assert len(made) == 6, "a process that Airflow started names ours"


def test_a_database_that_is_there_is_changed_in_place(made: list[str], tmp_path: Path) -> None:
    """Somebody may work with it: what another version or other pools make must not replace it."""
    prepare(tmp_path)
    with closing(sqlite3.connect(tmp_path / SCHEDULER_DATABASE)) as database:
        database.execute("insert into dag_run values (7)")
        database.commit()
        (mark,) = tmp_path.glob("prepared-*")
        mark.unlink()
        assert prepare(tmp_path)
        with closing(sqlite3.connect(tmp_path / SCHEDULER_DATABASE)) as other:
            assert other.execute("select * from dag_run").fetchall() == [(7,)]
    assert made[2:] == ["sqlite db migrate", "sqlite pools import"]


def test_one_process_at_a_time_makes_them(made: list[str], tmp_path: Path) -> None:
    with ThreadPoolExecutor() as others:
        with FileLock(tmp_path / "prepare.lock"):
            waiting = [others.submit(prepare, tmp_path) for _ in range(3)]
            assert not wait(waiting, timeout=0.3).done and made == []
        assert sorted(each.result() for each in waiting) == [False, False, True]
    assert made == ["sqlite db migrate", "sqlite pools import"]


def test_old_rows_go_from_the_database_that_is_named(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of Airflow does not see its scheduler's connection: `barograph ui` gives it by another name."""
    prepare(tmp_path)
    monkeypatch.setenv(CONNECTION, "airflow-db-not-allowed:///")
    now = datetime(2026, 11, 22, tzinfo=UTC)
    assert clean(tmp_path, 90, now, ["stela.star"]) is None
    monkeypatch.setenv(DATABASE, str(write_scheduler_database(tmp_path, THEIRS)))
    assert clean(tmp_path, 90, now, ["stela.star", "reaper"]) == "postgresql+psycopg2 airflow"
    ours = write_scheduler_database(tmp_path, f"sqlite:///{tmp_path}/{SCHEDULER_DATABASE}?timeout=60")
    monkeypatch.setenv(DATABASE, str(ours))
    assert clean(tmp_path, 90, now, ["stela.star"]) == f"sqlite {SCHEDULER_DATABASE}"
    assert made[2:] == ["postgresql+psycopg2 db clean of stela.star,reaper", "sqlite db clean"]


def test_no_task_has_the_connection_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTION, THEIRS)
    given = ui_environment(tmp_path, 8080)
    assert [name for name, value in given.items() if THEIRS in value] == [CONNECTION]  # which Airflow hides from tasks
    file = Path(given[DATABASE])
    assert file.read_text() == THEIRS and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("said", [THEIRS, "/nowhere/database"])
def test_what_names_no_database_is_refused_without_saying_it(
    said: str, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE, said)
    with pytest.raises(ConfigurationError, match="must name a file") as refused:
        clean(tmp_path, 90, datetime(2026, 11, 22, tzinfo=UTC), [])
    assert said not in str(refused.value) and made == []


def test_the_name_of_a_database_has_no_secret_in_it() -> None:
    named = airflow_environment._database_name
    assert named("postgresql+psycopg2://ann:secret@db.example.org/airflow?password=other&sslpassword=third") == (
        "postgresql+psycopg2 airflow"
    )
    assert named("sqlite:////home/ann/airflow.db") == "sqlite airflow.db"
