"""The edge: YAML text to an Experiment, with errors that name the file, the field, the value and what is allowed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dags import experiment as values
from dags.errors import ExperimentError
from dags.event_order import wrong_order
from dags.events import KINDS
from dags.yaml_files import Strict, Text, Word, validated

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class _Topology(Strict):
    name: Word
    parameters: dict[str, Any] = Field(default_factory=dict)
    overrides: dict[str, Any] = Field(default_factory=dict)


class _Testbed(Strict):
    name: Word
    machine_type: Word
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    bandwidth_mbit: Annotated[float, Field(gt=0, le=100_000)] = 100.0
    joining: Literal["ready", "booted"] = "ready"
    options: dict[Word, dict[str, Any]] = Field(default_factory=dict)


class _Machines(Strict):
    before: Annotated[int, Field(ge=1, le=250)]
    after: Annotated[int, Field(ge=1, le=250)]


class _Code(Strict):
    """`ref` is what people write; a series has recorded its `commit` instead."""

    ref: Text | None = None
    commit: Text | None = None
    label: Text | None = None
    repository: str = ""
    build: list[Text] = Field(default_factory=list)
    jar: str = ""
    scheduler: str = ""


class _Variant(Strict):
    name: Word
    policy: Word
    parameters: dict[str, Any] = Field(default_factory=dict)
    code: _Code | None = None


At = Literal["steady"] | Seconds
FOREIGN = "foreign"  # the policy that hosts a scheduler which is not ours


class _ScaleOut(Strict):
    kind: Literal["scale_out"]
    at: At
    machines: Annotated[int, Field(ge=1, le=250)]


class _ScaleIn(Strict):
    kind: Literal["scale_in"]
    at: At
    machines: Annotated[int, Field(ge=1, le=250)]


class _RateChange(Strict):
    kind: Literal["rate"]
    at: At
    factor: Annotated[float, Field(gt=0, le=1000)]


class _Crash(Strict):
    kind: Literal["crash"]
    at: At
    machine: Word
    restart_after_s: Seconds | None = None


_Event = Annotated[_ScaleOut | _ScaleIn | _RateChange | _Crash, Field(discriminator="kind")]


class _Durations(Strict):
    warm_up_floor_s: Seconds
    warm_up_ceiling_s: Seconds
    after_floor_s: Seconds
    horizon_s: Seconds


class _Experiment(Strict):
    title: str
    topology: _Topology
    testbed: _Testbed
    machines: _Machines
    variants: Annotated[list[_Variant], Field(min_length=1)]
    events: Annotated[list[_Event], Field(min_length=1, max_length=100)]
    durations: _Durations
    repetitions: Annotated[int, Field(ge=1, le=1000)]
    seed: Annotated[int, Field(ge=0)]
    claims: list[Annotated[str, StringConstraints(pattern=r"^[A-Z][0-9]{2}$")]] = Field(default_factory=list)
    lease_minutes: Annotated[float, Field(gt=0, le=10_080)]


def parse(name: str, data: Any, *, source: str) -> values.Experiment:
    """Raises ExperimentError listing every wrong field."""
    experiment = _freeze(name, validated(_Experiment, data, source=source))
    wrong = _inconsistencies(experiment)
    if wrong:
        raise ExperimentError(f"{source}: {'; '.join(wrong)}")
    return experiment


def _freeze(name: str, model: _Experiment) -> values.Experiment:
    return values.Experiment(
        name=name,
        title=model.title,
        topology=values.TopologyChoice(**model.topology.model_dump()),
        testbed=values.TestbedChoice(**model.testbed.model_dump()),
        machines=values.MachineCount(**model.machines.model_dump()),
        variants=tuple(_variant(variant) for variant in model.variants),
        events=tuple(KINDS[event.kind](**event.model_dump()) for event in model.events),
        durations=values.Durations(**model.durations.model_dump()),
        repetitions=model.repetitions,
        seed=model.seed,
        claims=tuple(model.claims),
        lease_minutes=model.lease_minutes,
    )


def _variant(model: _Variant) -> values.Variant:
    return values.Variant(model.name, model.policy, model.parameters, _code(model.code) if model.code else None)


def _code(model: _Code) -> values.Code:
    asked = model.commit or model.ref or ""
    rest = {"repository": model.repository, "jar": model.jar, "scheduler": model.scheduler}
    return values.Code(model.label or asked, asked, build=tuple(model.build), **rest)


def _inconsistencies(experiment: values.Experiment) -> list[str]:
    durations = experiment.durations
    wrong = wrong_order(experiment.machines.before, experiment.machines.after, experiment.events, durations.horizon_s)
    if durations.warm_up_ceiling_s < durations.warm_up_floor_s:
        wrong.append(
            f"durations.warm_up_ceiling_s is {durations.warm_up_ceiling_s:g}; allowed: at least warm_up_floor_s"
            f" ({durations.warm_up_floor_s:g})"
        )
    if durations.horizon_s < durations.after_floor_s:
        wrong.append(
            f"durations.horizon_s is {durations.horizon_s:g}; allowed: at least after_floor_s"
            f" ({durations.after_floor_s:g})"
        )
    names = [variant.name for variant in experiment.variants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        wrong.append(f"variants has {', '.join(twice)} twice; give each variant a name of its own")
    return wrong + [said for variant in experiment.variants if variant.code for said in _wrong_code(variant)]


def _wrong_code(variant: values.Variant) -> list[str]:
    """A scheduler that is not ours has a jar and the policy `foreign`; one of ours has none of it."""
    code, where = variant.code, f"variants.{variant.name}"
    assert code is not None, "only asked of variants with code"
    wrong = []
    if not code.commit:
        wrong.append(f"{where}.code.ref is missing; give a branch, a tag or a commit")
    if (variant.policy == FOREIGN) != bool(code.scheduler):
        wrong.append(
            f"{where} has policy {variant.policy!r} and code.scheduler {code.scheduler!r}; allowed: policy"
            f" {FOREIGN!r} with the class of a scheduler that is not ours, or another policy without one"
        )
    if bool(code.jar) != bool(code.scheduler):
        wrong.append(f"{where}.code has jar {code.jar!r} and scheduler {code.scheduler!r}; give both or none")
    if code.build and not code.jar:
        wrong.append(f"{where}.code.build is given without jar; say which jar the build leaves, and its scheduler")
    return wrong
