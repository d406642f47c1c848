"""The answer of a comparison, also as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from analysis.compare.blocks import Block, PairRuns
from analysis.compare.question import Question
from analysis.stats.effect import Interval, PairedEffect
from analysis.stats.paired_differences import CONFIDENCE
from analysis.stats.shares import Failures


class MetricKind(StrEnum):
    """The kind of comparison: b / a, b - a, who came first in each block, or how many runs failed."""

    RATIO = "ratio"
    DIFFERENCE = "difference"
    RANK = "rank"
    RUNS = "runs"


class Verdict(StrEnum):
    """The verdict on b against a. `different`: shown, for a metric that is neither better high nor low. `no
    difference`: the whole interval is less than the goal. `no verdict`: the numbers do not justify one, however many
    blocks there are.
    """

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"
    NONE = "no verdict"


RUNS_FAILED = "runs_failed"
SURVIVORS = "the side that is ahead failed in more of its runs, and the others have no numbers"
RESULT, PAGE = "comparison_result.json", "comparison.html"  # its files in the series, for programs and for people
CALLED = (Verdict.BETTER, Verdict.WORSE, Verdict.DIFFERENT)


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One pair, metric and event. `difference`, `low`, `high`, `floor`, `goal`, `goal_low` are in `unit`, b against a:
    percent of a if that is `%`, else the metric's own. None: not available, for example an interval of fewer than 3
    blocks.

    `topology`: empty if runs have only one. `a`, `b`: the means of the difference (geometric ones for a
    ratio). `measured`: the difference with its possible errors, and its A/A floor; if sides can only be
    ordered, of times as far as both were watched. `p_holm` is corrected over all primary rows or over all others.
    `region`: within the goal; for a ratio 5 % up is as far as 4.8 % down. `needed_blocks` would in 80 % of the cases
    find a difference of the goal, and rule it out if there is none; `needed_for_seen` would find one as large as the
    observed one; both if further blocks scatter as before. `spread`: for simulated runs `low` and `high`, the smallest
    and the largest difference of a block. `failures`: for the row of failed runs, whose `a` and `b` are numbers of runs
    and whose differences are points.
    """

    pair: str
    metric: str
    event: str
    words: str
    primary: bool
    kind: MetricKind
    unit: str
    a: float | None = None
    b: float | None = None
    measured: PairedEffect | None = None
    p: float | None
    effect: float | None
    floor_on_record: bool = False
    region: Interval | None = None
    blocks: tuple[Block, ...] = ()
    sign: int  # of b against a, if they can only be ordered
    note: str = ""
    p_holm: float | None = None
    needed_blocks: int | None = None
    needed_for_seen: int | None = None
    verdict: Verdict = Verdict.UNDECIDED
    why_no_verdict: str = ""
    topology: str = ""
    spread: tuple[float, float] | None = None
    failures: Failures | None = None

    @property
    def about(self) -> str:
        """Return the subject in words: the pair, and of several topologies which."""
        return f"{self.pair}, {self.topology}" if self.topology else self.pair

    @property
    def counted(self) -> PairedEffect | None:
        """Return the measurement if it is a number."""
        return None if self.kind is MetricKind.RANK else self.measured

    @property
    def difference(self) -> float | None:
        if self.failures is not None:
            return self.failures.points
        return None if self.counted is None else self.counted.point

    @property
    def floor(self) -> float | None:
        return None if self.counted is None else self.counted.floor

    @property
    def goal(self) -> float | None:
        return None if self.region is None else self.region.high

    @property
    def goal_low(self) -> float | None:
        return None if self.region is None else self.region.low

    @property
    def low(self) -> float | None:
        return self.spread[0] if self.spread else (self.ends(CONFIDENCE) or (None,))[0]

    @property
    def high(self) -> float | None:
        return self.spread[1] if self.spread else (self.ends(CONFIDENCE) or (None,))[-1]

    def ends(self, confidence: float) -> tuple[float, float] | None:
        """Return the interval of that confidence, the farthest ends of all estimates; None without one."""
        effect = self.failures or self.counted
        return None if self.p is None or effect is None else effect.interval(confidence)

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def within_goal(self) -> bool:
        """Return whether the whole interval is less than the goal, up and down."""
        if self.low is None or self.high is None or self.region is None:
            return False
        return self.region.low <= self.low and self.high <= self.region.high

    @property
    def difference_percent(self) -> float | None:
        return self.difference if self.unit == "%" else None

    @property
    def floor_percent(self) -> float | None:
        return self.floor if self.unit == "%" else None

    @property
    def called(self) -> bool:
        return self.verdict in CALLED

    @property
    def unsteady(self) -> int:
        """Return the number of unsteady runs of both sides; their substitute for a steady part counts."""
        return sum(value.steady is False for block in self.blocks for value in (block.a, block.b))

    @property
    def weak(self) -> bool:
        """Return whether more than half of the runs were not steady; differences are then stated in weaker words."""
        return self.unsteady > len(self.blocks)


@dataclass(frozen=True)
class ComparisonResult:
    """The answer. `certain`: no further block is needed; `why`: the reason, or which metric waits for how many.
    `simulated`: the rows are a model's, and have no verdict."""

    question: Question
    rows: tuple[MetricRow, ...]
    runs: tuple[PairRuns, ...]
    sentence: str
    certain: bool
    why: str
    notes: tuple[str, ...]  # left-out runs, and whose failure they were
    kinds: Mapping[str, str]  # event -> its kind
    simulated: bool = False

    @property
    def primary(self) -> tuple[MetricRow, ...]:
        return tuple(row for row in self.rows if row.primary)

    @property
    def several(self) -> bool:
        """Return whether rows must name their topology."""
        return len({(row.pair, row.topology) for row in self.rows if row.metric != RUNS_FAILED}) > 1 or (
            len(self.question.pairs) > 1
        )

    @property
    def blocks(self) -> int:
        """Return the number of whole blocks of the pair that has most."""
        return max((len(runs.whole) for runs in self.runs), default=0)


def result_data(found: ComparisonResult) -> dict[str, Any]:
    """Return the content of `comparison_result.json`."""
    return {
        "v": 1,
        **({"simulated": True} if found.simulated else {}),
        "sides": {letter: {"label": side.label, "commit": side.commit}
                  for letter, side in (("a", found.question.a), ("b", found.question.b))},
        "sentence": found.sentence,
        "certain": found.certain,
        "why": found.why,
        "level": found.question.level,
        "goal_percent": found.question.goal_percent,
        "blocks": found.blocks,
        "rows": [
            {name: getattr(row, name) for name in ROW_KEYS}
            | ({} if row.spread is None else {"low": None, "high": None, "lowest": row.low, "highest": row.high})
            | ({"topology": row.topology} if row.topology else {})
            | {"compared": row.kind.value, "verdict": row.verdict.value, "blocks": len(row.blocks)}
            for row in found.rows
        ],
        "runs": [
            {"pair": runs.pair.name, "blocks": len(runs.whole), **{
                letter: {"variant": variant, "complete": len(side.complete), "failed": len(side.failed),
                         "lost": [{"run_id": run.run_id, "block": run.block, "blame": run.blame, "message": run.message}
                                  for run in side.lost]}
                for letter, variant, side in (("a", runs.pair.a, runs.a), ("b", runs.pair.b, runs.b))
            }}
            for runs in found.runs
        ],
        "notes": list(found.notes),
    }  # fmt: skip


ROW_KEYS = ("pair", "metric", "event", "words", "primary", "unit", "a", "b", "difference", "low", "high",
            "difference_percent", "p", "p_holm", "effect", "floor", "floor_percent", "floor_on_record", "goal",
            "goal_low", "within_goal", "needed_blocks", "needed_for_seen", "unsteady", "note",
            "why_no_verdict")  # fmt: skip
