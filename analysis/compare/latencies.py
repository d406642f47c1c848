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
from analysis.metrics.steadiness import WINDOW_S
from analysis.numerals import number
from analysis.record.event_timeline import WHOLE_RUN, event_id_of, event_order
from analysis.record.small_tables import Row

Reader = Callable[[str], list[Row]]
METRICS = {f"{name}_after": share for name, share in LATENCIES.items()}
# With half a percent untimed, 95 % of the others are at least 94.5 and at most 95.5 % of all.
MOST_UNTIMED_PERCENT = 0.5


@dataclass(frozen=True)
class Untimed:
    """Tuples of a run without a latency, in percent of those that would have one; None: not measured.

    These are the tuples due in the compared seconds or, where filters leave fewer, the timed and the untimed ones.
    What was lost or missed later, until the next event, is in it too: that errs towards no verdict.
    """

    run_id: str
    timed: float  # tuples
    lost: float | None  # on all edges
    never_emitted: float | None  # missed, or waiting at a spout: by how much more at their end than before the event
    waiting: float | None  # at the other components, likewise

    @property
    def percent(self) -> float | None:
        parts = (self.lost, self.never_emitted, self.waiting)
        return None if any(part is None for part in parts) else sum(part for part in parts if part)

    @property
    def words(self) -> str:
        parts = {"lost": self.lost, "never emitted": self.never_emitted, "waiting at the end": self.waiting}
        return ", ".join(
            f"{name} {'not measured' if part is None else number(part, 1) + ' %'}" for name, part in parts.items()
        )


@dataclass(frozen=True)
class _Event:
    """What the tables say of one event in one run. By start of window, s after the event; whole windows only."""

    watched_s: float
    histograms: Mapping[float, tuple[Sequence[int], Sequence[float]]]
    due: Mapping[float, float]  # tuples
    emitted: Mapping[float, float]
    behind: Mapping[float, float]  # waiting at spouts
    waiting: Mapping[float, float]  # at the other components
    missed: float | None
    lost: float | None


def latency_blocks(pairs: Iterable[PairRuns], read: Reader) -> list[MetricBlocks]:
    """Every latency of every pair and event; none of runs whose lines have no histograms."""
    events = _events(read)
    names = sorted({event for _, event in events}, key=event_order)
    return [blocks for runs in pairs for event in names for blocks in _pair_blocks(runs, event, events)]


def _pair_blocks(runs: PairRuns, event: str, events: Mapping[tuple[str, str], _Event]) -> Iterator[MetricBlocks]:
    both = {block: (runs.a.complete[block], runs.b.complete[block]) for block in runs.whole}
    watched = {block: ids for block, ids in both.items() if all((run_id, event) in events for run_id in ids)}
    seen = {run_id: events[run_id, event] for ids in watched.values() for run_id in ids}
    seconds = min((each.watched_s for each in seen.values()), default=0.0)
    if not seconds:
        return
    untimed = [_untimed(run_id, each, seconds) for run_id, each in seen.items()]
    for metric, share in METRICS.items():
        values = {run_id: _percentile(each, seconds, share) for run_id, each in seen.items()}
        blocks = tuple(
            Block(block, Value(a), Value(b)) for block, ids in watched.items()
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
        f"of the tuples of {worst.run_id}, which has the fewest timed: {worst.words}"
    )


def _reason(untimed: Sequence[Untimed]) -> str:
    """Why these latencies carry no verdict; empty where they may."""
    none = [each.run_id for each in untimed if not each.timed]
    unknown = [each.run_id for each in untimed if each.percent is None]
    above = [each.run_id for each in untimed if each.percent is not None and each.percent > MOST_UNTIMED_PERCENT]
    what = f"more than {MOST_UNTIMED_PERCENT:g} % of the tuples were lost, never emitted, or waiting at the end"
    faults = {
        "no tuple came to a sink in": none, f"{what} in": above,
        "how many tuples have no latency is not known of": unknown,
    }  # fmt: skip
    return "; ".join(f"{text} {len(runs)} of {len(untimed)} runs" for text, runs in faults.items() if runs)


def _untimed(run_id: str, event: _Event, seconds: float) -> Untimed:
    """Of what was emitted where nobody knows what was due."""
    timed = sum(sum(counts) for start, (_, counts) in event.histograms.items() if start < seconds)
    at_spouts = _growth(event.behind, seconds)
    never = None if at_spouts is None or event.missed is None else at_spouts + event.missed
    parts = (event.lost, never, _growth(event.waiting, seconds))
    due = _sum_until(event.due, seconds) or _sum_until(event.emitted, seconds)
    whole = None if not due else min(due, timed + sum(part for part in parts if part))
    lost, never_emitted, waiting = (_percent(part, whole) for part in parts)
    return Untimed(run_id, timed, lost, never_emitted, waiting)


def _growth(waiting: Mapping[float, float], seconds: float) -> float | None:
    """By how many tuples more wait in the last compared window than in the last one before the event; 0 for fewer."""
    last = waiting.get(seconds - WINDOW_S)
    return None if last is None else max(0.0, last - waiting.get(-WINDOW_S, 0.0))


def _sum_until(tuples: Mapping[float, float], seconds: float) -> float | None:
    """From the event on."""
    return sum(n for start, n in tuples.items() if 0 <= start < seconds) if tuples else None


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _events(read: Reader) -> dict[tuple[str, str], _Event]:
    """(run, event) -> what was seen of it, for every event that was watched for a whole window or more.

    Nothing of runs whose lines have no histograms.
    """
    whole, rates = _rates(read("event_throughput"))
    histograms: dict[tuple[str, str], dict[float, tuple[list[int], list[float]]]] = defaultdict(dict)
    without = set()
    for row in read("latency"):
        key = (row["run_id"], event_id_of(row))
        if row.get("buckets") is None:
            without.add(key)
        else:
            histograms[key][row["window_s"]] = (row["buckets"], row["counts"])
    behind, waiting = _queues(read("activity"))
    lost = _totals(read("losses"), "lost")
    missed = _totals(read("emissions"), "missed")  # None: a spout began anew, and nobody knew what had been due before
    return {
        key: _Event(
            max(starts) + WINDOW_S,
            {start: each for start, each in histograms[key].items() if start >= 0},
            rates[(*key, "due")], rates[(*key, "spouts")], behind[key], waiting[key], missed.get(key), lost.get(key),
        )
        for key, starts in whole.items()
        if key not in without and key[1] != WHOLE_RUN and max(starts, default=-1) >= 0
    }  # fmt: skip


Windows = dict[tuple[str, str], dict[float, float]]


def _queues(activity: Iterable[Row]) -> tuple[Windows, Windows]:
    """Tuples that wait in each window, at spouts (due, and not emitted) and at the other components."""
    behind: Windows = defaultdict(lambda: defaultdict(float))
    waiting: Windows = defaultdict(lambda: defaultdict(float))
    for row in activity:
        if row["queue"] is not None:
            place = waiting if row["emitted"] is None else behind
            place[row["run_id"], event_id_of(row)][row["window_s"]] += row["queue"]
    return behind, waiting


def _totals(rows: Iterable[Row], column: str) -> dict[tuple[str, str], float | None]:
    """The sum after each event; None where a part of it was not measured."""
    totals: dict[tuple[str, str], float | None] = {}
    for row in rows:
        if row["phase"] == "after":
            key = (row["run_id"], event_id_of(row))
            before, part = totals.get(key, 0.0), row[column]
            totals[key] = None if before is None or part is None else before + part
    return totals


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
