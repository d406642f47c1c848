"""Parts of Airflow that the DAG files share: trigger forms, limits, pools, and the tasks of a series.

open_series → provision, deploy (setups) → plan → runs → release (teardown) → analyse → report, and a watcher.
Opening is a task of its own because a setup's direct children must all succeed: every task learns the series' folder
from it, and only what follows `provision` depends on the machines. `deploy` is a setup too, so that a cleared run
gets machines with Storm on them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Context, Param, RetryPolicy, setup, task, teardown
from airflow.sdk import RetryDecision as Decision
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.triggers.base import BaseTrigger, TriggerEvent

from analysis.errors import SeriesInUse
from barograph.errors import ExperimentError, InUse, blame_of, message_of
from barograph.plan.durations import step_limit
from barograph.plan.events.kind import LONGEST_S
from barograph.plan.experiment import CHANGEABLE, LARGEST_SEED, Experiment
from barograph.web import RESULT_KEY
from inventory import TESTBEDS
from inventory.testbed import FILE_ONLY_OPTIONS

RESUME, NEW = "resume", "new"
# Collapsed in the form: most runs do not change them.
DURATIONS_SECTION, OPTIONS_SECTION = "Durations", "Options of the testbed"
# `dags/pools.json` says how many slots each has. A task that gives machines back never waits for one that takes them.
WORK_POOL, RELEASE_POOL, REAPER_POOL = "barograph", "barograph_release", "barograph_reaper"
RETRIES, RELEASE_RETRIES = 1, 3
RETRY_DELAY = timedelta(seconds=30)
QUICK = timedelta(minutes=10)
NO_SERIES = "no series was opened; the task that opens it says why"

log = logging.getLogger(__name__)


class RetryByBlame(RetryPolicy):
    """Do not retry after a wrong request, a result, or somebody's request to end: it would not help."""

    def evaluate(self, exception: BaseException, *_: Any, **__: Any) -> Decision:
        from airflow.sdk.exceptions import AirflowTaskTimeout

        if not isinstance(exception, Exception | AirflowTaskTimeout):
            return Decision.fail("somebody asked for the end")
        if (blame := blame_of(exception)) in ("configuration", "system_under_test"):
            return Decision.fail(f"{blame}: {message_of(exception)}")  # Airflow logs the reason alone
        return Decision.default()

    def serialize(self) -> dict[str, Any]:
        return {}


DEFAULTS: dict[str, Any] = {
    "retries": RETRIES,
    "retry_delay": RETRY_DELAY,
    "retry_policy": RetryByBlame(),
    "execution_timeout": QUICK,
    "pool": WORK_POOL,
    # Otherwise Airflow prefers the task with the most successors: a new series before one that holds machines.
    "weight_rule": "absolute",
}
WITH_MACHINES: dict[str, Any] = {"priority_weight": 100}
OF_RELEASE: dict[str, Any] = {"pool": RELEASE_POOL, "retries": RELEASE_RETRIES}


def new_dag(
    dag_id: str, title: str, *, form: dict[str, Param], tags: list[str], documentation: str, schedule: str | None = None
) -> DAG:
    """Return a DAG that measures: one run at a time, and none for the past. It has no time limit as a whole, for
    Airflow would skip the teardowns at its end: each of its tasks has one."""
    return DAG(
        dag_id=dag_id,
        description=title,
        schedule=schedule,
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=form,
        tags=tags,
        doc_md=documentation,
        default_args=DEFAULTS,
    )


def limit_of(step: str, experiment: Experiment | None = None) -> timedelta:
    """Return how long a task may take that does this step of a series."""
    return timedelta(seconds=step_limit(step, experiment).seconds)


def experiment_form(experiment: Experiment) -> dict[str, Param]:
    """Return the trigger form: what `barograph.plan.experiment` allows to change, and how the series is opened."""
    names = [variant.name for variant in experiment.variants]
    variants = Param(
        names, type="array", items={"type": "string", "enum": names}, examples=names, minItems=1, title="Variants",
        description="Which of the experiment's variants to run",
    )  # fmt: skip
    repetitions = Param(
        experiment.repetitions, type="integer", minimum=1, maximum=1000, title="Repetitions",
        description="Of each variant; one of each makes a block",
    )  # fmt: skip
    seed = Param(
        experiment.seed, type="integer", minimum=0, maximum=LARGEST_SEED, title="Seed",
        description="Of the order of runs in their blocks and of the sources' texts; give each series of one request"
        " another",
    )  # fmt: skip
    testbed = Param(experiment.testbed.name, type="string", enum=list(TESTBEDS), title="Testbed")
    durations = {}
    for name, (title, description) in DURATION_LABELS.items():
        durations[name] = Param(
            getattr(experiment.durations, name), type="number", exclusiveMinimum=0, maximum=LONGEST_S, title=title,
            description=description, section=DURATIONS_SECTION,
        )  # fmt: skip
    first = {
        "variants": variants,
        "repetitions": repetitions,
        "seed": seed,
        "testbed": testbed,
        "series": series_param("series"),
    }
    return {**first, **durations, "options": options_param()}


def series_param(what: str) -> Param:
    return Param(
        RESUME, type="string", enum=[RESUME, NEW], title="Series",
        description=f"resume: go on with the newest unfinished {what} of the same request; new: start one",
    )  # fmt: skip


def options_param() -> Param:
    return Param(
        {}, type="object", title="Options", section=OPTIONS_SECTION,
        propertyNames={"not": {"enum": sorted(FILE_ONLY_OPTIONS)}},
        description='Laid over testbed.options of the file, for the testbed that is chosen; such as {"market": "spot"}',
    )  # fmt: skip


DURATION_LABELS = {
    "warm_up_floor_s": ("Warm-up, at least (s)", "From the first tuple; steadiness is tested from then on"),
    "warm_up_ceiling_s": ("Warm-up, at most (s)", "Then the first event comes, steady or not"),
    "after_floor_s": ("After an event, at least (s)", "From its zero; steadiness is tested from then on"),
    "horizon_s": ("After an event, at most (s)", "What is not steady by then has not converged"),
}


def changes_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's answers for `barograph.plan.experiment`."""
    return {key: params[key] for key in CHANGEABLE if key in params}


def dags_of(names: Iterable[str], build: Callable[[str], DAG]) -> dict[str, DAG]:
    """Build DAGs; a wrong file must not hide the others, so it becomes an import error only when no file is right."""
    dags, wrong = {}, []
    for name in names:
        try:
            dag = build(name)
            dags[dag.dag_id] = dag
        except Exception as error:  # noqa: BLE001 - whatever it is, the other files are right
            log.warning("no DAG of %s: %s", name, message_of(error))
            wrong.append(message_of(error))
    if wrong and not dags:
        raise ExperimentError("; ".join(wrong))
    return dags


def result_of(opened: object, ti: Any) -> str:
    """Return the opened folder as the task's result; the pages find it by its key, whatever the task."""
    ti.xcom_push(RESULT_KEY, str(opened))
    return str(opened)


def series_of(opened: Path, ti: Any) -> str:
    """Return it as `result_of` does, for a series whose runs Airflow can map."""
    from airflow.sdk.configuration import conf

    from barograph.campaign.steps import runs_of_execution
    from barograph.series.results import store

    runs, most = len(runs_of_execution(opened)), conf.getint("core", "max_map_length", fallback=1024)
    if runs > most:
        store(opened, log.info)  # no other task does it, and others may open the series then
        raise ExperimentError(
            f"{opened.name} has {runs} runs to do, and this Airflow does {most} mapped tasks of a DAG run at most;"
            f" choose fewer repetitions or variants, or set AIRFLOW__CORE__MAX_MAP_LENGTH to {runs} or more"
        )
    return result_of(opened, ti)


def add_series_tasks(series: Any, experiment: Experiment | None = None) -> None:
    """Add every task after `series`, the task that returns a series' folder. `experiment`: of these runs; None: any may
    be chosen in the form."""

    @setup
    @waiting_task(execution_timeout=limit_of("provision"))
    def provision(series: str) -> str:
        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.campaign.steps import NoRunDue, require_runs
        from barograph.machines.provision import provision, release_own

        try:
            require_runs(Path(series))
        except NoRunDue as reason:
            release_own(Path(series))  # of an earlier try: Airflow skips a teardown whose setups are skipped
            raise AirflowSkipException(str(reason)) from None
        return provision(Path(series))

    @setup
    @task(execution_timeout=limit_of("deploy"), **WITH_MACHINES)
    def deploy(series: str) -> None:
        from barograph.campaign.steps import deploy

        deploy(Path(series))

    @task(execution_timeout=limit_of("plan"), **WITH_MACHINES)
    def plan_runs(series: str) -> list[str]:
        from barograph.campaign.steps import runs_of_execution

        return runs_of_execution(Path(series))

    # One at a time, for a run has the whole cluster. Its retry is for a dead worker: a failed run has been repeated
    # where that helps.
    @task(
        execution_timeout=limit_of("run", experiment), pre_execute=_limit_run, max_active_tis_per_dagrun=1,
        map_index_template="{{ task.op_kwargs['name'] }}", retry_policy=OnlyDeadWorkers(),
        **WITH_MACHINES,
    )  # fmt: skip
    def run(series: str, name: str, ti: Any = None) -> str | None:
        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.campaign.steps import NoRunDue, do_run

        assert ti is not None, "Airflow passes the task instance"
        try:
            return do_run(Path(series), name, again=is_cleared(ti))
        except NoRunDue as reason:
            raise AirflowSkipException(str(reason)) from None

    @teardown
    @task(execution_timeout=limit_of("release"), **OF_RELEASE)
    def release(series: str) -> None:
        from barograph.machines.provision import release

        release(Path(series))

    # Airflow skips a teardown whose setup failed, and a killed setup has given nothing back.
    @task(trigger_rule="one_failed", execution_timeout=limit_of("release"), **OF_RELEASE)
    def release_unprovisioned(series: str | None) -> None:
        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.machines.provision import release

        if series is None:
            raise AirflowSkipException(NO_SERIES)
        release(Path(series))

    @task(trigger_rule="all_done", execution_timeout=limit_of("analyse"))
    def analyse(series: str | None) -> str:
        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.campaign.steps import NothingBeforeDeadline, analyse

        if series is None:
            raise AirflowSkipException(NO_SERIES)
        try:
            return str(analyse(Path(series)))
        except NothingBeforeDeadline as error:
            raise AirflowSkipException(str(error)) from error

    @task(execution_timeout=limit_of("report"))
    def report(series: str, path: str) -> None:
        from barograph.campaign.steps import announce

        announce(Path(series), Path(path))

    machines: Any = provision(series=series)  # by keyword: `waiting_task` reports in it what it waits for
    deployed: Any = deploy(series)
    planned: Any = plan_runs(series)
    runs: Any = run.partial(series=series).expand(name=planned)
    released: Any = release(series)
    unprovisioned: Any = release_unprovisioned(series)
    analysed: Any = analyse(series)
    reported: Any = report(series, analysed)

    machines >> deployed >> planned >> runs >> released.as_teardown(setups=[machines, deployed])
    planned >> unprovisioned
    runs >> analysed
    released >> analysed
    # Not the setups, whose direct children must be all_success: a failed one fails `planned` too. `released`, because
    # Airflow ignores a failed teardown: machines that it could not give back go on costing.
    add_watcher([series, planned, runs, released, unprovisioned, analysed, reported])


class OnlyDeadWorkers(RetryByBlame):
    """Retry only after a killed process, which only Airflow knows of; errors from Python have been handled."""

    def evaluate(self, *_: Any, **__: Any) -> Decision:
        return Decision.fail("a run that failed has been repeated already where that helps")


def _limit_run(context: Context) -> None:
    from barograph.series.series import read_series

    current: Any = context["task"]
    current.execution_timeout = limit_of("run", read_series(Path(current.op_kwargs["series"])).experiment)


def is_cleared(ti: Any) -> bool:
    """Return True for the first try after somebody cleared the task: Airflow then allows as many tries again."""
    return bool(ti.try_number > 1 and ti.try_number == ti.max_tries - ti.task.retries + 1)


def add_watcher(tasks: list[Any]) -> None:
    """Add a task that fails where one of these did, so that the DAG run is red although its last task went well."""

    @task(trigger_rule="one_failed")
    def watcher() -> None:
        from airflow.sdk.exceptions import AirflowFailException

        raise AirflowFailException("a task before this one failed; its own log says why")

    end: Any = watcher()
    tasks >> end


# Waiting for something that another run uses: the testbed, or the night of a suite. A task tries again when the file of
# that use is gone, and holds no slot of a worker until then: Airflow's triggerer watches the file.
# docs/decisions/airflow_and_nights.md says why it is this and no pool.
LOOK_S = 5.0
# Then it tries all the same: the holder may be dead, or the night's deadline may have come.
LONGEST_LOOK_S = 600.0
NAMELESS_LOOK_S = 30.0  # where no file says that it is in use
LONGEST_WAIT = timedelta(days=7)


class FileGone(BaseTrigger):
    """A trigger that fires when the file is gone, and after `limit_s` in any case; `path` "" names none."""

    def __init__(self, path: str, limit_s: float = LONGEST_LOOK_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow's has no types
        self.path, self.limit_s = path, limit_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "dags.wiring.FileGone", {"path": self.path, "limit_s": self.limit_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        end_s = time.monotonic() + self.limit_s
        while (not self.path or Path(self.path).exists()) and time.monotonic() < end_s:
            await asyncio.sleep(min(LOOK_S, self.limit_s))
        yield TriggerEvent({})  # type: ignore[no-untyped-call]


class WaitingOperator(DecoratedOperator, PythonOperator):
    """A Python task that is deferred where something is in use, and then starts again from its beginning."""

    template_fields: Sequence[str] = PythonOperator.template_fields
    template_fields_renderers: ClassVar[dict[str, str]] = dict(PythonOperator.template_fields_renderers)
    custom_operator_name = "@waiting_task"

    def __init__(
        self, *, python_callable: Callable[..., Any], op_args: Sequence[Any], op_kwargs: Mapping[str, Any], **more: Any
    ) -> None:
        arguments: dict[str, Any] = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=arguments, **arguments, **more)

    def execute(self, context: Context) -> Any:
        return self._attempt(context, time.time())

    def execute_again(self, context: Context, event: object, since_s: float) -> Any:  # noqa: ARG002 - Airflow gives it
        return self._attempt(context, since_s)

    def _attempt(self, context: Context, since_s: float) -> Any:
        try:
            return super().execute(context)
        except (InUse, SeriesInUse) as taken:
            if time.time() - since_s > LONGEST_WAIT.total_seconds():
                self._tell("step_failed", blame=blame_of(taken), message=message_of(taken))
                raise
            self._tell("message", text=f"waiting: {message_of(taken)}")
            file = getattr(taken, "file", None)
            trigger = FileGone("", NAMELESS_LOOK_S) if file is None else FileGone(str(file))
            self.defer(trigger=trigger, method_name="execute_again", kwargs={"since_s": since_s})

    def _tell(self, kind: str, **facts: str) -> None:
        """Report to the log, and to the series' progress if it is opened by now."""
        from barograph.series.progress import ProgressFile

        log.info("%s", facts)
        if series := self.op_kwargs.get("series"):
            ProgressFile(Path(series)).tell(kind, **facts)


def waiting_task(python_callable: Callable[..., Any] | None = None, **options: Any) -> TaskDecorator:
    """Decorate like Airflow's `@task`, for a function that may raise InUse."""
    return task_decorator_factory(python_callable, decorated_operator_class=WaitingOperator, **options)
