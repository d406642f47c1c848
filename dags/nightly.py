"""One DAG for each file in `suites/`: open a night, measure each experiment in its turn, publish the findings.

Only wiring. An experiment is a group of the tasks that every series has (`dags.wiring`): its machines are a setup
with its teardown in this very DAG run. One experiment's failure does not
keep the next from its turn; the watchers make the DAG run red for it.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, TaskGroup, get_parsing_context, task, teardown

from barograph.nights.suite import LONGEST_H, Choice, Suite, load_suite, suite_names
from barograph.web import NIGHT_DAGS
from barograph.web.dag_documentation import suite_documentation
from dags.wiring import (
    OF_RELEASE,
    QUICK,
    add_series_tasks,
    add_watcher,
    dags_of,
    limit_of,
    new_dag,
    result_of,
    waiting_task,
)


def form(suite: Suite) -> dict[str, Param]:
    choices = [choice.experiment for choice in suite.experiments]
    deadline = Param(
        suite.deadline_hours, type="number", exclusiveMinimum=0, maximum=LONGEST_H,
        title="Deadline (hours from the start)", description="No run begins whose expected end is later",
    )  # fmt: skip
    experiments = Param(
        choices, type="array", items={"type": "string", "enum": choices}, examples=choices, minItems=1,
        title="Experiments", description="Which of the suite's experiments to measure",
    )  # fmt: skip
    return {"deadline_hours": deadline, "experiments": experiments}


def build(suite: Suite) -> DAG:
    """Return the DAG of a suite; its id is `nightly.<suite>`."""
    name = suite.name
    with new_dag(
        dag_id_of(name),
        suite.title,
        form=form(suite),
        tags=["nightly", suite.testbed],
        documentation=suite_documentation(suite),
        schedule=suite.schedule,
    ) as dag:

        @waiting_task(execution_timeout=limit_of("plan"))
        def open_night(params: dict[str, Any] | None = None, ti: Any = None, dag_run: Any = None) -> str:
            from barograph.nights.tasks import open_night

            assert params is not None and ti is not None and dag_run is not None, "Airflow passes all three"
            asked_s = dag_run.start_date.timestamp()
            return result_of(open_night(name, params["deadline_hours"], params["experiments"], asked_s), ti)

        @task(trigger_rule="all_done", execution_timeout=limit_of("analyse"))
        def close_night(night: str | None) -> str:
            from airflow.sdk.exceptions import AirflowSkipException

            from barograph.nights.tasks import close_night as close

            if night is None:
                raise AirflowSkipException("the night was not opened")
            return close(name, night)

        @task
        def post_findings() -> None:
            from barograph.nights.tasks import post_message

            post_message(name)

        @task
        def fail_on_regression() -> None:
            from barograph.nights.tasks import raise_alarm

            raise_alarm(name)

        @teardown
        @task(execution_timeout=QUICK, **OF_RELEASE)
        def release_testbed(night: str | None) -> None:
            """A teardown, so that it runs even when the DAG run is stopped: else the reservation lasts to its end."""
            from barograph.nights.procedure import release_night

            if night is not None:
                release_night(name, night)

        night: Any = open_night()
        predecessor: Any = night
        conclusions = []
        for choice in suite.experiments:
            predecessor = experiment_group(suite, choice, night, predecessor)
            conclusions.append(predecessor)
        page: Any = close_night(night)
        predecessor >> page
        message: Any = post_findings()
        verdict: Any = fail_on_regression()
        page >> message >> verdict
        released: Any = release_testbed(night)
        page >> released
        # `released` too, because Airflow ignores a failed teardown.
        add_watcher([night, *conclusions, page, message, verdict, released])
    return dag


def experiment_group(of: Suite, choice: Choice, night: Any, before: Any) -> Any:
    """Return the group of one experiment, which runs after `before` whatever its result, and the task that ends it."""
    suite, experiment = of.name, choice.experiment
    with TaskGroup(experiment.replace("/", "_")) as group:

        @waiting_task(trigger_rule="all_done", execution_timeout=limit_of("open"))
        def begin(night: str | None) -> str:
            from airflow.sdk.exceptions import AirflowSkipException

            from barograph.nights.tasks import begin_experiment

            folder = begin_experiment(suite, night, experiment)
            if folder is None:
                raise AirflowSkipException("it is not measured this night; the night's record says why")
            return folder

        @task(trigger_rule="all_done")
        def conclude(night: str | None) -> str | None:
            from barograph.nights.tasks import conclude_experiment

            return conclude_experiment(suite, night, experiment)

        series: Any = begin(night)
        before >> series
        add_series_tasks(series, of.resolved(choice))
        conclusion: Any = conclude(night)
        # Not the watcher, which does not wait for the tasks that it watches.
        group.get_child_by_label("report") >> conclusion
    return conclusion


def dag_id_of(suite: str) -> str:
    return NIGHT_DAGS + suite


def build_all() -> dict[str, DAG]:
    """Return the DAGs of all suites, or the one that Airflow names."""
    dag_id = get_parsing_context().dag_id
    suites = [name for name in suite_names() if dag_id in (None, dag_id_of(name))]
    return dags_of(suites, lambda name: build(load_suite(name)))


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in build_all().items()})
