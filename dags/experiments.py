"""One DAG for each file in `experiments/`: series → provision, deploy (setups) → runs → release (teardown) → report.

Only wiring; the tasks after `open_series` are those of `dags.wiring`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, get_parsing_context

from barograph.plan.experiment import Experiment, load, names
from barograph.web import dag_id_of
from barograph.web.dag_documentation import experiment_documentation
from dags.wiring import (
    NEW,
    add_series_tasks,
    changes_of,
    dags_of,
    experiment_form,
    is_cleared,
    limit_of,
    new_dag,
    series_of,
    waiting_task,
)


def build(experiment: Experiment) -> DAG:
    """Return the DAG of an experiment; its id is `family.name`."""
    with new_dag(
        dag_id_of(experiment.name),
        experiment.title,
        form=experiment_form(experiment),
        tags=["experiment", experiment.name.partition("/")[0], *experiment.claims],
        documentation=experiment_documentation(experiment),
    ) as dag:

        @waiting_task(execution_timeout=limit_of("open"))
        def open_series(params: dict[str, Any] | None = None, ti: Any = None) -> str:
            from barograph.machines.provision import open_requested

            assert params is not None and ti is not None, "Airflow passes the form's answers and the task instance"
            changes, new = changes_of(params), params["series"] == NEW
            return series_of(open_requested(experiment.name, changes, new=new, again=is_cleared(ti)), ti)

        add_series_tasks(open_series(), experiment)
    return dag


def build_all() -> dict[str, DAG]:
    """Return the DAGs of all files, or the one that Airflow names: a task's process does not need the others."""
    dag_id = get_parsing_context().dag_id
    experiments = [name for name in names() if dag_id in (None, dag_id_of(name))]
    return dags_of(experiments, lambda name: build(load(name)))


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in build_all().items()})
