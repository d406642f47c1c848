"""Steady parts and convergence time of each run around each of its events, from its throughput windows. Pure functions.

Convergence time after a scale request has three definitions that were published or shipped. Each takes the windows from
the scale request on (`starts_s` relative to it, `rates` in tuples/s, equally wide) and the post-scale throughput to
compare with. A series that never satisfies a definition is right-censored at its horizon: `time_s` is then None, and no
mean or median may be taken over horizons as if they were times. Whether our own test calls the series steady does not
matter here: it would censor the variant that drains slowest most often.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.metrics.steadiness import DRAIN_SPAN_S, WINDOW_S, drain_reason, drain_windows, is_steady
from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.small_tables import Unit, by_unit, unit_columns, unit_of

CROSSINGS = 2
SP_DEVIATION = 0.05
AT_MEAN = 0.001
ROUNDING = 1e-11  # of sums of squares
SCRIPT_WINDOWS = 6  # of the window that slides, and of the late one
SCRIPT_DEVIATION = 0.05


@dataclass(frozen=True)
class Windows:
    """Equally wide windows of one run, oldest first, from the scale request (0 s) on; a rate of None: not measured."""

    starts_s: tuple[float, ...]
    rates: tuple[float | None, ...]
    width_s: float = 10.0

    @property
    def horizon_s(self) -> float:
        return self.starts_s[-1] + self.width_s if self.starts_s else 0.0


@dataclass(frozen=True)
class PostScale:
    """Post-scale throughput: mean and standard deviation over the steady part, tuples/s."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Convergence:
    """A result: `time_s` from the scale request, or None if censored at `horizon_s`: it is longer than that."""

    time_s: float | None
    horizon_s: float

    @property
    def censored(self) -> bool:
        return self.time_s is None


def post_scale(rates: Sequence[float]) -> PostScale:
    """Return mean and standard deviation (n - 1) of the steady part."""
    values = np.asarray(rates, dtype=np.float64)
    return PostScale(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0)


def sp(windows: Windows, after: PostScale) -> Convergence:
    """Return SP IV-D: the throughput oscillates twice above and twice below the post-scale mean, within a deviation of
    5 %.

    Read literally, but for a level: the end of the first window at which some stretch of windows up to it has two
    excursions above and two below the mean and a standard deviation of at most 5 % of the mean. A run of neighbours on
    one side is one excursion, so those two and two are three changes of side; a window at the mean (`_is_at_mean`) is
    on either side. No window of the stretch is at zero or was not measured.
    """
    rates, mean = np.nan_to_num(np.asarray(windows.rates, dtype=np.float64)), after.mean
    sums = _PrefixSums.of(rates - mean)
    first, limits = 0, dict[tuple[bool, int], int]()  # by side and changes: the latest begin of a stretch up to here
    for place, rate in enumerate(rates.tolist()):
        if rate <= 0.0:
            first, limits = place + 1, {}
            continue
        sides = (True, False) if _is_at_mean(rate, windows, mean) else (rate > mean,)
        limits = {
            (side, number): max(limits.get((side, number), -1), limits.get((not side, number - 1), -1))
            if number else place
            for side in sides for number in range(2 * CROSSINGS)
        }  # fmt: skip
        limit = max(limits[side, 2 * CROSSINGS - 1] for side in sides)
        if limit >= first and sums.is_narrow(rates, first, limit, place + 1, SP_DEVIATION * mean):
            return Convergence(windows.starts_s[place] + windows.width_s, windows.horizon_s)
    return Convergence(None, windows.horizon_s)


def _is_at_mean(rate: float, windows: Windows, mean: float) -> bool:
    """Return whether a window is at the mean as far as it can be told: within 0.1 % or a tuple of it. A level that only
    rounding moves would else cross it late, or never."""
    return abs(rate - mean) < min(mean, max(AT_MEAN * mean, 1.0 / windows.width_s))


@dataclass(frozen=True)
class _PrefixSums:
    """Prefix sums of a series and its squares: a run of days has ten thousand windows and stretches."""

    values: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    @classmethod
    def of(cls, series: npt.NDArray[np.float64]) -> "_PrefixSums":
        return cls(*(np.concatenate([[0.0], np.cumsum(each)]) for each in (series, series**2)))

    def is_narrow(self, series: npt.NDArray[np.float64], first: int, latest: int, end: int, deviation: float) -> bool:
        """Return whether a stretch from one of `first` to `latest` up to `end` has at most that deviation."""
        begins = np.arange(first, latest + 1)
        number = end - begins
        mean = (self.values[end] - self.values[begins]) / number
        variance = (self.squares[end] - self.squares[begins]) / number - mean**2
        near = begins[variance <= deviation**2 + ROUNDING * self.squares[end]]
        return any(float(series[begin:end].std()) <= deviation for begin in near[::-1].tolist())


def st(windows: Windows, after: PostScale) -> Convergence:
    """Return ST 7.2: two points with M < T < M + sigma and two with M - sigma < T < M since the request; a window at
    the mean (`_is_at_mean`) is a point on either side."""
    highs = lows = either = 0
    for start_s, rate in zip(windows.starts_s, windows.rates, strict=True):
        if rate is None:
            continue
        if _is_at_mean(rate, windows, after.mean):
            either += 1
        else:
            highs += after.mean < rate < after.mean + after.deviation
            lows += after.mean - after.deviation < rate < after.mean
        if max(0, CROSSINGS - highs) + max(0, CROSSINGS - lows) <= either:
            return Convergence(start_s + windows.width_s, windows.horizon_s)
    return Convergence(None, windows.horizon_s)


def script(windows: Windows, _after: PostScale) -> Convergence | None:
    """Return the authors' script: the start of the first 6 windows whose mean is within 5 % of a late window's mean.

    Late are the last 6 windows of the watch, so that it is the same whatever part of it we call steady. (The code that
    Stela's authors published slides six samples, 10 s apart, from the event on and compares them with the mean of a
    window late in the run.) Only windows that end before the late one begins count: one that shares samples with it is
    like it by that alone. The horizon is the start of the last of these; None if the watch is too short for any,
    or one of the late ones was not measured, because then nothing was. At a late mean of 0 nothing converges.
    """
    rates = np.asarray(windows.rates, dtype=np.float64)
    starts = windows.starts_s[: max(0, len(rates) - 2 * SCRIPT_WINDOWS + 1)]
    final_mean = float(rates[-SCRIPT_WINDOWS:].mean()) if starts else nan
    if isnan(final_mean):
        return None
    for place, start_s in enumerate(starts):
        mean = float(rates[place : place + SCRIPT_WINDOWS].mean())
        if final_mean > 0.0 and abs(mean - final_mean) <= SCRIPT_DEVIATION * final_mean:
            return Convergence(start_s, starts[-1])
    return Convergence(None, starts[-1])


DEFINITIONS: dict[str, Callable[[Windows, PostScale], Convergence | None]] = {"sp": sp, "st": st, "script": script}


BEFORE_WINDOWS = 6
LEAST_WINDOWS = round(DRAIN_SPAN_S / WINDOW_S)


@dataclass(frozen=True)
class PhaseWindows:
    """The windows of one topology in one run on one side of an event, as far as the neighbouring events; the first and
    the last were measured, a rate of None between them was not."""

    unit: Unit
    event_id: str
    phase: str
    starts_s: tuple[float, ...]
    rates: tuple[float | None, ...]
    queues: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # component -> tuples waiting


LiveVerdict = tuple[bool | None, str | None]


def phase_windows(
    throughput: Iterable[Mapping[str, Any]],
    queues: Iterable[Mapping[str, Any]] = (),
    unmeasured: Mapping[tuple[Unit, str], Sequence[tuple[float, float]]] = MappingProxyType({}),
) -> list[PhaseWindows]:
    """Return complete windows of the total throughput, before and after, with the tuples waiting at each component.

    `unmeasured`: of (unit, event), from when to when (s after its zero) what it or the event before it had begun was
    not over: windows that begin then belong to neither side.
    """
    waiting: dict[tuple[Unit, str], dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in queues:
        waiting[unit_of(row), row["event_id"]][row["component"]][row["window_s"]] = row["queue"] or 0.0
    split: dict[tuple[Unit, str, str], list[tuple[float, float | None]]] = defaultdict(list)
    for row in throughput:
        if row["scope"] == "total" and row["complete"]:
            spans_s = unmeasured.get((unit_of(row), row["event_id"]), ())
            if any(since_s <= row["window_s"] < until_s for since_s, until_s in spans_s):
                continue
            side = "before" if row["window_s"] < 0 else "after"
            split[unit_of(row), row["event_id"], side].append((row["window_s"], row["rate"]))
    parts = []
    for key, series in sorted(split.items()):
        series.sort()
        measured = [place for place, (_, rate) in enumerate(series) if rate is not None]
        if not measured:
            continue
        (starts_s, rates), of = zip(*series[measured[0] : measured[-1] + 1], strict=True), waiting[key[:2]]
        queued = {name: tuple(of[name].get(start, 0.0) for start in starts_s) for name in sorted(of)}
        parts.append(PhaseWindows(*key, starts_s, rates, queued))
    return parts


def unmeasured_spans(spans: Iterable[Mapping[str, Any]]) -> dict[tuple[Unit, str], list[tuple[float, float]]]:
    """Return the spans that `phase_windows` leaves out, from the events of all runs."""
    found: dict[tuple[Unit, str], list[tuple[float, float]]] = defaultdict(list)
    for events in by_unit(sorted(spans, key=lambda span: float(span["zero_s"]))).values():
        for span, following in zip(events, [*events[1:], None], strict=True):
            ended_s = span["ended_s"]
            for event in (span, following) if ended_s is not None else ():
                if event is not None:
                    zero_s = event["zero_s"]
                    found[unit_of(event), event["event_id"]].append((span["zero_s"] - zero_s, ended_s - zero_s))
    return found


def live_verdicts(
    events: Iterable[Mapping[str, Any]], spans: Iterable[Mapping[str, Any]]
) -> dict[tuple[Unit, str, str], LiveVerdict]:
    """Return the run step's own verdicts of steadiness: (unit, event, phase) -> (verdict, reason); the last one counts.

    Assigned by their time: before an event is after the one before it.
    """
    verdicts = by_unit(sorted((e for e in events if e["kind"] == "steady"), key=lambda event: float(event["t_s"])))
    found: dict[tuple[Unit, str, str], LiveVerdict] = {}
    for span in spans:
        for event in verdicts.get(unit_of(span), []):
            t_s, word = event["t_s"], (event["steady"], event["reason"])
            if t_s <= span["zero_s"] and (span["from_s"] is None or t_s > span["from_s"]):
                found[unit_of(span), span["event_id"], "before"] = word
            elif t_s > span["zero_s"] and (span["until_s"] is None or t_s <= span["until_s"]):
                found[unit_of(span), span["event_id"], "after"] = word
    return found


def interval_rows(
    parts: Iterable[PhaseWindows], live: Mapping[tuple[Unit, str, str], LiveVerdict]
) -> list[dict[str, Any]]:
    """Return the part of each phase that counts: the steady tail; if there is none, a fallback that is flagged.

    Fallback: the end after the ramp. Without one: before, the last 60 s; after, the last half of the watch. From
    either, and from the steady tail, windows are left out in which a component drained (see steadiness) and all before
    them, as far as the last 30 s: those a steady series has without a drain, by the same rule.
    """
    rows = []
    for part in parts:
        verdict, number = is_steady(part.rates, WINDOW_S), len(part.rates)
        drain = drain_reason(part.queues, part.rates, WINDOW_S) if verdict.steady else None
        first = max(0, number - BEFORE_WINDOWS) if part.phase == "before" else number // 2
        if verdict.since_s is not None:
            first = round(verdict.since_s / WINDOW_S)
        reason = drain or verdict.reason
        if fed := {index: why for index, why in drain_windows(part.queues, part.rates).items() if index >= first}:
            first = max(first, min(max(fed) + 1, number - LEAST_WINDOWS))
            reason = f"{reason}; windows left out: {fed[max(fed)]}"
        counted = [rate for rate in part.rates[first:] if rate is not None]
        level = post_scale(counted)
        live_steady, live_reason = live.get((part.unit, part.event_id, part.phase), (None, None))
        rows.append({
            **unit_columns(part.unit), "event_id": part.event_id, "phase": part.phase, "start_s": part.starts_s[first],
            "end_s": part.starts_s[-1] + WINDOW_S, "mean": level.mean, "deviation": level.deviation,
            "windows": len(counted), "steady": verdict.steady and drain is None, "reason": reason,
            "live_steady": live_steady, "live_reason": live_reason,
        })  # fmt: skip
    return rows


def convergence_rows(parts: Iterable[PhaseWindows], intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return convergence time after every event in all definitions, against the part that counts, steady or its
    substitute (the measurement says which). `script` has its own late window, and no row if the watch is too short for
    it."""
    after = {(unit_of(row), row["event_id"]): row for row in intervals if row["phase"] == "after"}
    rows = []
    for part in parts:
        if part.phase == "after" and part.event_id != WHOLE_RUN:
            interval = after[part.unit, part.event_id]
            windows = Windows(part.starts_s, part.rates, WINDOW_S)
            for name, definition in DEFINITIONS.items():
                time = definition(windows, PostScale(interval["mean"], interval["deviation"]))
                if time is not None:
                    rows.append({
                        **unit_columns(part.unit), "event_id": part.event_id, "definition": name, "time_s": time.time_s,
                        "censored": time.censored, "horizon_s": time.horizon_s,
                    })  # fmt: skip
    return rows
