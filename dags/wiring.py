"""What the DAG files share of Airflow: trigger forms, pools, and the tasks of a series.

open_series → provision (setup) → deploy → plan → runs → release (teardown) → analyse → report, and a watcher.
Opening is a task of its own because a setup's direct children must all succeed: every task learns the series' folder
from it, and only `deploy` and `release` depend on the machines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, setup, task, teardown

from barograph.errors import ExperimentError
from barograph.plan.experiment import CHANGEABLE, DURATION_NAMES, Experiment
from inventory import TESTBEDS

RESUME, NEW = "resume", "new"
# Folded away in the form: most runs leave them as they are.
DURATIONS_SECTION, OPTIONS_SECTION, COMMAND_LINE_SECTION = (
    "Durations",
    "Options of the testbed",
    "For the command line only",
)


def new_dag(
    dag_id: str,
    title: str,
    *,
    form: dict[str, Param],
    tags: list[str],
    limit: timedelta,
    documentation: str,
    schedule: str | None = None,
) -> DAG:
    """A DAG that measures: one run at a time, and none for the past. Airflow fails a run that takes `limit`."""
    return DAG(
        dag_id=dag_id,
        description=title,
        schedule=schedule,
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=form,
        tags=tags,
        dagrun_timeout=limit,
        doc_md=documentation,
    )


def pool_of(testbed: str) -> str:
    """The pool of a testbed's runs: of one slot where they must be strictly sequential."""
    return f"testbed_{testbed}"


def experiment_form(experiment: Experiment) -> dict[str, Param]:
    """The trigger form: what `barograph.plan.experiment` lets one change, and how the series is opened."""
    names = [variant.name for variant in experiment.variants]
    variants = Param(
        names, type="array", items={"type": "string", "enum": names}, examples=names, minItems=1, title="Variants",
        description="Which of the experiment's variants to run",
    )  # fmt: skip
    repetitions = Param(
        experiment.repetitions, type="integer", minimum=1, maximum=1000, title="Repetitions",
        description="Of each variant; one of each makes a block",
    )  # fmt: skip
    testbed = Param(experiment.testbed.name, type="string", enum=list(TESTBEDS), title="Testbed")
    durations = {name: _duration_param(name, getattr(experiment.durations, name)) for name in DURATION_NAMES}
    first = {"variants": variants, "repetitions": repetitions, "testbed": testbed, "series": series_param("series")}
    return {**first, **durations, "options": options_param(), "opened": opened_param()}


def series_param(what: str) -> Param:
    return Param(
        RESUME, type="string", enum=[RESUME, NEW], title="Series",
        description=f"resume: go on with the newest unfinished {what} of the same request; new: start one",
    )  # fmt: skip


def options_param() -> Param:
    return Param(
        {}, type="object", title="Options", section=OPTIONS_SECTION,
        description='Laid over testbed.options of the file, for the testbed that is chosen; such as {"budget_usd": 5}',
    )  # fmt: skip


def opened_param() -> Param:
    return Param(
        None, type=["null", "string"], title="Opened series", section=COMMAND_LINE_SECTION,
        description="Folder of a series that the command line has opened; leave empty",
    )  # fmt: skip


DURATION_LABELS = {
    "warm_up_floor_s": ("Warm-up, at least (s)", "From the first tuple; steadiness is tested from then on"),
    "warm_up_ceiling_s": ("Warm-up, at most (s)", "Then the first event comes, steady or not"),
    "after_floor_s": ("After an event, at least (s)", "From its zero; steadiness is tested from then on"),
    "horizon_s": ("After an event, at most (s)", "What is not steady by then has not converged"),
}


def _duration_param(name: str, default: float) -> Param:
    title, description = DURATION_LABELS[name]
    return Param(
        default, type="number", exclusiveMinimum=0, maximum=86_400, title=title, description=description,
        section=DURATIONS_SECTION,
    )  # fmt: skip


def changes_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The form's answers as `barograph.plan.experiment` takes them."""
    return {key: params[key] for key in CHANGEABLE if key in params}


def dags_of(names: Iterable[str], build: Callable[[str], DAG]) -> dict[str, DAG]:
    """A file that is wrong must not hide the others: it becomes an import error only when nothing is right."""
    dags, wrong = {}, []
    for name in names:
        try:
            dag = build(name)
            dags[dag.dag_id] = dag
        except ExperimentError as error:
            wrong.append(str(error))
    if wrong and not dags:
        raise ExperimentError("; ".join(wrong))
    return dags


log = logging.getLogger(__name__)


def add_series_tasks(series: Any, pool: str) -> None:
    """Everything after `series`, the task that answers with a series' folder; runs take a slot of `pool` each."""

    @setup
    def provision(series: str) -> str:
        from pathlib import Path

        from barograph.machines.provision import provision

        return provision(Path(series))

    @task
    def deploy(series: str) -> None:
        from pathlib import Path

        from barograph.series_steps import deploy

        deploy(Path(series))

    @task
    def plan_runs(series: str) -> list[int]:
        from pathlib import Path

        from barograph.series_steps import remaining_runs

        return remaining_runs(Path(series))

    # One at a time even where the pool has more slots: a run has the whole cluster.
    @task(pool=pool, max_active_tis_per_dagrun=1)
    def run_next(series: str, place: int) -> str | None:
        """Which run this does is decided when it starts: mapped tasks come in any order."""
        from pathlib import Path

        from barograph.series_steps import do_next_run

        log.info("place %s of this execution", place)
        return do_next_run(Path(series))

    @teardown
    def release(series: str) -> None:
        from pathlib import Path

        from barograph.machines.provision import release

        release(Path(series))

    @task(trigger_rule="all_done")
    def analyse(series: str | None) -> str:
        from pathlib import Path

        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.series_steps import NothingInTime, analyse

        if series is None:
            raise AirflowSkipException("no series was opened; the task that opens it says why")
        try:
            return str(analyse(Path(series)))
        except NothingInTime as error:
            raise AirflowSkipException(str(error)) from error

    @task
    def report(series: str, path: str) -> None:
        from pathlib import Path

        from barograph.series_steps import announce

        announce(Path(series), Path(path))

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
    # Of `released`, because Airflow forgives a teardown: what it could not give back goes on costing.
    add_watcher([series, deployed, planned, runs, released, analysed, reported])


def add_watcher(tasks: list[Any]) -> None:
    """A task that fails where one of these did, so that the DAG run is red although its last task went well."""

    @task(trigger_rule="one_failed")
    def watcher() -> None:
        from barograph.errors import BarographError

        raise BarographError("a task before this one failed; its own log says why")

    end: Any = watcher()
    tasks >> end
