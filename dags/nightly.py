"""One DAG for each file in `suites/`: open a night, measure each experiment in its turn, publish the findings.

Only wiring. An experiment is a group of the tasks that every series has (`dags.wiring`): its machines are a setup
with its teardown in this very DAG run, and its runs take slots of the testbed's pool. One experiment's failure does not
keep the next from its turn; the watchers make the DAG run red for it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, TaskGroup, task, teardown

from barograph.nights.suite import LONGEST_H, Suite, load_suite, suite_names
from barograph.web.dag_documentation import suite_documentation
from dags.wiring import add_series_tasks, add_watcher, dags_of, new_dag, pool_of

# The run that was under way, the last analysis, the pages. Airflow's own end of a DAG run skips teardowns.
BEYOND_DEADLINE = timedelta(hours=6)


def form(suite: Suite) -> dict[str, Param]:
    chosen = [choice.experiment for choice in suite.experiments]
    deadline = Param(
        suite.deadline_hours, type="number", exclusiveMinimum=0, maximum=LONGEST_H,
        title="Deadline (hours from the start)", description="No run begins whose expected end is later",
    )  # fmt: skip
    experiments = Param(
        chosen, type="array", items={"type": "string", "enum": chosen}, examples=chosen, minItems=1,
        title="Experiments", description="Which of the suite's experiments to measure",
    )  # fmt: skip
    return {"deadline_hours": deadline, "experiments": experiments}


def build(suite: Suite) -> DAG:
    """The DAG of a suite; its id is `nightly.<suite>`."""
    name = suite.name
    with new_dag(
        f"nightly.{name}",
        suite.title,
        form=form(suite),
        tags=["nightly", suite.testbed],
        limit=timedelta(hours=LONGEST_H) + BEYOND_DEADLINE,
        documentation=suite_documentation(suite),
        schedule=suite.schedule,
    ) as dag:

        @task
        def open_night(params: dict[str, Any] | None = None) -> str:
            from barograph.nights.tasks import open_night

            assert params is not None, "Airflow passes the trigger form's answers"
            return open_night(name, params["deadline_hours"], params["experiments"])

        @task(trigger_rule="all_done")
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
        def release_testbed(night: str | None) -> None:
            """A teardown, so that it runs even when the DAG run is stopped: else the reservation lasts to its end."""
            from barograph.nights.procedure import release_night

            if night is not None:
                release_night(name, night)

        night: Any = open_night()
        before: Any = night
        conclusions = []
        for choice in suite.experiments:
            before = experiment_group(name, choice.experiment, night, before, pool_of(suite.testbed))
            conclusions.append(before)
        page: Any = close_night(night)
        before >> page
        message: Any = post_findings()
        verdict: Any = fail_on_regression()
        page >> message >> verdict
        page >> release_testbed(night)
        add_watcher([night, *conclusions, page, message, verdict])
    return dag


def experiment_group(suite: str, experiment: str, night: Any, before: Any, pool: str) -> Any:
    """The group of one experiment, after `before`, whatever became of that; the task that ends it."""
    with TaskGroup(experiment.replace("/", "_")) as group:

        @task(trigger_rule="all_done")
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
        add_series_tasks(series, pool)
        conclusion: Any = conclude(night)
        # Not of the watcher, which does not wait for what it watches.
        group.get_child_by_label("report") >> conclusion
    return conclusion


def build_all() -> dict[str, DAG]:
    return dags_of(suite_names(), lambda name: build(load_suite(name)))


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in build_all().items()})
