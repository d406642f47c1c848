"""What somebody asks: two sides, one experiment, and how sure the answer must be; from the command line or a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dags.comparison.budget import DEFAULT, parse
from dags.comparison.derive import Question
from dags.errors import ExperimentError


@dataclass(frozen=True)
class Asked:
    """`a` and `b` are git refs or YAML files; `bisecting`: the search that asks, and what it looks at, if one does."""

    a: str
    b: str
    experiment: str
    policies: tuple[str, ...] | None = None  # None: all variants
    repetitions: int | None = None  # blocks; None: those of the experiment
    testbed: str | None = None
    options: Mapping[str, Any] | None = None  # of the testbed
    question: Question = field(default_factory=Question)
    bisecting: Mapping[str, Any] | None = None


def asked_of(given: Mapping[str, Any]) -> Asked:
    """The answers of a form, or the options of the command line. Raises ExperimentError for what contradicts itself."""
    policies: Sequence[str] | None = given["policies"]
    return Asked(
        a=given["a"],
        b=given["b"],
        experiment=given["experiment"],
        policies=tuple(policies) if policies else None,
        repetitions=given["repetitions"],
        testbed=given["testbed"],
        options=given["options"] or None,
        question=_question(given),
    )


def _question(given: Mapping[str, Any]) -> Question:
    until_certain, budget = bool(given["until_certain"]), given["budget"]
    goal = 5.0 if given["goal_percent"] is None else float(given["goal_percent"])
    if budget and not until_certain:
        raise ExperimentError(f"budget is {budget!r}, which is for --until-certain; without it give --repetitions")
    if until_certain and given["repetitions"] is not None:
        raise ExperimentError(
            f"repetitions is {given['repetitions']} with --until-certain, which decides how many blocks are needed;"
            f" limit them with --budget '{given['repetitions']} blocks'"
        )
    return Question(until_certain, goal, parse(budget) if budget else DEFAULT)
