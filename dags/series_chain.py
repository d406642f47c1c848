"""The tasks of a series, from the one that opens it to its report: what every DAG that measures has in common.

open_series → provision (setup) → deploy → plan → runs → release (teardown) → analyse → report, and a watcher. Opening
is a task of its own because a setup's direct children must all succeed: everybody learns the series' folder from it,
and only `deploy` and `release` hang on the machines.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk import setup, task, teardown

log = logging.getLogger(__name__)


def chain(series: Any, pool: str) -> None:
    """Everything after `series`, the task that answers with a series' folder; runs take a slot of `pool` each."""

    @setup
    def provision(series: str) -> str:
        from pathlib import Path

        from dags.steps.provision import provision

        return provision(Path(series))

    @task
    def deploy(series: str) -> None:
        from pathlib import Path

        from dags.steps.series_steps import deploy

        deploy(Path(series))

    @task
    def plan_runs(series: str) -> list[int]:
        from pathlib import Path

        from dags.steps.series_steps import runs_left

        return runs_left(Path(series))

    # One at a time also where the pool has more slots: a run is what has the cluster.
    @task(pool=pool, max_active_tis_per_dagrun=1)
    def run_next(series: str, place: int) -> str | None:
        """Which run this does is decided when it starts: mapped tasks come in any order."""
        from pathlib import Path

        from dags.steps.series_steps import do_next_run

        log.info("place %s of this execution", place)
        return do_next_run(Path(series))

    @teardown
    def release(series: str) -> None:
        from pathlib import Path

        from dags.steps.provision import release

        release(Path(series))

    @task(trigger_rule="all_done")
    def analyse(series: str | None) -> str:
        from pathlib import Path

        from airflow.sdk.exceptions import AirflowSkipException

        from dags.steps.series_steps import NothingInTime, analyse

        if series is None:
            raise AirflowSkipException("no series was opened; the task that opens it says why")
        try:
            return str(analyse(Path(series)))
        except NothingInTime as error:
            raise AirflowSkipException(str(error)) from error

    @task
    def report(series: str, path: str) -> None:
        from pathlib import Path

        from dags.steps.series_steps import announce

        announce(Path(series), Path(path))

    @task(trigger_rule="one_failed")
    def watcher() -> None:
        from dags.errors import DagError

        raise DagError("a task of this DAG failed; its own log says why")

    machines: Any = provision(series)
    deployed: Any = deploy(series)
    planned: Any = plan_runs(series)
    runs: Any = run_next.partial(series=series).expand(place=planned)
    released: Any = release(series)
    analysed: Any = analyse(series)
    reported: Any = report(series, analysed)

    machines >> deployed >> planned >> runs >> released.as_teardown(setups=machines)
    runs >> analysed
    released >> analysed
    # Not of `machines`: a setup's direct children must be all_success, and a failed setup fails `deployed` too.
    watched: Any = watcher()
    [series, deployed, planned, runs, analysed, reported] >> watched
