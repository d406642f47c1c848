"""The question of a comparison: `comparison.json` beside the series."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record.files import read_json
from barograph.errors import ConfigurationError

QUESTION_FILE = "comparison.json"
DEFAULT_MOST_BLOCKS = 20  # looks of --until-certain if the budget is not in blocks


@dataclass(frozen=True)
class Side:
    """A side; `code`: equal if two sides are the same code."""

    label: str
    commit: str
    repository: str
    subject: str
    date: str
    code: str

    @property
    def short(self) -> str:
        return self.commit[:10]


@dataclass(frozen=True)
class Pair:
    """Two variants of the series that differ only in their code."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Question:
    """The question. `goal_percent`: the difference that must not be overlooked; `log`: commits between the sides, if
    given; `topology`: the only one of several to compare."""

    a: Side
    b: Side
    pairs: tuple[Pair, ...]
    level: float
    goal_percent: float
    until_certain: bool
    most_blocks: int
    log: tuple[str, ...]
    topology: str | None = None

    @property
    def same_code(self) -> bool:
        """Return whether this is an A/A comparison, in which any difference is chance."""
        return self.a.code == self.b.code


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
        return _parse_question(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path}: not a comparison of version 1 ({type(error).__name__}: {error})") from error


def _parse_question(data: Mapping[str, Any]) -> Question:
    if data["v"] != 1:
        raise ValueError(f"v is {data['v']!r}")
    level, goal = float(data["level"]), float(data["goal_percent"])
    if not (0 < level < 1 and goal > 0):
        raise ValueError(f"level is {level:g} (allowed: between 0 and 1), goal_percent {goal:g} (allowed: above 0)")
    return Question(
        a=_parse_side(data["sides"]["a"]),
        b=_parse_side(data["sides"]["b"]),
        pairs=tuple(Pair(pair["name"], pair["a"], pair["b"]) for pair in data["pairs"]),
        level=level,
        goal_percent=goal,
        until_certain=bool(data["until_certain"]),
        most_blocks=int((data.get("budget") or {}).get("blocks") or DEFAULT_MOST_BLOCKS),
        log=tuple(str(line) for line in data.get("log") or ()),
        topology=None if data.get("topology") is None else str(data["topology"]),
    )


def _parse_side(data: Mapping[str, Any]) -> Side:
    repository, commit = str(data.get("repository") or ""), str(data["commit"])
    code = " ".join(map(str, (repository, commit, data.get("scheduler") or "", data.get("parameters") or "")))
    return Side(str(data["label"]), commit, repository, str(data.get("subject") or ""), str(data.get("date") or ""),
                code)  # fmt: skip
