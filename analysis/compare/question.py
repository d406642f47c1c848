"""A comparison on disk: `comparison.json` beside its series, which the harness writes and both read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from analysis.errors import RecordError
from analysis.record.files import read_json, write_json_atomic
from barograph.errors import ConfigurationError, ExperimentError
from barograph.yaml_files import CLOSED, validated

QUESTION_FILE = "comparison.json"
LEVEL = 0.05
DEFAULT_BLOCKS = 20  # looks of --until-certain if the budget is not in blocks


@dataclass(frozen=True)
class Budget:
    """The budget of a request: exactly one of the three. On disk `blocks` is that of the plan, too."""

    blocks: int | None = None
    seconds: float | None = None
    usd: float | None = None


@dataclass(frozen=True)
class ComparedSide:
    """A side as pages name it."""

    label: str
    commit: str
    repository: str = ""
    subject: str = ""
    date: str = ""
    scheduler: str = ""  # of a scheduler that is not ours, and its parameters
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short(self) -> str:
        return self.commit[:10]


@dataclass(frozen=True)
class ComparedSides:
    a: ComparedSide
    b: ComparedSide


@dataclass(frozen=True)
class Pair:
    """Two variants of the series that differ only in their code; `name`: of the variant that both are."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Question:
    """The question. `goal_percent`: the difference that must not be overlooked; `topology`: the only one of several to
    compare; `log`: commits between the sides, if known; `bisecting`: the search that asks, and its metric, if any."""

    __pydantic_config__ = CLOSED

    v: Literal[1]
    sides: ComparedSides
    pairs: tuple[Pair, ...]
    level: Annotated[float, Field(gt=0, lt=1)] = LEVEL
    goal_percent: Annotated[float, Field(gt=0)] = 5.0
    until_certain: bool = False
    topology: str | None = None
    budget: Budget = Budget(blocks=DEFAULT_BLOCKS)
    source: str = ""  # the experiment from which that of the comparison is derived
    bisecting: Mapping[str, Any] | None = None
    log: tuple[str, ...] = ()

    @property
    def a(self) -> ComparedSide:
        return self.sides.a

    @property
    def b(self) -> ComparedSide:
        return self.sides.b

    @property
    def most_blocks(self) -> int:
        return self.budget.blocks or DEFAULT_BLOCKS

    @property
    def same_code(self) -> bool:
        """Return whether this is an A/A comparison, in which any difference is chance."""
        a, b = ((each.repository, each.commit, each.scheduler, each.parameters) for each in (self.a, self.b))
        return a == b


def is_comparison(series_dir: Path) -> bool:
    return (series_dir / QUESTION_FILE).is_file()


def read_question(series_dir: Path) -> Question:
    """Read it. Raises ConfigurationError if the series is no comparison, RecordError if its file cannot be read."""
    path = series_dir / QUESTION_FILE
    if not path.is_file():
        raise ConfigurationError(
            f"{series_dir} is no comparison: it has no {QUESTION_FILE}. Make one with `barograph compare A B`."
        )
    data = read_json(path)
    try:
        return validated(Question, data, source=str(path))
    except ExperimentError as error:
        raise RecordError(str(error)) from error


def write_question(series_dir: Path, question: Question) -> None:
    write_json_atomic(series_dir / QUESTION_FILE, asdict(question))
