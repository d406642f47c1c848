"""One DAG for each file in `experiments/`: series → provision (setup) → deploy → runs → release (teardown) → report.

Only wiring. `open_series` is a task of its own because a setup's direct children must all succeed: everybody learns
the series' folder from it, and only `deploy` and `release` hang on the machines.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, setup, task, teardown

from dags.airflow_wiring import NEW, changes_of, form, pool_of
from dags.errors import ExperimentError
from dags.experiment import Experiment, load, names

log = logging.getLogger(__name__)
LATEST_END = timedelta(hours=24)


def build(experiment: Experiment) -> DAG:
    """The DAG of an experiment; its id is `family.name`."""
    pool = pool_of(experiment.testbed.name)
    with DAG(
        dag_id=experiment.name.replace("/", "."),
        description=experiment.title,
        schedule=None,
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=form(experiment),
        tags=["experiment", experiment.name.partition("/")[0], *experiment.claims],
        dagrun_timeout=LATEST_END,
        doc_md=__doc__,
    ) as dag:

        @task
        def open_series(params: dict[str, Any] | None = None) -> str:
            from dags.steps.provision import open_requested

            assert params is not None, "Airflow passes the trigger form's answers"
            return str(
                params["opened"] or open_requested(experiment.name, changes_of(params), new=params["series"] == NEW)
            )

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

        @task(pool=pool)
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
        def analyse(series: str) -> str:
            from pathlib import Path

            from dags.steps.series_steps import analyse

            return str(analyse(Path(series)))

        @task
        def report(series: str, path: str) -> None:
            from pathlib import Path

            from dags.steps.series_steps import announce

            announce(Path(series), Path(path))

        @task(trigger_rule="one_failed")
        def watcher() -> None:
            from dags.errors import DagError

            raise DagError("a task of this DAG failed; its own log says why")

        series: Any = open_series()
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
    return dag


def build_all() -> dict[str, DAG]:
    """A file that is wrong must not hide the others: it becomes an import error only when nothing is right."""
    dags, wrong = {}, []
    for name in names():
        try:
            dag = build(load(name))
            dags[dag.dag_id] = dag
        except ExperimentError as error:
            wrong.append(str(error))
    if wrong and not dags:
        raise ExperimentError("; ".join(wrong))
    return dags


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in build_all().items()})
