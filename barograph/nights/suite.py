"""A suite as data: `dags/suites/<name>.yaml`, validated at the edge into frozen dataclasses; and a night's deadline.

Errors name the file, the field, the value and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from analysis.nights.settings import Accepted, Renames, Words
from barograph.errors import ExperimentError
from barograph.plan.experiment import Experiment, with_changes
from barograph.plan.experiment import load as load_experiment
from barograph.settings import ROOT
from barograph.yaml_files import CLOSED, Word, read_yaml, validated

FOLDER = ROOT / "dags" / "suites"
LONGEST_H = 24
Percent = Annotated[float, Field(strict=True, gt=0, le=1000)]


CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?")


def require_cron(text: str) -> str:
    """Return five fields of cron. Raises ValueError with what is wrong."""

    def fits(part: str, low: int, high: int) -> bool:
        match = PART.fullmatch(part)
        ends = [int(end) for end in match.groups()[:2] if end is not None] if match else [-1]
        return all(low <= end <= high for end in ends) and ends == sorted(ends)

    fields = text.split()
    if len(fields) != len(CRON):
        raise ValueError(f"five fields ({' '.join(name for name, _, _ in CRON)}), such as '0 2 * * *', or null")
    for field_text, (name, low, high) in zip(fields, CRON, strict=True):
        if not all(fits(part, low, high) for part in field_text.split(",")):
            raise ValueError(f"a {name} of *, {low}-{high}, lists and steps of them; {field_text!r} is none")
    return text


@dataclass(frozen=True)
class Choice:
    """One experiment of a suite, and its changes to the experiment's file."""

    experiment: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*/[a-z][a-z0-9_]*$")]
    variants: Annotated[tuple[Word, ...], Field(min_length=1)] = ()  # left out: all
    repetitions: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None  # None: the file's
    horizon_s: Annotated[float, Field(gt=0, le=86400)] | None = None  # None: the file's


@dataclass(frozen=True)
class Suite:
    """The keys of the YAML file, whose path gives the name."""

    __pydantic_config__ = CLOSED

    name: str
    title: Words
    schedule: Annotated[str, AfterValidator(require_cron)] | None  # in UTC; None: only when somebody asks
    testbed: Word
    deadline_hours: Annotated[float, Field(strict=True, gt=0, le=LONGEST_H)]
    experiments: Annotated[tuple[Choice, ...], Field(min_length=1)]
    options: Mapping[str, Any] = field(default_factory=dict)  # of the testbed
    renames: Renames = field(default_factory=Renames)
    accepted: tuple[Accepted, ...] = ()
    minimum_percent: Percent | None = None  # smaller changes are not reported; None: the default of `Rule`

    def changes(self, choice: Choice) -> dict[str, Any]:
        """Return the changes of the experiment's file, for `barograph.plan.experiment`."""
        return {
            "variants": list(choice.variants) or None,
            "repetitions": choice.repetitions,
            "horizon_s": choice.horizon_s,
            "testbed": self.testbed,
            "options": dict(self.options) or None,
        }

    def resolved(self, choice: Choice) -> Experiment:
        """Return the experiment as measured at night. Raises ExperimentError."""
        return with_changes(load_experiment(choice.experiment), self.changes(choice))


def suite_names(folder: Path = FOLDER) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def load_suite(name: str, folder: Path = FOLDER) -> Suite:
    """Return the suite of that name. Raises ExperimentError with file, field, value and what is allowed."""
    if name not in suite_names(folder):
        names = ", ".join(suite_names(folder)) or "none"
        raise ExperimentError(f"no suite {name!r} in dags/{folder.name}/; there are: {names}")
    return parse_suite(name, read_yaml(folder / f"{name}.yaml"), source=f"{folder.name}/{name}.yaml")


def subset(suite: Suite, experiments: Sequence[str]) -> Suite:
    """Return the suite with a part of its experiments, in the file's order. Raises ExperimentError."""
    names = [choice.experiment for choice in suite.experiments]
    if surplus := [name for name in experiments if name not in names]:
        raise ExperimentError(f"suite {suite.name} has no {', '.join(surplus)}; it has {', '.join(names)}")
    return replace(suite, experiments=tuple(choice for choice in suite.experiments if choice.experiment in experiments))


HOUR_S = 3600.0
CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min|)")


def deadline_s(said: str | None, hours: float, now_s: float) -> float:
    """Return the deadline of `07:00`, the next such time on this box; of `6h`, `90min`; None: `hours` from now.

    Raises ExperimentError.
    """
    if said is None:
        return now_s + hours * HOUR_S
    if clock := CLOCK.fullmatch(said.strip()):
        now = datetime.fromtimestamp(now_s).astimezone()
        clock_time = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return (clock_time if clock_time > now else clock_time + timedelta(days=1)).timestamp()
    length = DURATION.fullmatch(said.strip())
    seconds = float(length[1]) * (60.0 if length[2] == "min" else HOUR_S) if length else 0.0
    if not 0 < seconds <= LONGEST_H * HOUR_S:
        raise ExperimentError(
            f"--deadline is {said!r}; allowed: a time such as 07:00, or 6h, 90min, at most {LONGEST_H}h"
        )
    return now_s + seconds


def parse_suite(name: str, data: Any, *, source: str) -> Suite:
    """Parse a suite. Raises ExperimentError listing every wrong field; experiments and variants must be known."""
    from inventory import TESTBEDS

    suite = validated(Suite, data, source=source, name=name)
    names = [choice.experiment for choice in suite.experiments]
    errors = [f"experiments has {each} twice; give it once" for each in dict.fromkeys(names) if names.count(each) > 1]
    if suite.testbed not in TESTBEDS:
        errors.append(f"testbed is {suite.testbed!r}; known: {', '.join(TESTBEDS)}")
    else:
        for place, choice in enumerate(suite.experiments):
            try:
                suite.resolved(choice)
            except ExperimentError as error:
                errors.append(f"experiments.{place}: {error}")
    if errors:
        raise ExperimentError(f"{source}: {'; '.join(errors)}")
    return suite
