"""An Airflow that is somebody's own: Celery over Redis and PostgreSQL, with two workers that see other processes.

Each worker has a host name and process ids of its own: who holds a lease is known by its heartbeat alone.
`test_leaks_under_airflow.py` has the same DAGs on PostgreSQL with processes of one box.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barograph.airflow_environment import CONNECTION, DATABASE
from barograph.child_processes import ChildProcess, descendants
from barograph.cli.ui import PARTS, start_supervised, ui_environment, write_password
from barograph.settings import HOLDER, ROOT
from tests.dags.running_airflow import DAG, PACE, SHORT, Airflow, Site, is_known, until
from tests.support import redis
from tests.support.ports import free_port
from tests.support.postgres import Postgres

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a worker process ids of its own"),
]
NAMES = ["stela-r1", "stela-r2"]


def worker(name: str) -> list[str]:
    """A Celery worker on what looks like a host of its own."""
    airflow = f"{sys.executable} -m airflow celery worker --skip-serve-logs --concurrency 2 --celery-hostname {name}"
    script = f"hostname {name} && exec {airflow}"
    return ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]


@pytest.fixture
def airflow(prepared: Path, postgres: Postgres, tmp_path: Path) -> Iterator[Airflow]:
    home = shutil.copytree(prepared, tmp_path / "barograph")
    port = free_port()
    database = postgres.create("own")
    with pytest.MonkeyPatch.context() as patch, redis.running() as broker:
        patch.setenv(CONNECTION, database)
        write_password(home / "airflow")
        env = {
            **ui_environment(home / "airflow", port),
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": f"redis+socket://{broker}",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
            "BAROGRAPH_HOME": str(home),
            "BAROGRAPH_STATE": str(tmp_path / "state"),
            "BAROGRAPH_RESULTS": str(tmp_path / "results"),
            "BAROGRAPH_PACE": str(PACE),
        }
        for ours in (HOLDER, DATABASE):  # `barograph ui` gives these
            del env[ours]
        for arguments in (("db", "migrate"), ("pools", "import", "dags/pools.json")):
            run_airflow(env, tmp_path, *arguments)
        parts = [[sys.executable, "-m", "airflow", *part] for part in PARTS]
        with start_supervised(parts, tmp_path / "airflow.log", env) as process:
            found = Airflow(process, port, env, home, Site("fake"))
            until(lambda: answers(found), process, "it answers", 900)
            until(lambda: is_known(found), process, "the DAG is known", 900)
            yield found


def answers(airflow: Airflow) -> bool:
    try:
        airflow.log_in()
    except (AssertionError, OSError):  # it begins
        return False
    return True


def run_airflow(env: dict[str, str], folder: Path, *arguments: str) -> None:
    argv = [sys.executable, "-m", "airflow", *arguments]
    with (folder / "make.log").open("ab") as log, ChildProcess(argv, folder=ROOT, output=log, environment=env) as done:
        assert done.wait(600) == 0, (folder / "make.log").read_text()[-2000:]


def test_a_series_is_measured_by_two_workers_and_never_reaped(airflow: Airflow, tmp_path: Path) -> None:
    with ExitStack() as workers:
        one = workers.enter_context(start_supervised([worker("one")], tmp_path / "one.log", airflow.env))
        run = airflow.trigger(DAG, {**SHORT, "warm_up_floor_s": 300, "warm_up_ceiling_s": 400})
        airflow.await_measuring(run)
        (lease,) = airflow.leases()
        holder = json.loads((airflow.under / "leases" / f"{lease}.json").read_text())
        assert (holder["holder_pid"], holder["holder_start"]) == (0, DAG), "no process of this box is asked for"
        airflow.reap()
        assert airflow.leases() == [lease] and airflow.machines() != [], "its heartbeat is fresh"
        workers.enter_context(start_supervised([worker("two")], tmp_path / "two.log", airflow.env))
        _unshare, celery, *_ = descendants(one.pid)
        os.kill(celery, signal.SIGTERM)  # it ends what it does, and takes nothing more

        def measured() -> bool:
            states = airflow.task_states(run)
            assert "failed" not in states.values(), states
            airflow.reap()
            return [states.get(name) for name in (*NAMES, "release")] == ["success"] * 3

        until(measured, airflow.process, "it is measured and released")
        airflow.mark(run, "failed", "analyse")
        hosts = {task["task_id"]: task["hostname"] for task in airflow.tasks(run)}
        assert (hosts["provision"], hosts["release"]) == ("one", "two")
    assert airflow.leases() == [] and airflow.machines() == []
    statuses = [json.loads(file.read_text())["status"] for file in airflow.series().glob("runs/*/run.json")]
    assert statuses == ["complete", "complete"]
