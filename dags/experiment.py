"""An experiment as data: `dags/experiments/<family>/<name>.yaml`, validated at the edge into frozen dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dags.errors import ExperimentError
from dags.events import PlannedEvent, at_start, everyone, joiners

FOLDER = Path(__file__).parent / "experiments"


@dataclass(frozen=True)
class TopologyChoice:
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the Flux file's placeholders
    overrides: Mapping[str, Any] = field(default_factory=dict)  # topology configuration


@dataclass(frozen=True)
class TestbedChoice:
    name: str
    machine_type: str
    scale: float = 1.0  # of the type's cores and memory
    bandwidth_mbit: float = 100.0
    joining: Literal["ready", "booted"] = "ready"  # machines that join: up before the run, or started at the event
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by testbed; each knows its own
    __test__ = False  # pytest would collect it by its name


@dataclass(frozen=True)
class MachineCount:
    before: int
    after: int  # when all events are over; one that crashed and stays down still counts


@dataclass(frozen=True)
class Code:
    """Where a variant's scheduling code comes from; one that is not ours has a jar and a class in it."""

    label: str  # as the user said it
    commit: str  # full hash; until `dags.sources` has resolved it, a branch, a tag or a short hash
    repository: str = ""  # a path or URL; empty: this one
    build: tuple[str, ...] = ()  # argv, run in the checkout
    jar: str = ""  # path in the checkout, after the build
    scheduler: str = ""  # its IScheduler


@dataclass(frozen=True)
class Variant:
    name: str
    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    code: Code | None = None  # None: the work tree

    def configured(self) -> dict[str, Any]:
        """The parameters as the policy service gets them: a scheduler that is not ours is named by its code."""
        theirs = {"scheduler": self.code.scheduler} if self.code is not None and self.code.scheduler else {}
        return {**self.parameters, **theirs}


@dataclass(frozen=True)
class Durations:
    """Seconds. Warm-up counts from the first tuple; what follows an event counts from its zero."""

    warm_up_floor_s: float
    warm_up_ceiling_s: float
    after_floor_s: float
    horizon_s: float


@dataclass(frozen=True)
class Experiment:
    name: str  # family/name
    title: str
    topology: TopologyChoice
    testbed: TestbedChoice
    machines: MachineCount
    variants: tuple[Variant, ...]
    events: tuple[PlannedEvent, ...]
    durations: Durations
    repetitions: int
    seed: int
    claims: tuple[str, ...]
    lease_minutes: float

    def starting(self) -> tuple[str, ...]:
        """The machines of the start, by name."""
        return at_start(self.machines.before)

    def workers(self) -> tuple[str, ...]:
        """Every machine but the master that ever takes part."""
        return everyone(self.machines.before, self.events)

    def joining(self, place: int) -> tuple[str, ...]:
        """The machines that join at `events[place]`."""
        return joiners(self.machines.before, self.events, place)

    def acquired(self) -> tuple[str, ...]:
        """The workers that are there before the first run: all of them, unless those that join boot at their event."""
        return self.starting() if self.testbed.joining == "booted" else self.workers()

    def watched(self, place: int | None) -> tuple[float, float]:
        """Floor and ceiling, in seconds, of what is watched after `events[place]`; None: before the first event."""
        following = self.events[0 if place is None else place + 1 :]
        if following and following[0].at != "steady":
            return following[0].at, following[0].at
        durations = self.durations
        if place is None:
            return durations.warm_up_floor_s, durations.warm_up_ceiling_s
        return durations.after_floor_s, durations.horizon_s

    def as_data(self) -> dict[str, Any]:
        """JSON data; `from_data` turns it back into an equal value."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data


DEMO = Durations(warm_up_floor_s=25, warm_up_ceiling_s=60, after_floor_s=40, horizon_s=75)


def names(folder: Path = FOLDER) -> tuple[str, ...]:
    """`stela/star`, …, sorted."""
    return tuple(sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.yaml")))


def load(name: str, folder: Path = FOLDER) -> Experiment:
    """The experiment called `family/name`. Raises ExperimentError with file, field, value and what is allowed."""
    from dags.experiment_yaml import parse
    from dags.yaml_files import read_yaml

    path = folder / f"{name}.yaml"
    if name not in names(folder):
        known = ", ".join(names(folder)) or "none"
        raise ExperimentError(f"no experiment {name!r} in {folder.name}/; there are: {known}")
    return parse(name, read_yaml(path), source=f"{name}.yaml")


def from_data(data: Mapping[str, Any], source: str = "as recorded") -> Experiment:
    """The inverse of `Experiment.as_data`; `source`: where the data is from, for errors."""
    from dags.experiment_yaml import parse

    rest = {key: value for key, value in data.items() if key != "name"}
    return parse(str(data["name"]), rest, source=f"{data['name']} ({source})")


def only(experiment: Experiment, variants: tuple[str, ...]) -> Experiment:
    """The same experiment with a subset of its variants, by name, in the file's order."""
    known = [variant.name for variant in experiment.variants]
    unknown = [name for name in variants if name not in known]
    if unknown or not variants:
        said = ", ".join(unknown) or "nothing"
        raise ExperimentError(f"policies names {said}; {experiment.name} has the variants {', '.join(known)}")
    return replace(experiment, variants=tuple(v for v in experiment.variants if v.name in variants))


def demo(experiment: Experiment) -> Experiment:
    """One short repetition of each variant."""
    return replace(experiment, repetitions=1, durations=DEMO)
