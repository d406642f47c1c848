"""Ablation: what variants of Stela would have decided on what the runs of a series observed, in a reader's words.

The observations are those of every complete run, whatever policy it ran: what a policy saw when the event came does not
depend on what it was about to decide.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.event_ids import operation, place
from analysis.record import SeriesPaths
from analysis.small_tables import Row, rows
from scheduler_plugins import ablation
from scheduler_plugins.policies.variants_of_stela import VARIANTS
from scheduler_plugins.replay import ReplayError

PAPER = "paper"


@dataclass(frozen=True)
class Line:
    """One variant at one event, over the runs. `differing` of `runs` answers are not the paper's rule's."""

    event_id: str
    variant: str
    changed: str  # the parameters in which it differs from the paper's rule
    runs: int
    differing: int
    answers: tuple[str, ...]  # the most frequent first

    @property
    def verdict(self) -> str:
        if self.variant == PAPER:
            return "the rule itself"
        if not self.differing:
            return "no difference on these observations"
        return f"differs in {self.differing} of {self.runs} runs"


def of_series(paths: SeriesPaths) -> list[Line]:
    """A line an event and variant, the paper's rule first; none where no log holds a scale event."""
    complete = [row for row in rows(paths, "runs") if row["status"] == "complete"]
    common = _common(complete)
    found = [row for run in complete for row in _of_run(paths, run["run_id"], common)]
    keys = dict.fromkeys((operation(row), row["variant"]) for row in found)
    order = {name: number for number, name in enumerate(VARIANTS)}
    return [
        _line(event, variant, [row for row in found if (operation(row), row["variant"]) == (event, variant)])
        for event, variant in sorted(keys, key=lambda key: (place(key[0]), order[key[1]]))
    ]


def _common(complete: Sequence[Row]) -> Mapping[str, Any]:
    """The parameters of the series' own Stela that no variant is about."""
    about = {name for parameters in VARIANTS.values() for name in parameters}
    own = next((row["parameters"] for row in complete if row.get("policy") == "stela"), None)
    return {name: value for name, value in json.loads(own or "{}").items() if name not in about}


def _of_run(paths: SeriesPaths, run_id: str, common: Mapping[str, Any]) -> list[Row]:
    """Rows of the last attempt at each event; none for a log of an older version."""
    try:
        found = ablation.ablate(paths.run(run_id).decisions, common)
    except ReplayError:
        return []
    return list({(operation(row), row["variant"]): row for row in found}.values())


def _line(event: str, variant: str, mine: Sequence[Row]) -> Line:
    paper = {} if variant == PAPER else VARIANTS[PAPER]
    changed = ", ".join(f"{k}: {v}" for k, v in VARIANTS[variant].items() if paper.get(k) != v)
    answers = Counter(_answer(row) for row in mine).most_common()
    told = tuple(text if times == len(mine) else f"{text} ({times} of {len(mine)})" for text, times in answers)
    return Line(event, variant, changed, len(mine), sum(row["same_as_paper"] is False for row in mine), told)


def _answer(row: Row) -> str:
    grown = [f"{name} {before} → {after}" for of in row["executors"].values() for name, (before, after) in of.items()]
    parts = [", ".join(sorted(grown))] if grown else []
    parts += [f"releases {', '.join(sorted(row['release']))}"] if row["release"] else []
    text = "; ".join(parts) or f"nothing ({row['reason']})"
    return f"{text}; refused: {row['refused']}" if row["refused"] else text
