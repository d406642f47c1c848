"""A series' small tables -> blocks: both sides' measurements, and the runs that do not count."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from analysis.compare.question import Pair
from analysis.metrics import untimed
from analysis.metrics.uncertainty import UTILITY, Errors
from analysis.record.event_timeline import event_order
from analysis.record.small_tables import Row

SYSTEM_UNDER_TEST = "system_under_test"
STATUS_REASONS = {
    "invalid": "invalid: something else than the variant placed, or the load was not the plan's; see run.json",
    "incomplete": "cut short",
}


@dataclass(frozen=True)
class Value:
    """A metric of one run. `steady`: whether the sides of the event that it rests on were; None: it rests on none, or
    was not tested. `low`, `high`: its possible range by the kind of measurement; None: it is exact."""

    number: float
    censored: bool = False
    steady: bool | None = None
    low: float | None = None
    high: float | None = None

    @property
    def lowest(self) -> float:
        return self.number if self.low is None else self.low

    @property
    def highest(self) -> float:
        return self.number if self.high is None else self.high

    @property
    def is_certain(self) -> bool:
        return self.lowest == self.highest


@dataclass(frozen=True)
class Block:
    """A block in which both sides measured a metric."""

    number: int
    a: Value
    b: Value

    @property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return both values at their least difference, and at their greatest."""
        return (self.a.highest, self.b.lowest), (self.a.lowest, self.b.highest)


@dataclass(frozen=True)
class MetricBlocks:
    """A metric of a pair after an event, block by block. `why_no_verdict` is empty if it may carry one. `topology`:
    empty if there is only one. `throughput`: the word for it, with the place if that is not the sinks. `primary`: None
    as everywhere (`PRIMARY`)."""

    pair: str
    metric: str
    event: str
    blocks: tuple[Block, ...]
    note: str = ""
    why_no_verdict: str = ""
    topology: str = ""
    throughput: str = "throughput"
    primary: bool | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Return metric and event, and of several topologies which."""
        return (self.metric, self.event, self.topology) if self.topology else (self.metric, self.event)

    @property
    def censored(self) -> bool:
        return any(block.a.censored or block.b.censored for block in self.blocks)


@dataclass(frozen=True)
class LostRun:
    """A run that says nothing about speed; `failed`: by the system under test, which is a result.

    `blame` is empty if nothing failed, for example in a run that was cut short, or in which the bridge placed instead.
    `repeated`: an attempt after which the run was measured again.
    """

    run_id: str
    block: int
    blame: str
    message: str
    repeated: bool = False

    @property
    def failed(self) -> bool:
        return self.blame == SYSTEM_UNDER_TEST


@dataclass(frozen=True)
class SideRuns:
    """The runs of one side of a pair, by block."""

    complete: Mapping[int, str]
    lost: tuple[LostRun, ...]

    @property
    def failed(self) -> tuple[LostRun, ...]:
        """Return runs that the system under test failed, each once, including repeated ones that are complete now."""
        return tuple({run.block: run for run in self.lost if run.failed}.values())

    @property
    def counted(self) -> int:
        """Return the number of runs that are a result; runs that failed for other reasons are not."""
        return len({*self.complete, *(run.block for run in self.failed)})


@dataclass(frozen=True)
class PairRuns:
    pair: Pair
    a: SideRuns
    b: SideRuns

    @property
    def whole(self) -> list[int]:
        """Return the blocks in which both sides are complete."""
        return sorted(set(self.a.complete) & set(self.b.complete))

    @property
    def ids(self) -> dict[int, tuple[str, str]]:
        """Return the runs of these blocks."""
        return {number: (self.a.complete[number], self.b.complete[number]) for number in self.whole}


def runs_of(pair: Pair, runs: Sequence[Row]) -> PairRuns:
    """Return the runs of a pair. `runs`: also attempts after which a run was repeated
    (`run_tables.failed_attempts`)."""
    return PairRuns(pair, _side_runs(pair.a, runs), _side_runs(pair.b, runs))


def _side_runs(variant: str, runs: Sequence[Row]) -> SideRuns:
    runs_of_side = [run for run in runs if run["variant"] == variant]
    complete = {_block_number(run): run["run_id"] for run in runs_of_side if run["status"] == "complete"}
    losses = [
        LostRun(run["run_id"], _block_number(run), run["failure_blame"] or "",
             run["failure_message"] or STATUS_REASONS.get(run["status"], f"{run['status']}, no reason recorded"),
             run.get("repeated", False))
        for run in sorted(runs_of_side, key=_block_number) if run["status"] != "complete"
    ]  # fmt: skip
    return SideRuns(complete, tuple(losses))


def _block_number(run: Row) -> int:
    number = run["block"] if run["block"] is not None else run["repetition"]
    return int(number or 0)


LACKS = {"payback_s": "moved nothing"}  # why a side has no number
OF_CLOCKS = "by the machines' clocks these latencies may be wrong by as much as they are, or nobody knows by how much"


def metric_blocks(
    pairs: Iterable[PairRuns], measurements: Iterable[Row], errors: Errors, *, untimed_on_record: bool,
    latency_level: bool = False,
) -> list[MetricBlocks]:  # fmt: skip
    """Return every metric that both sides have in one block or more; a value that one side lacks excludes the other's.

    `untimed_on_record`: whether the series says of any run how many tuples of a steady part have no latency.
    `latency_level`: whether utility is that of a latency, so that its tuples without one count as latency's do.
    """
    values: defaultdict[tuple[str, str], dict[str, Value]] = defaultdict(dict)
    for row in measurements:
        key, number = (row["metric"], row["event_id"]), float(row["value"])
        error = errors.get((row["run_id"], *key), 0.0)
        low, high = (None, None) if not error else (max(0.0, number - error), number + error)
        if error is None:
            low, high = 0.0, number
        values[key][row["run_id"]] = Value(number, bool(row["censored"]), row.get("steady"), low, high)
    order = sorted(values, key=lambda key: (event_order(key[1]), key[0]))
    guarded = (untimed.LATENCY, UTILITY, "met_", "attained_") if latency_level else (untimed.LATENCY,)
    result = []
    for runs, (metric, event) in product(pairs, order):
        numbers = values[metric, event]
        blocks = tuple(Block(number, numbers[a], numbers[b]) for number, (a, b) in runs.ids.items()
                       if a in numbers and b in numbers)  # fmt: skip
        measured, reason = [run_id for block in blocks for run_id in runs.ids[block.number]], ""
        if metric.startswith(guarded):  # latencies of steady parts carry a verdict by the same rule as in nights
            shares = values.get((untimed.share_of(metric), event), {})
            percentages = [shares[run_id].number for run_id in measured if run_id in shares]
            if not untimed.carry_verdict(percentages, len(measured), any_on_record=untimed_on_record):
                reason = untimed.TOO_MANY
            elif any(numbers[run_id].lowest <= 0.0 < numbers[run_id].highest for run_id in measured):
                reason = OF_CLOCKS
        if blocks:
            lack, note = LACKS.get(metric, "has none"), ""
            if len(blocks) < len(runs.ids):
                note = f"{len(blocks)} of {len(runs.ids)} whole blocks: in the others a side {lack}"
            result.append(MetricBlocks(runs.pair.name, metric, event, blocks, note, reason))
    return result
