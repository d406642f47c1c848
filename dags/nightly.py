"""One DAG for each file in `suites/`: a night is opened, each experiment measured in its turn, what was found is told.

Only wiring. An experiment is a group of the tasks that every series has (`dags.series_chain`): its machines are a setup
with its teardown in this very DAG run, and its runs take slots of the testbed's pool. One experiment's failure does not
keep the next from its turn; the watchers make the DAG run red for it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, TaskGroup, task, teardown

from dags.airflow_wiring import all_of, pool_of
from dags.documentation import of_suite
from dags.nights.deadline import LONGEST_H
from dags.nights.suite import Suite, load, names
from dags.series_chain import chain

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
    with DAG(
        dag_id=f"nightly.{name}",
        description=suite.title,
        schedule=suite.schedule,
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=form(suite),
        tags=["nightly", suite.testbed],
        dagrun_timeout=timedelta(hours=LONGEST_H) + BEYOND_DEADLINE,
        doc_md=of_suite(suite),
    ) as dag:

        @task
        def open_night(params: dict[str, Any] | None = None) -> str:
            from dags.nights.steps import open_night

            assert params is not None, "Airflow passes the trigger form's answers"
            return open_night(name, params["deadline_hours"], params["experiments"])

        @task(trigger_rule="all_done")
        def close_night(night: str | None) -> str:
            from airflow.sdk.exceptions import AirflowSkipException

            from dags.nights.steps import close

            if night is None:
                raise AirflowSkipException("the night was not opened")
            return close(name, night)

        @task
        def tell() -> None:
            from dags.nights.steps import tell

            tell(name)

        @task
        def judge() -> None:
            from dags.nights.steps import judge

            judge(name)

        @teardown
        def let_go(night: str | None) -> None:
            """Also where somebody ends the DAG run: else the testbed stays taken until the hold's own end."""
            from dags.nights.night import let_go

            if night is not None:
                let_go(name, night)

        @task(trigger_rule="one_failed")
        def watcher() -> None:
            from dags.errors import DagError

            raise DagError("a task of this night failed; its own log says why")

        night: Any = open_night()
        before: Any = night
        concluded = []
        for choice in suite.experiments:
            before = measure(name, choice.experiment, night, before, pool_of(suite.testbed))
            concluded.append(before)
        page: Any = close_night(night)
        before >> page
        posted: Any = tell()
        judged: Any = judge()
        gone: Any = let_go(night)
        page >> posted >> judged
        page >> gone
        watched: Any = watcher()
        [night, *concluded, page, posted, judged] >> watched
    return dag


def measure(suite: str, experiment: str, night: Any, before: Any, pool: str) -> Any:
    """The group of one experiment, after `before`, whatever became of that; the task that ends it."""
    with TaskGroup(experiment.replace("/", "_")) as group:

        @task(trigger_rule="all_done")
        def begin(night: str | None) -> str:
            from airflow.sdk.exceptions import AirflowSkipException

            from dags.nights.steps import begin

            folder = begin(suite, night, experiment)
            if folder is None:
                raise AirflowSkipException("it is not measured this night; the night's record says why")
            return folder

        @task(trigger_rule="all_done")
        def conclude(night: str | None) -> str | None:
            from dags.nights.steps import conclude

            return conclude(suite, night, experiment)

        series: Any = begin(night)
        before >> series
        chain(series, pool)
        ended: Any = conclude(night)
        # Not of the watcher, which does not wait for what it watches.
        group.get_child_by_label("report") >> ended
    return ended


def build_all() -> dict[str, DAG]:
    return all_of(names(), lambda name: build(load(name)))


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in build_all().items()})
