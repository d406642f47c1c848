"""The edge: YAML text to an Experiment, with errors that name the file, the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from dags import experiment as values
from dags.errors import ExperimentError
from dags.event_order import wrong_order
from dags.events import KINDS

Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Topology(_Strict):
    name: Word
    parameters: dict[str, Any] = {}
    overrides: dict[str, Any] = {}


class _Testbed(_Strict):
    name: Word
    machine_type: Word
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    bandwidth_mbit: Annotated[float, Field(gt=0, le=100_000)] = 100.0
    joining: Literal["ready", "booted"] = "ready"
    options: dict[Word, dict[str, Any]] = {}


class _Machines(_Strict):
    before: Annotated[int, Field(ge=1, le=250)]
    after: Annotated[int, Field(ge=1, le=250)]


class _Code(_Strict):
    """`ref` is what people write; a series has recorded its `commit` instead."""

    ref: Text | None = None
    commit: Text | None = None
    label: Text | None = None
    repository: str = ""
    build: list[Text] = []
    jar: str = ""
    scheduler: str = ""


class _Variant(_Strict):
    name: Word
    policy: Word
    parameters: dict[str, Any] = {}
    code: _Code | None = None


At = Literal["steady"] | Seconds
FOREIGN = "foreign"  # the policy that hosts a scheduler which is not ours


class _ScaleOut(_Strict):
    kind: Literal["scale_out"]
    at: At
    machines: Annotated[int, Field(ge=1, le=250)]


class _ScaleIn(_Strict):
    kind: Literal["scale_in"]
    at: At
    machines: Annotated[int, Field(ge=1, le=250)]


class _RateChange(_Strict):
    kind: Literal["rate"]
    at: At
    factor: Annotated[float, Field(gt=0, le=1000)]


class _Crash(_Strict):
    kind: Literal["crash"]
    at: At
    machine: Word
    restart_after_s: Seconds | None = None


_EVENTS: dict[str, type[_Strict]] = {
    "scale_out": _ScaleOut,
    "scale_in": _ScaleIn,
    "rate": _RateChange,
    "crash": _Crash,
}
_Event = Annotated[_ScaleOut | _ScaleIn | _RateChange | _Crash, Field(discriminator="kind")]


class _Durations(_Strict):
    warm_up_floor_s: Seconds
    warm_up_ceiling_s: Seconds
    after_floor_s: Seconds
    horizon_s: Seconds


class _Experiment(_Strict):
    title: str
    topology: _Topology
    testbed: _Testbed
    machines: _Machines
    variants: Annotated[list[_Variant], Field(min_length=1)]
    events: Annotated[list[_Event], Field(min_length=1, max_length=100)]
    durations: _Durations
    repetitions: Annotated[int, Field(ge=1, le=1000)]
    seed: Annotated[int, Field(ge=0)]
    claims: list[Annotated[str, StringConstraints(pattern=r"^[A-Z][0-9]{2}$")]] = []
    lease_minutes: Annotated[float, Field(gt=0, le=10_080)]


def read_yaml(path: Path) -> Any:
    """The file's content as plain data. Raises ExperimentError where it is not YAML."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise ExperimentError(f"{path.name} is not YAML: {said}; mend the file at that place") from error


def parse(name: str, data: Any, *, source: str) -> values.Experiment:
    """Raises ExperimentError listing every wrong field."""
    if not isinstance(data, Mapping):
        raise ExperimentError(f"{source}: holds {type(data).__name__}, not a mapping; keys are {_keys(_Experiment)}")
    try:
        model = _Experiment.model_validate(dict(data))
    except ValidationError as error:
        complaints = "; ".join(_complaint(detail) for detail in error.errors())
        raise ExperimentError(f"{source}: {complaints}") from error
    experiment = _freeze(name, model)
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
    wrong = wrong_order(experiment.machines, experiment.events, durations)
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


def _complaint(detail: Any) -> str:
    location = detail["loc"]
    where = ".".join(str(part) for place, part in enumerate(location) if not _is_branch(location, place))
    if detail["type"] == "extra_forbidden":
        *parent, key = location
        known = _model_at(parent).model_fields
        close = difflib.get_close_matches(str(key), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown key {where}; known here: {', '.join(known)}{hint}"
    if detail["type"] == "missing":
        return f"{where} is missing; keys here: {_keys(_model_at(location[:-1]))}"
    if detail["type"] == "union_tag_not_found":
        return f"{where}.kind is missing; allowed: {_kinds()}"
    if detail["type"] == "union_tag_invalid":
        return f"{where}.kind is {detail['ctx']['tag']!r}; allowed: {_kinds()}"
    return f"{where} is {detail['input']!r}; allowed: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _kinds() -> str:
    return ", ".join(repr(kind) for kind in _EVENTS)


def _is_branch(location: Sequence[Any], place: int) -> bool:
    """Pydantic also names the branch of a union that it took; the file has no such key."""
    part = location[place]
    if place == 2 and location[0] == "events":
        return part in _EVENTS
    return isinstance(part, str) and (part.startswith(("literal[", "constrained-")) or part == "float")


def _model_at(location: Sequence[Any]) -> type[BaseModel]:
    model: type[BaseModel] = _Experiment
    for place, part in enumerate(location):
        if _is_branch(location, place):
            model = _EVENTS.get(part, model)
        elif isinstance(part, str) and part in model.model_fields:
            model = _inner_model(model.model_fields[part].annotation) or model
    return model


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in typing.get_args(annotation) if (found := _inner_model(part))), None)


def _keys(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)
