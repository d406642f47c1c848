"""What the DAG files share of Airflow: trigger forms and the map from our blame to Airflow's outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow.sdk import DAG, Param

from dags.errors import ExperimentError
from dags.experiment import Experiment
from dags.request import CHANGEABLE, DURATIONS
from inventory import TESTBEDS

RESUME, NEW = "resume", "new"
# Folded away in the form: most runs leave them as they are.
DURATIONS_SECTION, OPTIONS_SECTION, COMMAND_LINE_SECTION = (
    "Durations",
    "Options of the testbed",
    "For the command line only",
)


def pool_of(testbed: str) -> str:
    """The pool of a testbed's runs: of one slot where they must be strictly sequential."""
    return f"testbed_{testbed}"


def form(experiment: Experiment) -> dict[str, Param]:
    """The trigger form: what `dags.request` lets one change, and how the series is opened."""
    names = [variant.name for variant in experiment.variants]
    policies = Param(
        names, type="array", items={"type": "string", "enum": names}, examples=names, minItems=1, title="Policies",
        description="Which of the experiment's variants to run",
    )  # fmt: skip
    repetitions = Param(
        experiment.repetitions, type="integer", minimum=1, maximum=1000, title="Repetitions",
        description="Of each variant; one of each makes a block",
    )  # fmt: skip
    testbed = Param(experiment.testbed.name, type="string", enum=list(TESTBEDS), title="Testbed")
    durations = {name: _duration(name, getattr(experiment.durations, name)) for name in DURATIONS}
    first = {"policies": policies, "repetitions": repetitions, "testbed": testbed, "series": series("series")}
    return {**first, **durations, "options": options(), "opened": opened()}


def series(what: str) -> Param:
    return Param(
        RESUME, type="string", enum=[RESUME, NEW], title="Series",
        description=f"resume: go on with the newest unfinished {what} of the same request; new: start one",
    )  # fmt: skip


def options() -> Param:
    return Param(
        {}, type="object", title="Options", section=OPTIONS_SECTION,
        description='Laid over testbed.options of the file, for the testbed that is chosen; such as {"budget_usd": 5}',
    )  # fmt: skip


def opened() -> Param:
    return Param(
        None, type=["null", "string"], title="Opened series", section=COMMAND_LINE_SECTION,
        description="Folder of a series that the command line has opened; leave empty",
    )  # fmt: skip


DURATION_WORDS = {
    "warm_up_floor_s": ("Warm-up, at least (s)", "From the first tuple; steadiness is tested from then on"),
    "warm_up_ceiling_s": ("Warm-up, at most (s)", "Then the first event comes, steady or not"),
    "after_floor_s": ("After an event, at least (s)", "From its zero; steadiness is tested from then on"),
    "horizon_s": ("After an event, at most (s)", "What is not steady by then has not converged"),
}


def _duration(name: str, default: float) -> Param:
    title, description = DURATION_WORDS[name]
    return Param(
        default, type="number", exclusiveMinimum=0, maximum=86_400, title=title, description=description,
        section=DURATIONS_SECTION,
    )  # fmt: skip


def changes_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """The form's answers as `dags.request` takes them."""
    return {key: params[key] for key in CHANGEABLE if key in params}


def all_of(names: Iterable[str], build: Callable[[str], DAG]) -> dict[str, DAG]:
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
