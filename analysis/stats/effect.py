"""Effects from runs: a number with its interval, and one judge that compares it with a region. Pure.

    PairedEffect   ratios or differences of the two runs of a block, or one side's numbers: Student's interval
    MeanRatio      a ratio of means of which one may be 0: Fieller's interval
    TimeRatio      a ratio of times of which some are only horizons: the exact log-rank test
    Failures       shares of runs that failed (shares.py): Clopper and Pearson's interval, Fisher's test

A claim compares its number with its region, a comparison with 0 and with ± its goal; if measurement may have falsified
a number, the least favourable possible value counts. Ratios are in percent: 100 x (b / a - 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import product
from math import inf, isfinite
from statistics import fmean, median
from typing import Protocol

import numpy as np

from analysis.stats import paired_differences, survival
from analysis.stats.paired_differences import CONFIDENCE, MINIMUM_BLOCKS, MeanDifference, in_units, on_axis
from analysis.stats.survival import Times

LEVEL = 1.0 - CONFIDENCE
Ends = tuple[float, float]
BlockValues = tuple[float, float]  # a's and b's
MOST_ENUMERATED = 10  # blocks: so many have 1,024 choices


@dataclass(frozen=True)
class Interval:
    """The region in which a number has to lie; infinite if one side is open."""

    low: float
    high: float


ZERO = Interval(0.0, 0.0)


class Effect(Protocol):
    """An effect. `blocks`: runs of each side that it rests on. p-values belong to the two-sided interval:
    `p_inside(region)` is below 0.05 exactly if the whole 95 % interval lies in the region, `p_outside` if none of it
    does.
    """

    @property
    def point(self) -> float | None: ...

    @property
    def blocks(self) -> int: ...

    @property
    def floor(self) -> float | None: ...

    def interval(self) -> Ends: ...

    def p_inside(self, region: Interval) -> float: ...

    def p_outside(self, region: Interval) -> float: ...


class Place(Enum):
    """The place of a number: the whole interval in the region, none of it, or undecided."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    OPEN = "open"


@dataclass(frozen=True)
class PlaceTest:
    """The place of a number, and the p of an error in that."""

    place: Place
    p: float


def judge(effect: Effect, region: Interval) -> PlaceTest:
    return judge_p(effect.p_inside(region), effect.p_outside(region))


def judge_p(p_inside: float, p_outside: float) -> PlaceTest:
    if p_inside < LEVEL:
        return PlaceTest(Place.INSIDE, p_inside)
    return PlaceTest(Place.OUTSIDE, p_outside) if p_outside < LEVEL else PlaceTest(Place.OPEN, min(p_inside, p_outside))


# --- Student's, over blocks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedEffect:
    """An effect over blocks. `extremes`: the estimates with each block's difference as low or as high as its
    measurement allows. `floor`: by how much the same code differs from itself here, in the effect's unit; None if
    unknown."""

    estimate: MeanDifference
    extremes: tuple[MeanDifference, ...] = ()
    floor: float | None = None

    @cached_property
    def every(self) -> tuple[MeanDifference, ...]:
        return self.estimate, *self.extremes

    @property
    def point(self) -> float:
        return in_units(self.estimate, self.estimate.mean)

    @property
    def sizes(self) -> list[float]:
        """Return the size of the effect, and its possible sizes."""
        return [abs(in_units(each, each.mean)) for each in self.every]

    @property
    def blocks(self) -> int:
        return self.estimate.blocks

    @property
    def deviation(self) -> float:
        return max(each.deviation for each in self.every)

    def interval(self, confidence: float = CONFIDENCE) -> Ends:
        halves = [float(paired_differences.half_width(each.error, each.blocks, confidence)) for each in self.every]
        ends = [(each.mean - half, each.mean + half) for each, half in zip(self.every, halves, strict=True)]
        return in_units(self.estimate, min(ends)[0]), in_units(self.estimate, max(high for _, high in ends))

    def p_inside(self, region: Interval) -> float:
        low, high = self._on_axis(region)
        return max(
            max(_p(each, each.mean - low), _p(each, high - each.mean)) if low < each.mean < high else 1.0
            for each in self.every
        )

    def p_outside(self, region: Interval) -> float:
        """Return the p of a number outside; 1 also if it may lie on either side of the region."""
        low, high = self._on_axis(region)
        distances = [(low - each.mean, each.mean - high) for each in self.every]
        if not (all(low_gap > 0.0 for low_gap, _ in distances) or all(high_gap > 0.0 for _, high_gap in distances)):
            return 1.0
        return max(_p(each, max(gaps)) for each, gaps in zip(self.every, distances, strict=True))

    def room(self, region: Interval) -> float:
        """Return how far from 0 the number may be while surely in the region, on the axis, for any measurement
        error."""
        low, high = self._on_axis(region)
        shifts = [each.mean - self.estimate.mean for each in self.every]
        return min(high - max(shifts), min(shifts) - low)

    def blocks_to_decide(self, region: Interval) -> int | None:
        """Return about how many blocks would decide, if further runs scatter as before around the same number."""
        (low, high), mean = self._on_axis(region), self.estimate.mean
        room = max(min(mean - low, high - mean), low - mean, mean - high)
        return paired_differences.blocks_needed(self.estimate.deviation, room, LEVEL)

    def no_narrower(self, floor: float) -> PairedEffect:
        """Return the effect with an error of at least what a floor on the axis implies: neighbouring runs of one side
        reveal a deviation that is small by luck."""
        least_error = floor / paired_differences.student_bound(LEVEL, self.blocks - 1)
        estimate = replace(self.estimate, error=max(self.estimate.error, least_error))
        return replace(self, estimate=estimate, floor=in_units(self.estimate, floor))

    def _on_axis(self, region: Interval) -> Ends:
        ends = []
        for end in (region.low, region.high):
            is_unreachable = self.estimate.logarithmic and end <= -100.0
            ends.append(-inf if is_unreachable else on_axis(self.estimate, end) if isfinite(end) else end)
        return ends[0], ends[1]


def _p(estimate: MeanDifference, distance: float) -> float:
    """Return the two-sided p that the true number is as far away; 0 for an infinite distance."""
    if distance == inf:
        return 0.0
    return float(paired_differences.p_value(distance, estimate.error, estimate.blocks))


def paired(a: Sequence[float], b: Sequence[float], logarithmic: bool, quantum: float = 0.0,
           ranges: Sequence[tuple[BlockValues, BlockValues]] = ()) -> PairedEffect:  # fmt: skip
    """Return b against a, block by block. `quantum`: the step in which both are measured. `ranges`: for each block the
    values of a and b that minimise their difference, and those that maximise it; empty if they are certain."""
    every = (_estimate(pairs, logarithmic, quantum) for pairs in _choices(ranges, logarithmic))
    return PairedEffect(
        _estimate(list(zip(a, b, strict=True)), logarithmic, quantum), tuple(dict.fromkeys(every)) if ranges else ()
    )


def _estimate(pairs: Sequence[BlockValues], logarithmic: bool, quantum: float) -> MeanDifference:
    if len(pairs) == 1:
        ((a, b),) = pairs
        return MeanDifference(float(np.log(b / a)) if logarithmic else b - a, 0.0, 1, logarithmic)
    return paired_differences.estimate([a for a, _ in pairs], [b for _, b in pairs], logarithmic, quantum)


def _choices(ranges: Sequence[tuple[BlockValues, BlockValues]], logarithmic: bool) -> Iterator[tuple[BlockValues, ...]]:
    """Yield every choice of one pair a block. The least favourable p-value and ends of the interval are among them: the
    mean is linear in the differences and its error convex. For many blocks only those that spread the differences most,
    the lower ones low and the others high: the same p-value and ends if all ranges are equally wide, and nearly so if
    they are not."""
    if not ranges:
        return
    if len(ranges) <= MOST_ENUMERATED:
        yield from product(*ranges)
        return

    def middle(block: int) -> float:
        return sum(_estimate([pair], logarithmic, 0.0).mean for pair in ranges[block])

    order = sorted(range(len(ranges)), key=middle)
    for count in range(len(order) + 1):
        low = set(order[:count])
        yield tuple(choice[block not in low] for block, choice in enumerate(ranges))


def with_floor(effect: PairedEffect, a: Sequence[float], b: Sequence[float], quantum: float, level: float,
               on_record: Sequence[float] = (), least: float = 0.0) -> tuple[PairedEffect, bool]:  # fmt: skip
    """Return the effect with the A/A floor of its own runs and of differences on record, on the side of b (−33 % is as
    far as +50 %), and at least `least`; and whether that floor is the one on record."""
    estimate = effect.estimate
    neighbour_floor = _neighbour_floor(a, b, estimate.logarithmic, quantum, level)
    record = paired_differences.record_floor(on_record, len(a), level)
    bound = float(np.copysign(max(neighbour_floor, record or 0.0), estimate.mean))
    floor = max(abs(in_units(estimate, bound)), least)
    return replace(effect, floor=floor), record is not None and record > neighbour_floor


def _neighbour_floor(
    a: Sequence[float], b: Sequence[float], logarithmic: bool, quantum: float, level: float, series: Sequence[int] = ()
) -> float:
    first, second = (np.asarray(side, dtype=np.float64) for side in (a, b))
    step = paired_differences.relative_step(first, second, quantum) if logarithmic else quantum
    if logarithmic:
        first, second = np.log(first), np.log(second)
    return float(paired_differences.neighbour_floor(first, second, level, step, series))


def paired_ratio(
    variant: Sequence[float], baseline: Sequence[float], quantum: float = 0.0, series: Sequence[int] = ()
) -> PairedEffect | None:
    """Return 100 x (variant / baseline - 1), block by block, no narrower than its A/A floor; all values above 0. None
    with fewer than three blocks. `series`: numbers of blocks if they come from several series."""
    if len(variant) < MINIMUM_BLOCKS:
        return None
    effect = paired(baseline, variant, logarithmic=True, quantum=quantum)
    if not _show_noise(series):
        return effect
    return effect.no_narrower(_neighbour_floor(baseline, variant, True, quantum, LEVEL, series))


def geometric_ratio(variant: Sequence[float], baseline: Sequence[float]) -> float:
    """Return the estimate of `paired_ratio`, for any number of blocks."""
    return 100.0 * float(np.expm1(np.mean(np.log(np.asarray(variant) / np.asarray(baseline)))))


def own_number(values: Sequence[float], series: Sequence[int] = ()) -> PairedEffect | None:
    """Return one variant's own percentage, run by run; None with fewer than three runs. `series`: as in
    `paired_ratio`."""
    if len(values) < MINIMUM_BLOCKS:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    mean, error = paired_differences.mean_and_error(numbers)
    effect = PairedEffect(MeanDifference(float(mean), float(error), len(values), logarithmic=False))
    if not _show_noise(series):
        return effect
    return effect.no_narrower(float(paired_differences.own_floor(numbers, LEVEL, series)))


def _show_noise(series: Sequence[int]) -> bool:
    """Return whether there are at least as many pairs of neighbouring blocks as in a series of the fewest blocks: fewer
    give no floor. If each series has one block there are none, and Student's interval stands alone."""
    return not series or paired_differences.neighbours(series) >= MINIMUM_BLOCKS - 1


# --- Fieller's, of means ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeanRatio:
    """100 x (mean of variant / mean of baseline - 1), values of the same blocks, each in whole steps of `quantum`.

    Fieller's: a ratio r is in the interval if the mean of variant - r x baseline is not surely other than 0. If
    the baseline's mean is not surely above 0, any ratio may be the true one, and nothing is certain.
    """

    variant: tuple[float, ...]
    baseline: tuple[float, ...]
    quantum: float
    floor: float | None = None

    @property
    def point(self) -> float:
        return 100.0 * (float(np.mean(self.variant)) / float(np.mean(self.baseline)) - 1.0)

    @property
    def blocks(self) -> int:
        return len(self.variant)

    def interval(self) -> Ends:
        from scipy.optimize import brentq

        if self._p_of_no_baseline >= LEVEL:
            return -100.0, inf
        ratio = 1.0 + self.point / 100.0
        upper = 2.0 * ratio + 1.0
        while self._p(upper) >= LEVEL:
            upper *= 2.0
        low = 0.0 if self._p(0.0) >= LEVEL else brentq(lambda each: self._p(each) - LEVEL, 0.0, ratio)
        high = brentq(lambda each: self._p(each) - LEVEL, ratio, upper)
        return 100.0 * (low - 1.0), 100.0 * (high - 1.0)

    def p_inside(self, region: Interval) -> float:
        is_above = region.low <= -100.0 or region.low < self.point  # no ratio is lower
        if not (is_above and self.point < region.high):
            return 1.0
        return max(self._p_at(region.low), self._p_at(region.high), self._p_of_no_baseline)

    def p_outside(self, region: Interval) -> float:
        if region.low <= self.point <= region.high:
            return 1.0
        nearer = region.low if self.point < region.low else region.high
        return max(self._p_at(nearer), self._p_of_no_baseline)

    @property
    def _p_of_no_baseline(self) -> float:
        """Return the two-sided p that the baseline's mean is 0."""
        minimum = self.quantum / float(np.sqrt(12.0))
        mean, error = paired_differences.mean_and_error(np.asarray(self.baseline), minimum)
        return float(paired_differences.p_value(float(mean), float(error), self.blocks))

    def _p_at(self, percent: float) -> float:
        """Return the two-sided p that this is the ratio; 0 for an impossible ratio."""
        if percent <= -100.0 or percent == inf:
            return 0.0
        return self._p(1.0 + percent / 100.0)

    def _p(self, ratio: float) -> float:
        contrast = np.asarray(self.variant) - ratio * np.asarray(self.baseline)
        minimum = self.quantum * float(np.sqrt((1.0 + ratio**2) / 12.0))
        mean, error = paired_differences.mean_and_error(contrast, minimum)
        return float(paired_differences.p_value(float(mean), float(error), self.blocks))


def mean_ratio(variant: Sequence[float], baseline: Sequence[float], quantum: float) -> MeanRatio | None:
    """Return None with fewer than three blocks, or if the baseline was always 0: then there is no ratio."""
    if len(variant) < MINIMUM_BLOCKS or max(baseline) <= 0.0:
        return None
    return MeanRatio(tuple(variant), tuple(baseline), quantum)


# --- times of which some are horizons --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeRatio:
    """100 x (variant's time / baseline's - 1), if some runs never got there while they were watched.

    Blocks are not paired: a log-rank test compares two groups (analysis.stats.survival).
    """

    variant: Times
    baseline: Times
    floor: float | None = None

    @property
    def point(self) -> float | None:
        ratio = survival.ratio_interval(self.variant, self.baseline).point
        return None if ratio is None else 100.0 * (ratio - 1.0)

    @property
    def blocks(self) -> int:
        return min(len(self.variant.times), len(self.baseline.times))

    def interval(self) -> Ends:
        ratio = survival.ratio_interval(self.variant, self.baseline, CONFIDENCE)
        return 100.0 * (ratio.low - 1.0), 100.0 * (ratio.high - 1.0)

    def p_inside(self, region: Interval) -> float:
        """Return twice the larger one-sided value, because the interval is two-sided."""
        return min(1.0, 2.0 * max(self._p(region.low, "greater"), self._p(region.high, "less")))

    def p_outside(self, region: Interval) -> float:
        return min(1.0, 2.0 * min(self._p(region.low, "less"), self._p(region.high, "greater")))

    def _p(self, percent: float, side: survival.Side) -> float:
        """Return the one-sided p that the ratio is this one or lies on the other side; 0 or 1 beyond all ratios."""
        if percent <= -100.0 or percent == inf:
            return 0.0 if (percent == inf) == (side == "less") else 1.0
        return survival.ratio_p(self.variant, self.baseline, 1.0 + percent / 100.0, side)


# --- runs of a model, and of a night ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """The summary of a few runs, without an interval: their mean or median, and the range. `value`: None if most of
    them never got there within `largest`. `low`, `high`: the smallest and the largest, None if that is, or may be, a
    run that never got there. `unreached`, `unsteady`: how many of the `runs` never got there, and were not steady."""

    value: float | None
    low: float | None
    largest: float
    runs: int
    unreached: int = 0
    unsteady: int = 0

    @property
    def high(self) -> float | None:
        return None if self.unreached else self.largest

    @property
    def at_least(self) -> float | None:
        """Return a lower bound of the range's end if there is no largest run."""
        return self.largest if self.unreached else None


def summary(values: Sequence[float], censored: Sequence[bool], *, mean: bool, unsteady: int = 0) -> Summary:
    """Return the mean, or for times the median, in which a mere horizon counts as longer (Kaplan and Meier's)."""
    smallest, is_horizon = min(zip(values, censored, strict=True))  # of equal ones the time is the smaller
    if mean:
        middle: float | None = fmean(values)
    else:
        middle = survival.median(values, censored) if any(censored) else median(values)
    return Summary(middle, None if is_horizon else smallest, max(values), len(values), sum(censored), unsteady)
