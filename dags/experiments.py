"""One DAG for each file in `experiments/`: series → provision (setup) → deploy → runs → release (teardown) → report.

Only wiring; the tasks after `open_series` are those of `dags.wiring`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from barograph.plan.experiment import Experiment, load, names
from barograph.web.dag_documentation import experiment_documentation
from dags.wiring import NEW, add_series_tasks, changes_of, dags_of, experiment_form, new_dag, pool_of

LATEST_END = timedelta(hours=24)


def build(experiment: Experiment) -> DAG:
    """The DAG of an experiment; its id is `family.name`."""
    with new_dag(
        experiment.name.replace("/", "."),
        experiment.title,
        form=experiment_form(experiment),
        tags=["experiment", experiment.name.partition("/")[0], *experiment.claims],
        limit=LATEST_END,
        documentation=experiment_documentation(experiment),
    ) as dag:

        @task
        def open_series(params: dict[str, Any] | None = None) -> str:
            from barograph.machines.provision import open_requested

            assert params is not None, "Airflow passes the trigger form's answers"
            return str(
                params["opened"] or open_requested(experiment.name, changes_of(params), new=params["series"] == NEW)
            )

        add_series_tasks(open_series(), pool_of(experiment.testbed.name))
    return dag


def build_all() -> dict[str, DAG]:
    return dags_of(names(), lambda name: build(load(name)))


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in build_all().items()})
