"""Latency, and the utility made from it, of both sides over the same seconds after an event, and their tuples
without a latency.

A run that was watched longer has other tuples, so all runs of a pair are cut to the time for which each was watched,
and anything that had begun with the event (a disturbance, a hold) is over in all of them where the seconds begin. A
tuple that was lost, never emitted, or still waits at the end of these seconds has no latency, and would have had one of
the longest: with more than `MOST_UNTIMED_PERCENT` of them in a run, the others' latency is shown and carries no
verdict.

Losses may be hidden in the uncertainty of the counts, and mostly more than that percentage; to exclude these runs would
exclude nearly every comparison. So a verdict must hold whatever became of these tuples: each run is also
evaluated as if all of them had been its slowest, and as if its clocks had been wrong by as much as they may be
(docs/decisions/statistics.md).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

from analysis.compare.blocks import Block, MetricBlocks, PairRuns, Value
from analysis.metrics import untimed
from analysis.metrics.definitions import LATENCIES
from analysis.metrics.steadiness import WINDOW_S
from analysis.metrics.uncertainty import UTILITY, ClockErrors, has_latency_level, utility_error, utility_per_ms
from analysis.metrics.untimed import MOST_UNTIMED_PERCENT
from analysis.numerals import number
from analysis.record.event_timeline import REST, WHOLE_RUN, event_order
from analysis.record.small_tables import Row
from scheduler_plugins.service.latency_buckets import merged, percentile_ms

Reader = Callable[[str], list[Row]]
METRICS = {f"{name}_after": share for name, share in LATENCIES.items()}
UTILITY_AFTER = f"{UTILITY}after"
LEAST_S = 30.0  # a percentile of fewer seconds is one of moments


@dataclass(frozen=True)
class Untimed:
    """Tuples of a run without a latency, in percent of those that would have one; None: not measured.

    These are the tuples due in the compared seconds or, where filters leave fewer, the timed and the untimed ones.
    Lost and missed ones are counted from the event on, or from the end of what it had begun in this run, to the
    next event: tuples beyond the compared seconds can only prevent a verdict.
    """

    run_id: str
    timed: float  # tuples
    lost: float | None  # on all edges
    never_emitted: float | None  # missed, or waiting at a spout: by how much more at their end than before the event
    waiting: float | None  # at the other components, likewise
    unseen: float | None  # possibly lost beyond that, of those at sinks
    dropped: float = 0.0  # by limits on queues, in the compared seconds

    @property
    def percent(self) -> float | None:
        parts = (self.lost, self.never_emitted, self.waiting, self.dropped)
        return None if any(part is None for part in parts) else sum(part for part in parts if part)

    @property
    def words(self) -> str:
        parts = {"lost": self.lost, "never emitted": self.never_emitted, "waiting at the end": self.waiting}
        if self.dropped:
            parts["dropped"] = self.dropped
        if self.unseen:
            parts["lost unseen up to"] = self.unseen
        return ", ".join(
            f"{name} {'not measured' if part is None else number(part, 1) + ' %'}" for name, part in parts.items()
        )


@dataclass(frozen=True)
class WatchedEvent:
    """An event in one run. By start of window, s after the event; whole windows only."""

    watched_s: float
    over_s: float  # end of what had begun with it; 0: nothing had
    histograms: Mapping[float, tuple[Sequence[int], Sequence[float]]]
    due: Mapping[float, float | None]  # tuples; None: not all of them are known
    emitted: Mapping[float, float | None]
    behind: Mapping[float, float]  # waiting at spouts
    waiting: Mapping[float, float]  # at the other components
    missed: float | None
    lost: float | None
    unseen: float | None  # tuples at sinks that may be lost beyond `lost`
    dropped: Mapping[float, float | None] = field(default_factory=dict)

    def timed(self, since_s: float, until_s: float) -> dict[int, float]:
        return merged(each for start, each in self.histograms.items() if since_s <= start < until_s)


def latency_blocks(pairs: Iterable[PairRuns], read: Reader, errors: ClockErrors | None) -> list[MetricBlocks]:
    """Return every latency of every pair and event, and the utility if it is that of a latency; none for runs whose
    lines have no histograms. `errors`: None if clocks cannot be wrong."""
    return blocks_of_events(
        pairs, latency_events(read), errors, read if has_latency_level(read("topologies")) else None
    )


def blocks_of_events(pairs: Iterable[PairRuns], events: Mapping[tuple[str, str], WatchedEvent],
                     errors: ClockErrors | None, read: Reader | None = None) -> list[MetricBlocks]:  # fmt: skip
    """Return the same from tables that were read before, for many comparisons of one series; `read`: for utility."""
    names = sorted({event for _, event in events}, key=event_order)
    return [blocks for runs in pairs for event in names for blocks in _pair_blocks(runs, event, events, errors, read)]


def _pair_blocks(runs: PairRuns, event: str, events: Mapping[tuple[str, str], WatchedEvent],
                 errors: ClockErrors | None, read: Reader | None) -> Iterator[MetricBlocks]:  # fmt: skip
    ids_watched = {block: ids for block, ids in runs.ids.items() if all((run_id, event) in events for run_id in ids)}
    watched_events = {run_id: events[run_id, event] for ids in ids_watched.values() for run_id in ids}
    if not watched_events:
        return
    until_s = min(each.watched_s for each in watched_events.values())
    since_s = WINDOW_S * ceil(max(each.over_s for each in watched_events.values()) / WINDOW_S)
    timed = {run_id: each.timed(since_s, until_s) for run_id, each in watched_events.items()}
    untimed_shares = [
        _untimed(run_id, each, timed[run_id], since_s, until_s) for run_id, each in watched_events.items()
    ]
    for metric, share in METRICS.items():
        values = {run_id: percentile_ms(counts, share) for run_id, counts in timed.items()}
        highest = {run_id: _highest(timed[run_id], each.unseen, share) for run_id, each in watched_events.items()}
        measured = {
            block: ids for block, ids in ids_watched.items() if all(values[run_id] is not None for run_id in ids)
        }
        if measured:
            note = _note(f"what {100 * share:.0f} % of all tuples keep to", since_s, until_s, untimed_shares)
            metric_values = {run_id: values[run_id] or 0.0 for ids in measured.values() for run_id in ids}
            wrong = {run_id: 0.0 if errors is None else errors.get(run_id) for run_id in metric_values}
            beyond = sum(highest[run_id] is None for run_id in metric_values)
            unseen = (
                f"{100 * (1 - share):.0f} % or more of the tuples may be lost unseen, within the uncertainty of a loss,"
                f" in {beyond} of {len(watched_events)} runs"
            )
            short = f"the seconds that all runs were watched are {until_s - since_s:.0f}, and {LEAST_S:.0f} are needed"
            reason = (short if until_s - since_s < LEAST_S else "") or _reason(untimed_shares) or (
                unseen if beyond else "") or _reason_clocks(wrong, metric_values)  # fmt: skip
            ranges = {} if reason else {
                run_id: (value - (wrong[run_id] or 0.0), (highest[run_id] or 0.0) + (wrong[run_id] or 0.0))
                for run_id, value in metric_values.items()
            }  # fmt: skip
            yield MetricBlocks(runs.pair.name, metric, event, _blocks(measured, metric_values, ranges), note, reason)
    if read is not None:
        yield from _utility_blocks(runs, event, ids_watched, until_s, untimed_shares, errors, read)


def _utility_blocks(
    runs: PairRuns, event: str, watched: Mapping[int, tuple[str, str]], until_s: float, without: Sequence[Untimed],
    errors: ClockErrors | None, read: Reader,
) -> Iterator[MetricBlocks]:  # fmt: skip
    """Yield the utility until the first run was no longer watched. Possibly lost tuples count as without any."""

    axis_s = {row["run_id"]: row["zero_s"] for row in read("zeros")}
    zero_s = {row["run_id"]: row["zero_s"] for row in read("scale_events") if row["event_id"] == event}
    windows: dict[str, list[Row]] = defaultdict(list)
    for row in read("service"):
        middle_s = row["window_s"] + WINDOW_S / 2 + axis_s[row["run_id"]] - zero_s.get(row["run_id"], inf)
        if 0 < middle_s < until_s:
            windows[row["run_id"]].append(row)
    values = {run_id: value for run_id, of_run in windows.items() if (value := mean_utility(of_run)) is not None}
    unseen = {each.run_id: each.unseen or 0.0 for each in without}
    measured = {block: ids for block, ids in watched.items() if all(run_id in values for run_id in ids)}
    if measured:
        worth = utility_per_ms(read("topologies"))
        run_ids = [run_id for ids in measured.values() for run_id in ids]
        lowest = {run_id: values[run_id] * (1 - unseen[run_id] / 100) for run_id in run_ids}
        wrong = {
            run_id: 0.0 if errors is None or run_id not in worth
            else utility_error(values[run_id], worth[run_id], errors.get(run_id))
            for run_id in run_ids
        }  # fmt: skip
        reason = _reason(without) or _reason_clocks(wrong, {run_id: low or inf for run_id, low in lowest.items()})
        ranges = {} if reason else {
            run_id: (lowest[run_id] - (error or 0.0), values[run_id] + (error or 0.0))
            for run_id, error in wrong.items()
        }  # fmt: skip
        note = _note("what the topology is worth", 0.0, until_s, without)
        yield MetricBlocks(runs.pair.name, UTILITY_AFTER, event, _blocks(measured, values, ranges), note, reason)


def _blocks(
    runs: Mapping[int, tuple[str, str]], values: Mapping[str, float], ranges: Mapping[str, tuple[float, float]]
) -> tuple[Block, ...]:
    run_values = {
        run_id: Value(value, False, None, *ranges.get(run_id, (None, None))) for run_id, value in values.items()
    }
    return tuple(Block(block, run_values[a], run_values[b]) for block, (a, b) in runs.items())


def _highest(timed: Mapping[int, float], unseen: float | None, share: float) -> float | None:
    """Return the percentile of all tuples if the hidden ones were the slowest; None if it is one of them."""
    tuples = sum(timed.values())
    quantile = None if unseen is None or not tuples else share * (tuples + unseen) / tuples
    return None if quantile is None or quantile > 1 else percentile_ms(timed, quantile)


def _note(what: str, since_s: float, until_s: float, without: Sequence[Untimed]) -> str:
    worst = max(without, key=lambda each: inf if each.percent is None else each.percent + (each.unseen or 0.0))
    return (
        f"{what} in seconds {since_s:.0f} to {until_s:.0f} after the event, the same in all"
        f" {len(without)} runs; of the tuples of {worst.run_id}, which has the fewest timed: {worst.words}"
    )


def _reason(without: Sequence[Untimed]) -> str:
    """Return why these latencies carry no verdict; empty if they may."""
    empty_runs = [each.run_id for each in without if not each.timed]
    unknown_runs = [each.run_id for each in without if each.percent is None or each.unseen is None]
    exceeding_runs = [
        each.run_id for each in without if each.percent is not None and each.percent > MOST_UNTIMED_PERCENT
    ]
    fates = "lost, dropped, never emitted, or waiting at the end"
    excess = f"more than {MOST_UNTIMED_PERCENT:g} % of the tuples were {fates}"
    faults = {
        "no tuple came to a sink in": empty_runs, f"{excess} in": exceeding_runs,
        "how many tuples have no latency is not known of": unknown_runs,
    }  # fmt: skip
    return "; ".join(f"{text} {len(runs)} of {len(without)} runs" for text, runs in faults.items() if runs)


def _reason_clocks(errors: Mapping[str, float | None], values: Mapping[str, float]) -> str:
    """Return that clocks may be wrong by as much as a latency takes, or that the error is unknown."""
    count = sum(error is None for error in errors.values())
    as_much = sum(error is not None and error >= values[run_id] for run_id, error in errors.items())
    texts = ((count, "how far the machines' clocks are apart is not known of"),
             (as_much, "the machines' clocks may be wrong by as much as that in"))  # fmt: skip
    return "; ".join(f"{text} {runs} of {len(errors)} runs" for runs, text in texts if runs)


def _untimed(run_id: str, event: WatchedEvent, counts: Mapping[int, float], since_s: float, until_s: float) -> Untimed:
    """Return shares of the due tuples, or of the emitted ones if those are unknown."""
    timed = sum(counts.values())
    missing_tuples = untimed.never_emitted(event.due, event.emitted, event.behind, event.missed, since_s, until_s)
    dropped = untimed.total(event.dropped, since_s, until_s) or 0.0
    parts = (event.lost, missing_tuples, untimed.growth(event.waiting, since_s, until_s), dropped)
    tuples = untimed.total(event.due, since_s, until_s) or untimed.total(event.emitted, since_s, until_s)
    base = None if not tuples else min(tuples, timed + sum(part for part in parts if part))
    loss, never_emitted, queue, gone = (untimed.percent(part, base) for part in parts)
    hidden = None if event.unseen is None else untimed.percent(event.unseen, timed + event.unseen) or 0.0
    return Untimed(run_id, timed, loss, never_emitted, queue, hidden, gone or 0.0)


def latency_events(read: Reader) -> dict[tuple[str, str], WatchedEvent]:
    """Return (run, event) -> its watch, for every event that was watched for a whole window or more.

    Runs whose lines have no histograms are left out.
    """
    throughput = read("event_throughput")
    rates, starts_by_key = (
        _of_runs(untimed.tuples_of_windows(throughput)),
        defaultdict[tuple[str, str], set[float]](set),
    )
    for row in throughput:
        if row["complete"]:
            starts_by_key[row["run_id"], row["event_id"]].add(row["window_s"])
    histograms: dict[tuple[str, str], dict[float, tuple[list[int], list[float]]]] = defaultdict(dict)
    without_histograms = set()
    for row in read("latency"):
        key = (row["run_id"], row["event_id"])
        if row.get("buckets") is None:
            without_histograms.add(key)
        else:
            histograms[key][row["window_s"]] = (row["buckets"], row["counts"])
    backlog, waits = map(_of_runs, untimed.queues(read("activity")))
    losses = read("losses")
    loss = _totals(losses, "lost")
    edges: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in _later(losses):
        edges[row["run_id"], row["event_id"]].append(row)
    unknowns = {key: _unseen_at_sinks(event_edges) for key, event_edges in edges.items()}
    over_s = {
        (row["run_id"], row["event_id"]): row["ended_s"] - row["zero_s"]
        for row in read("scale_events")
        if row.get("ended_s") is not None
    }
    misses = _totals(read("emissions"), "missed")  # None: a spout began anew, and the tuples due before are unknown
    return {
        key: WatchedEvent(
            max(starts) + WINDOW_S,
            over_s.get(key, 0.0),
            {start: each for start, each in histograms[key].items() if start >= 0},
            rates.get((*key, "due"), {}), rates.get((*key, "spouts"), {}), backlog.get(key, {}), waits.get(key, {}),
            misses.get(key), loss.get(key), unknowns.get(key), rates.get((*key, "dropped"), {}),
        )
        for key, starts in starts_by_key.items()
        if key not in without_histograms and key[1] != WHOLE_RUN and max(starts, default=-1) >= 0
    }  # fmt: skip


def _of_runs(numbers: Mapping[Any, Any]) -> dict[Any, Any]:
    """Replace the unit in each key by its run: all rows are of one topology."""
    return {(unit[0], *others): of for (unit, *others), of in numbers.items()}


def _later(rows: Sequence[Row]) -> Iterator[Row]:
    """Return the rows after each event; if what it had begun was over before the next one, the rows after that."""
    with_rest = {(row["run_id"], row["event_id"]) for row in rows if row["phase"] == REST}
    return (row for row in rows if row["phase"] == (REST if (row["run_id"], row["event_id"]) in with_rest else "after"))


def _totals(rows: Sequence[Row], column: str) -> dict[tuple[str, str], float | None]:
    """Return the sum after each event; None if a part of it was not measured."""
    totals: dict[tuple[str, str], float | None] = {}
    for row in _later(rows):
        key = (row["run_id"], row["event_id"])
        before, part = totals.get(key, 0.0), row[column]
        totals[key] = None if before is None or part is None else before + part
    return totals


def _unseen_at_sinks(edges: Sequence[Row]) -> float | None:
    """Return tuples at sinks that may be lost after an event beyond the stated losses: for an edge its uncertainty
    and, if it has no loss, the difference within it. None if an edge has no uncertainty."""
    if any(edge.get(name) is None for edge in edges for name in ("lost", "uncertainty", "difference")):
        return None
    timed = {target: _timed_per_tuple(target, edges) for target in {edge["target"] for edge in edges}}
    tuples: float = sum(
        timed[edge["target"]]
        * (edge["uncertainty"] + (0.0 if edge["lost"] else min(max(0.0, edge["difference"]), edge["uncertainty"])))
        for edge in edges
    )
    return tuples


def _timed_per_tuple(component: str, edges: Sequence[Row], above: frozenset[str] = frozenset()) -> float:
    """Return at how many sinks one tuple of a component arrives, by the ratio of sent and executed tuples."""
    sent = [edge for edge in edges if edge["source"] == component]
    if not sent or component in above:
        return 0.0 if sent else 1.0
    executions = sum(edge["executed"] for edge in edges if edge["target"] == component)
    return sum(
        (edge["sent"] / executions if executions else 1.0)
        * _timed_per_tuple(edge["target"], edges, above | {component})
        for edge in sent
    )


def mean_utility(rows: Iterable[Mapping[str, object]]) -> float | None:
    """Return the mean utility of rows of `service`; None without any, or where one with reports is not known."""
    values = [(row["utility"], row["reported"]) for row in rows]
    numbers = [float(utility) for utility, _ in values if isinstance(utility, float)]
    return (
        sum(numbers) / len(numbers)
        if numbers and not any(each and utility is None for utility, each in values)
        else None
    )
