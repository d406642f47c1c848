"""Latency of both sides over the same seconds after an event, and what of their tuples has none.

A run that was watched longer has other tuples, so all runs of a pair are cut to what each of them was watched. A tuple
that was lost, never emitted, or still waits at the end of these seconds has no latency, and would have had one of the
longest: with more than `MOST_UNTIMED_PERCENT` of them in a run, what the others took is shown and carries no verdict.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.compare.blocks import Block, MetricBlocks, PairRuns, Value
from analysis.metrics.latency_histogram import merged, percentile_ms
from analysis.metrics.measurements import LATENCIES
from analysis.numerals import number
from analysis.record.event_timeline import WHOLE_RUN, event_id_of, event_order
from analysis.record.small_tables import Row

Reader = Callable[[str], list[Row]]
METRICS = {f"{name}_after": share for name, share in LATENCIES.items()}
# With half a percent untimed, 95 % of the others are at least 94.5 and at most 95.5 % of all.
MOST_UNTIMED_PERCENT = 0.5
WINDOW_S = 10


@dataclass(frozen=True)
class Untimed:
    """Tuples of a run without a latency, in percent of those that were due; None: not measured."""

    run_id: str
    lost: float | None  # on all edges, until the next event
    never_emitted: float | None  # due in the compared seconds less emitted in them: missed, or waiting at a spout
    waiting: float | None  # at the other components: by how much more at their end than before the event

    @property
    def percent(self) -> float | None:
        parts = (self.lost, self.never_emitted, self.waiting)
        return None if any(part is None for part in parts) else sum(max(0.0, part) for part in parts if part)

    @property
    def words(self) -> str:
        parts = {"lost": self.lost, "never emitted": self.never_emitted, "waiting at the end": self.waiting}
        return ", ".join(
            f"{name} {'not measured' if part is None else number(max(0.0, part), 1) + ' %'}"
            for name, part in parts.items()
        )


@dataclass(frozen=True)
class _Event:
    """What the tables say of one event in one run. By start of window, s after the event; whole windows only."""

    watched_s: float
    histograms: Mapping[float, tuple[Sequence[int], Sequence[float]]]
    due: Mapping[float, float]  # tuples
    emitted: Mapping[float, float]
    waiting: Mapping[float, float]
    lost: float | None


def latency_blocks(pairs: Iterable[PairRuns], read: Reader) -> list[MetricBlocks]:
    """Every latency of every pair and event; none of runs whose lines have no histograms."""
    events = _events(read)
    names = sorted({event for _, event in events}, key=event_order)
    return [blocks for runs in pairs for event in names for blocks in _pair_blocks(runs, event, events)]


def _pair_blocks(runs: PairRuns, event: str, events: Mapping[tuple[str, str], _Event]) -> Iterator[MetricBlocks]:
    both = {block: (runs.a.complete[block], runs.b.complete[block]) for block in runs.whole}
    timed = {
        block: ids for block, ids in both.items()
        if all((run_id, event) in events and events[run_id, event].histograms for run_id in ids)
    }  # fmt: skip
    seen = {run_id: events[run_id, event] for ids in timed.values() for run_id in ids}
    seconds = min((each.watched_s for each in seen.values()), default=0.0)
    if not seconds:
        return
    untimed = [_untimed(run_id, each, seconds) for run_id, each in seen.items()]
    for metric, share in METRICS.items():
        values = {run_id: _percentile(each, seconds, share) for run_id, each in seen.items()}
        blocks = tuple(
            Block(block, Value(a), Value(b)) for block, ids in timed.items()
            for a, b in [[values[run_id] for run_id in ids]] if a is not None and b is not None
        )  # fmt: skip
        if blocks:
            note = _note(f"{100 * share:.0f} % of all tuples", seconds, untimed)
            yield MetricBlocks(runs.pair.name, metric, event, blocks, note, _reason(untimed))


def _percentile(event: _Event, seconds: float, share: float) -> float | None:
    return percentile_ms(merged(each for start, each in event.histograms.items() if start < seconds), share)


def _note(percent: str, seconds: float, untimed: Sequence[Untimed]) -> str:
    worst = max(untimed, key=lambda each: float("inf") if each.percent is None else each.percent)
    return (
        f"what {percent} keep to in seconds 0 to {seconds:.0f} after the event, the same in all {len(untimed)} runs; "
        f"of the tuples due in {worst.run_id}, which has the fewest timed: {worst.words}"
    )


def _reason(untimed: Sequence[Untimed]) -> str:
    """Why these latencies carry no verdict; empty where they may."""
    unknown = [each.run_id for each in untimed if each.percent is None]
    above = [each.run_id for each in untimed if each.percent is not None and each.percent > MOST_UNTIMED_PERCENT]
    what = f"more than {MOST_UNTIMED_PERCENT:g} % of the tuples due were lost, never emitted, or waiting at the end"
    faults = {what + " in": above, "how many tuples have no latency is not known of": unknown}
    return "; ".join(f"{text} {len(runs)} of {len(untimed)} runs" for text, runs in faults.items() if runs)


def _untimed(run_id: str, event: _Event, seconds: float) -> Untimed:
    """In percent of what was due; of what was emitted where nobody knows what was due."""
    due = _sum_until(event.due, seconds)
    emitted = _sum_until(event.emitted, seconds)
    all_due = _sum_until(event.due, float("inf")) or _sum_until(event.emitted, float("inf"))
    last = event.waiting.get(seconds - WINDOW_S)
    before = event.waiting.get(-float(WINDOW_S), 0.0)
    return Untimed(
        run_id,
        lost=_percent(event.lost, all_due),
        never_emitted=_percent(None if due is None or emitted is None else due - emitted, due),
        waiting=_percent(None if last is None else last - before, due or emitted),
    )


def _sum_until(tuples: Mapping[float, float], seconds: float) -> float | None:
    """From the event on."""
    return sum(n for start, n in tuples.items() if 0 <= start < seconds) if tuples else None


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _events(read: Reader) -> dict[tuple[str, str], _Event]:
    """(run, event) -> what was seen of it, for every event that was watched for a whole window or more."""
    whole, rates = _rates(read("event_throughput"))
    histograms: dict[tuple[str, str], dict[float, tuple[list[int], list[float]]]] = defaultdict(dict)
    without = set()
    for row in read("latency"):
        key = (row["run_id"], event_id_of(row))
        if row.get("buckets") is None:
            without.add(key)
        else:
            histograms[key][row["window_s"]] = (row["buckets"], row["counts"])
    waiting: dict[tuple[str, str], dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in read("activity"):
        if row["queue"] is not None and row["emitted"] is None:  # what waits at a spout is due and not emitted
            waiting[row["run_id"], event_id_of(row)][row["window_s"]] += row["queue"]
    # A spout began anew, and nobody knew what had been due before.
    unknown = {(row["run_id"], row["event_id"]) for row in read("emissions")
               if row["phase"] == "after" and row["due"] is None}  # fmt: skip
    lost: dict[tuple[str, str], float] = defaultdict(float)
    for row in read("losses"):
        if row["phase"] == "after":
            lost[row["run_id"], event_id_of(row)] += row["lost"]
    return {
        key: _Event(
            max(starts) + WINDOW_S,
            {} if key in without else {start: each for start, each in histograms[key].items() if start >= 0},
            {} if key in unknown else rates[(*key, "due")], rates[(*key, "spouts")], waiting[key], lost.get(key),
        )
        for key, starts in whole.items() if key[1] != WHOLE_RUN and max(starts, default=-1) >= 0
    }  # fmt: skip


def _rates(
    throughput: Iterable[Row],
) -> tuple[dict[tuple[str, str], set[float]], dict[tuple[str, str, str], dict[float, float]]]:
    """The whole windows of each run and event, and by scope the tuples of each of them."""
    whole: dict[tuple[str, str], set[float]] = defaultdict(set)
    tuples: dict[tuple[str, str, str], dict[float, float]] = defaultdict(dict)
    for row in throughput:
        key = (row["run_id"], event_id_of(row))
        if row["complete"]:
            whole[key].add(row["window_s"])
            if row["rate"] is not None and not row["component"]:
                tuples[(*key, row["scope"])][row["window_s"]] = WINDOW_S * row["rate"]
    return whole, tuples
