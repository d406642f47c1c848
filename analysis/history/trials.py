"""Series with known truth, judged night by night as each night would have been judged then. Seeded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

from analysis.history import invented
from analysis.history.changes import change_points
from analysis.history.night import Night, parse
from analysis.history.regressions import Finding, Kind, Status, judge
from analysis.history.series import Key, Point, Series
from analysis.history.settings import Rule, Settings

KEY = Key("bench/series", "stela", "throughput_after", "e1", "type_1")
BEFORE = 60  # nights before a step
PATIENCE = 40  # nights after which a step counts as not found
SPIKE = 30.0  # percent
DRIFT = 0.1  # percent a night
Noise = Callable[[np.random.Generator, int, float], invented.Values]


@dataclass(frozen=True)
class Seen:
    """What was said of a series in one night."""

    night: int
    findings: tuple[Finding, ...]

    def confirmed(self) -> Iterator[Finding]:
        return (one for one in self.findings if one.status is Status.CONFIRMED)


@cache
def _nights(number: int) -> tuple[Night, ...]:
    records = (invented.night(i, "bench", []) | {"sequence": i + 1} for i in range(number))
    return tuple(parse(json.dumps(record), "bench") for record in records)


def by_night(values: Sequence[float], rules: Sequence[Rule], first: int, last: int) -> Iterator[tuple[Seen, ...]]:
    """Night after night, what each rule says then. Rules must differ in what comes after Otava only."""
    nights = _nights(len(values))
    for tonight in range(first, last):
        known, of = list(values[: tonight + 1]), nights[: tonight + 1]
        found = change_points(known, rules[0])
        series = Series(KEY, tuple(Point(value, value, value, 1) for value in known))
        yield tuple(Seen(tonight, judge(series, of, found, Settings(rule=rule))) for rule in rules)


def alarms(values: Sequence[float], rules: Sequence[Rule]) -> list[int]:
    """Times that each rule told of a confirmed change, a change once however often its border moved."""
    told: list[list[Finding]] = [[] for _ in rules]
    for seen in by_night(values, rules, 10, len(values)):
        for mine, said in zip(told, seen, strict=True):
            for one in said.confirmed():
                if not any(one.kind is other.kind and abs(one.since - other.since) <= 5 for other in mine):
                    mine.append(one)
    return [sum(one.kind is Kind.REGRESSION for one in mine) for mine in told]


def false_alarms(
    rules: Sequence[Rule], make: Noise, percent: float, series: int, nights: int, seed: int
) -> list[float]:
    """Regressions told in `series` x `nights` of nothing, by rule, for 200 series."""
    rng = np.random.default_rng(seed)
    found = [alarms(list(make(rng, nights, percent)), rules) for _ in range(series)]
    return [sum(one) * 200 / series for one in zip(*found, strict=True)]


@dataclass(frozen=True)
class Found:
    """Of injected steps: the share found, nights from the first bad one (1: that night), the share of commit ranges
    that hold the true night, and how many nights a range has.
    """

    share: float
    median_nights: float | None
    slow_nights: float | None
    suspected_median: float | None
    in_range: float | None
    range_nights: float | None


def found_steps(rule: Rule, percent: float, step: float, series: int, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    after: list[int] = []
    suspected: list[int] = []
    truth: list[bool] = []
    widths: list[int] = []
    for _ in range(series):
        values = invented.noise(rng, BEFORE + PATIENCE, percent)
        values[BEFORE:] *= 1 - step / 100
        hit = _first(list(values), rule, suspected)
        if hit is not None:
            after.append(hit.night - BEFORE + 1)
            (one, *_) = hit.confirmed()
            truth.append(one.good < BEFORE <= one.bad)
            widths.append(one.bad - one.good)
    if not after:
        return Found(0.0, None, None, None, None, None)
    return Found(
        100 * len(after) / series, median(after), float(np.percentile(after, 90)),
        median(suspected) if suspected else None, 100 * sum(truth) / len(truth),
        sum(widths) / len(widths),
    )  # fmt: skip


def _first(values: Sequence[float], rule: Rule, suspected: list[int]) -> Seen | None:
    """The first night after the step that confirms a regression near it; notes when it was first suspected."""
    noted = False
    for (seen,) in by_night(values, [rule], BEFORE, len(values)):
        near = [one for one in seen.findings if one.kind is Kind.REGRESSION and abs(one.since - BEFORE) <= 5]
        if near and not noted:
            suspected.append(seen.night - BEFORE + 1)
            noted = True
        if any(one.status is Status.CONFIRMED for one in near):
            return Seen(seen.night, tuple(near))
    return None


def spikes_that_alarm(rule: Rule, percent: float, series: int, seed: int) -> tuple[int, int]:
    """Of single nights that are 30 % worse: how many were confirmed within ten nights, how many suspected at once."""
    rng = np.random.default_rng(seed)
    wrong = suspected = 0
    for _ in range(series):
        values = invented.noise(rng, BEFORE + 12, percent)
        values[BEFORE] *= 1 - SPIKE / 100
        said = [seen for (seen,) in by_night(list(values), [rule], BEFORE, len(values))]
        suspected += any(one.since == BEFORE for one in said[0].findings)
        wrong += any(abs(one.since - BEFORE) <= 3 for seen in said for one in seen.confirmed())
    return wrong, suspected


def drift_until_told(rule: Rule, percent: float, series: int, seed: int) -> tuple[float, float | None]:
    """Of drifts that lose 0.1 % a night: the share told within 150 nights, and how much was lost by then (median)."""
    rng = np.random.default_rng(seed)
    lost = []
    for _ in range(series):
        values = invented.noise(rng, BEFORE + 150, percent)
        values[BEFORE:] *= 1 - DRIFT / 100 * np.arange(1, 151)
        for (seen,) in by_night(list(values), [rule], BEFORE, len(values)):
            if any(one.kind is Kind.REGRESSION and one.since >= BEFORE for one in seen.confirmed()):
                lost.append((seen.night - BEFORE + 1) * DRIFT)
                break
    return 100 * len(lost) / series, median(lost) if lost else None
