"""Records of spout tasks: the time until which their due tuples are counted, and how many of these were not emitted
then.

A worker that begins asks for them, so that its spouts continue the schedule of the earlier processes. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeGuard

# An input rate factor: beyond these a grid of nanoseconds has no room for the rate. Workers follow no other
# (SamplesAnswer.java), so the service accepts no other and no plan may have one. A course may also be at 0 for a while.
LEAST_FACTOR, MOST_FACTOR = 1e-6, 1000.0
MOST_CHANGES = 300  # of one call
MOST_AHEAD_S = 60.0
MOST_LATE_S = 5.0  # workers have emitted by another rate since then
MOST_KEPT = 1000  # of one rate, if a task never posts again; older ones are stored more coarsely
COARSE, FINE_S = 0.02, 100.0  # some 900 steps are two days then
ORIGIN_S = 1000.0  # workers number the tuples of a rate that never changed from such a time on (EmissionGrid.java)
# Since when (epoch seconds), times the submitted rate, and the seconds of the submitted rate for everything
# due until then: a worker numbers its tuples by it, so that they are the integral of the rate.
RateChange = tuple[float, float, float]
RateKey = tuple[str | None, str | None]  # a topology's name and a source's; None: each
EVERYWHERE: RateKey = (None, None)


@dataclass(frozen=True)
class EmissionRecord:
    """The record of a task. `behind`: tuples due and not emitted at `t` (epoch seconds), the oldest late by
    `behind_ms`."""

    t: float
    behind: int
    behind_ms: float


@dataclass
class EmissionRecords:
    """The newest record of each spout task of one topology, wherever the task ran."""

    _newest: dict[int, EmissionRecord] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        """Record a worker line; one without `behind` changes nothing, nor does a row in which it is null."""
        spouts = line.get("spouts") or {}
        if "behind" not in spouts:
            return
        for task, behind, behind_ms in zip(*(spouts[k] for k in ("task", "behind", "behind_ms")), strict=True):
            record = self._newest.get(int(task))
            if behind is not None and (record is None or record.t < float(line["t"])):
                self._newest[int(task)] = EmissionRecord(float(line["t"]), int(behind), float(behind_ms or 0.0))

    def begin(self, tasks: Iterable[int], t: float) -> None:
        """Record that these tasks had no due tuples before `t`, unless they have a record."""
        for task in tasks:
            self._newest.setdefault(task, EmissionRecord(t, 0, 0.0))

    def oldest_s(self) -> float | None:
        """Return the due time of the oldest tuple that any task may still emit (epoch seconds); None without tasks."""
        return min((record.t - record.behind_ms / 1000 for record in self._newest.values()), default=None)

    def times_s(self) -> set[float]:
        """Return the time of each task's record (epoch seconds)."""
        return {record.t for record in self._newest.values()}

    def json(self) -> dict[str, Any]:
        """Return the records by task, as in the answer to a worker that begins."""
        return {str(task): {"t": record.t, "behind": record.behind} for task, record in self._newest.items()}


def rates_since(rates: Sequence[RateChange], t: float) -> list[RateChange]:
    """Return the changes of the rate that matter from `t` on: the one in force then, and later ones."""
    number = sum(1 for since_s, *_ in rates if since_s <= t)
    return list(rates[max(0, number - 1) :])


def coarser(changes: Sequence[RateChange], now: float, times_s: Collection[float]) -> list[RateChange]:
    """Return numbered changes, oldest first, with those before the newest FINE_S in steps of up to COARSE of their age:
    the amount due until each remaining one, and until each of `times_s`, stays the same; between them the rate is the
    mean. So the number of later due tuples is right, and their due times differ little compared with their lateness."""
    old_s = {t for t in times_s if t < now - FINE_S}
    every = sorted({*changes, *_changes_at(changes, old_s)})
    steps, begin = [], 0
    for place in range(1, len(every)):
        until_s = every[place + 1][0] if place + 1 < len(every) else now
        may_grow = until_s < now - FINE_S and until_s - every[begin][0] <= COARSE * (now - until_s)
        if not may_grow or every[place][0] in old_s:
            steps.append(every[begin] if place == begin + 1 else _mean(every[begin], every[place]))
            begin = place
    return [*steps, every[-1]]


def _mean(change: RateChange, following: RateChange) -> RateChange:
    """Return the mean rate within workers' bounds: it may exceed them by rounding, or where a rate is 0 for a while."""
    mean = (following[2] - change[2]) / (following[0] - change[0])
    return change[0], min(MOST_FACTOR, max(LEAST_FACTOR, mean)) if mean else 0.0, change[2]


def _changes_at(changes: Sequence[RateChange], times_s: Collection[float]) -> list[RateChange]:
    """Return the rate in force at each of these times, as a change that begins then."""
    return [
        (time_s, factor, seconds + factor * (time_s - t))
        for (t, factor, seconds), (until_s, *_) in pairwise(changes)
        for time_s in times_s
        if t < time_s < until_s
    ]


@dataclass
class RateTimeline:
    """Changes of one rate, oldest first, including future ones; `since_s`: when the course that it follows began."""

    since_s: float
    changes: list[RateChange]

    def follow(self, since_s: float, changes: Sequence[tuple[float, float]]) -> None:
        """Take changes of a course, replacing known ones from the first of them on, unless the course is older."""
        if since_s < self.since_s:
            return
        result = [change for change in self.changes if change[0] < changes[0][0]]
        for t, factor in changes:
            before_s, factor_before, seconds = result[-1] if result else (t, 0.0, self.changes[0][2])
            result.append((t, factor, seconds + factor_before * (t - before_s)))
        self.since_s, self.changes = since_s, result


@dataclass
class InputRates:
    """The rates of all sources of a run: for each one the newest course that covers it counts."""

    begin_s: float
    is_timed: bool = False  # workers get changes with their times, and number tuples by them
    _timelines: dict[RateKey, RateTimeline] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._timelines[EVERYWHERE] = RateTimeline(0.0, [(self.begin_s, 1.0, self.begin_s % ORIGIN_S)])

    def follow(self, key: RateKey, since_s: float, changes: Sequence[tuple[float, float]]) -> None:
        """Take changes, at least one, of a course that began at `since_s` for these sources; more may come later."""
        for other in list(self._timelines):
            both = overlap(key, other)
            if both is not None and both not in self._timelines:
                ruling = self._ruling(both)
                self._timelines[both] = RateTimeline(ruling.since_s, list(ruling.changes))
        for each, timeline in self._timelines.items():
            if overlap(key, each) == each:
                timeline.follow(since_s, changes)

    def change(self, t: float, factor: float) -> None:
        """Change the rate of all sources from then on, regardless of their courses."""
        since_s = max(t, *(timeline.since_s for timeline in self._timelines.values()))
        self.follow(EVERYWHERE, since_s, [(t, factor)])

    def take(self, body: Mapping[str, Any], now: float) -> None:
        """Take a call of `/input_rate` that was accepted."""
        if "changes" not in body:
            self.change(now, float(body["factor"]))
            return
        changes = [(float(t), float(factor)) for t, factor in body["changes"]]
        self.follow((body.get("topology"), body.get("source")), float(body["since"]), changes)

    def of(self, topology: str | None) -> list[RateChange]:
        """Return the changes of a topology's sources without a course of their own."""
        return self._ruling((topology, None)).changes

    def by_source(self, topology: str | None) -> dict[str, list[RateChange]]:
        """Return the changes of its sources with one."""
        names = {source for name, source in self._timelines if source is not None and name in (None, topology)}
        return {source: self._ruling((topology, source)).changes for source in sorted(names)}

    def factor(self, key: RateKey, t: float) -> float:
        """Return the factor in force at `t` for sources of that key."""
        return rates_since(self._ruling(key).changes, t)[0][1]

    def due_seconds(self, key: RateKey, from_s: float, until_s: float) -> float:
        """Return how long the submitted rate takes for the tuples due in between, from sources of that key."""
        changes = self._ruling(key).changes
        pairs = ((t, rates_since(changes, t)[0]) for t in (from_s, until_s))
        begin, end = (seconds + factor * (t - since_s) for t, (since_s, factor, seconds) in pairs)
        return end - begin

    def keys_in(self, key: RateKey) -> list[RateKey]:
        """Return that key, and those of its sources that may have another rate; the wider ones first."""
        keys = {both for other in self._timelines if (both := overlap(key, other)) is not None}
        return sorted(keys, key=lambda each: (width(each), each[0] or "", each[1] or ""), reverse=True)

    def prune(self, t: float, now: float | None = None, times_s: Collection[float] = ()) -> None:
        """Forget changes without effect at `t`. Keep the old part of a long course in coarse steps, which number the
        tuples due until these times as before."""
        for timeline in self._timelines.values():
            timeline.changes = rates_since(timeline.changes, t)
            if now is not None and self.is_timed and len(timeline.changes) > MOST_KEPT:
                timeline.changes = coarser(timeline.changes, now, times_s)

    def json(self, topology: str | None, t: float | None = None) -> dict[str, Any]:
        """Return the rates as in the answer to a worker; `t`: from then on, by default as far back as is known."""
        timelines = [self.of(topology), *(by_source := self.by_source(topology)).values()]
        every, *rest = timelines if t is None else [rates_since(changes, t) for changes in timelines]
        if not self.is_timed:
            return {"input_rates": [change[:2] for change in every]}
        return {"input_rates": every} | ({"source_rates": dict(zip(by_source, rest, strict=True))} if by_source else {})

    def _ruling(self, key: RateKey) -> RateTimeline:
        """Return the timeline that sources of that key follow: the narrowest, which has followed all wider courses
        too."""
        covering = [each for each in self._timelines if overlap(each, key) == key]
        return self._timelines[min(covering, key=width)]


def width(key: RateKey) -> int:
    """Return the number of names that it leaves open."""
    return sum(name is None for name in key)


def overlap(a: RateKey, b: RateKey) -> RateKey | None:
    """Return the sources that both mean; None without common ones."""
    if any(None not in pair and pair[0] != pair[1] for pair in zip(a, b, strict=True)):
        return None
    return a[0] or b[0], a[1] or b[1]


def is_factor(value: Any) -> TypeGuard[float]:
    return not isinstance(value, bool) and isinstance(value, int | float) and LEAST_FACTOR <= value <= MOST_FACTOR


def wrong_changes(body: Mapping[str, Any], now: float) -> str:
    """Return what is wrong with changes that the harness sends ahead, and what is allowed; empty if they are right."""
    changes, since_s = body["changes"], body.get("since")
    if not isinstance(changes, list) or not 1 <= len(changes) <= MOST_CHANGES:
        number = f"has {len(changes)}" if isinstance(changes, list) else f"is {changes!r}"
        return f"changes {number}; allowed are 1 to {MOST_CHANGES} pairs of a time and a factor"
    for place, change in enumerate(changes):
        t, factor = change if isinstance(change, list) and len(change) == 2 else (None, None)
        if isinstance(t, bool) or not isinstance(t, int | float) or not now - MOST_LATE_S <= t <= now + MOST_AHEAD_S:
            return (
                f"changes.{place} is {change!r} at {now:.3f}; allowed are times (epoch seconds) from {MOST_LATE_S:g} s"
                f" ago to {MOST_AHEAD_S:g} s ahead, each with a factor"
            )
        if (factor != 0 and not is_factor(factor)) or isinstance(factor, bool):
            return (
                f"the factor of changes.{place} is {factor!r}; allowed is 0, or {LEAST_FACTOR:g} to {MOST_FACTOR:g},"
                " times the submitted rate"
            )
        if place and t <= changes[place - 1][0]:
            return f"changes.{place} is at {t}, not after the one before; allowed are times that ascend"
    if isinstance(since_s, bool) or not isinstance(since_s, int | float) or not since_s <= changes[0][0]:
        return f"since is {since_s!r}; allowed is when the course began, not after its first change"
    for name in ("topology", "source"):
        if body.get(name) is not None and not (isinstance(body[name], str) and body[name]):
            return f"{name} is {body[name]!r}; allowed is a name, or nothing for each of them"
    return ""
