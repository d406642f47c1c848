"""A suite as data: `dags/suites/<name>.yaml`, validated at the edge into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dags.errors import ExperimentError
from dags.experiment import Experiment
from dags.experiment import load as load_experiment
from dags.request import requested

FOLDER = Path(__file__).parent.parent / "suites"


@dataclass(frozen=True)
class Choice:
    """One experiment of a suite, and what of it differs from its file."""

    experiment: str
    policies: tuple[str, ...] = ()  # empty: all
    repetitions: int | None = None  # None: the file's


@dataclass(frozen=True)
class Accepted:
    """A regression that is meant: shown, but no alarm."""

    series: str  # a pattern over experiment/variant/metric/event
    night: str  # the date or the id of its first bad night
    why: str


@dataclass(frozen=True)
class Renames:
    """Old name -> new name: what was measured under the old one goes on under the new one."""

    experiments: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    title: str
    schedule: str | None  # cron in UTC; None: only when somebody asks
    testbed: str
    deadline_hours: float
    experiments: tuple[Choice, ...]
    options: Mapping[str, Any] = field(default_factory=dict)  # of the testbed
    renames: Renames = field(default_factory=Renames)
    accepted: tuple[Accepted, ...] = ()
    minimum_percent: float | None = None  # the smallest change that is told; None: as history has it

    def changes(self, choice: Choice) -> dict[str, Any]:
        """What `dags.request` is to change in the experiment's file."""
        return {
            "policies": list(choice.policies) or None,
            "repetitions": choice.repetitions,
            "testbed": self.testbed,
            "options": dict(self.options) or None,
        }

    def resolved(self, choice: Choice) -> Experiment:
        """The experiment as it is measured at night. Raises ExperimentError."""
        return requested(load_experiment(choice.experiment), self.changes(choice))


def names(folder: Path = FOLDER) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def load(name: str, folder: Path = FOLDER) -> Suite:
    """The suite of that name. Raises ExperimentError with file, field, value and what is allowed."""
    from dags.nights.suite_yaml import parse
    from dags.yaml_files import read_yaml

    if name not in names(folder):
        known = ", ".join(names(folder)) or "none"
        raise ExperimentError(f"no suite {name!r} in dags/{folder.name}/; there are: {known}")
    return parse(name, read_yaml(folder / f"{name}.yaml"), source=f"{folder.name}/{name}.yaml")


def only(suite: Suite, experiments: Sequence[str]) -> Suite:
    """The same suite with a part of its experiments, in the file's order. Raises ExperimentError."""
    known = [choice.experiment for choice in suite.experiments]
    if unknown := [name for name in experiments if name not in known]:
        raise ExperimentError(f"suite {suite.name} has no {', '.join(unknown)}; it has {', '.join(known)}")
    return replace(suite, experiments=tuple(choice for choice in suite.experiments if choice.experiment in experiments))
