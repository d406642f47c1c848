"""What runs say of a claim's number: a point, an interval, and how sure it is that the number lies in a region, or out
of it (docs/decisions/claims.md). All in percent. Pure.

Three ways, by what was measured. Ratios of what is above 0, and gains: Student's interval over blocks,
no narrower than the A/A floor of its own runs. Ratios of times of which one side's may be 0: Fieller's, of the means of
the same blocks. Times of which some are only known to be longer than a horizon: the exact log-rank test.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

import numpy as np

from analysis.claims.statements import Region
from analysis.stats import paired_differences, same_code_floors, survival
from analysis.stats.paired_differences import CONFIDENCE, MINIMUM_BLOCKS, Estimate

LEVEL = 1.0 - CONFIDENCE


class Estimated(Protocol):
    """`blocks`: runs of each side that it rests on. p-values are of the two-sided interval: `p_inside(region)` is below
    0.05 exactly where the whole 95 % interval lies in the region, `p_outside` where none of it does.
    """

    @property
    def point(self) -> float | None: ...

    @property
    def blocks(self) -> int: ...

    @property
    def floor(self) -> float | None: ...

    def interval(self) -> tuple[float, float]: ...

    def p_inside(self, region: Region) -> float: ...

    def p_outside(self, region: Region) -> float: ...


# --- Student's, over blocks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudentEstimate:
    """`estimate.error` is at least what the A/A floor makes it; `floor` is in percent, on the upper side."""

    estimate: Estimate
    floor: float | None

    @property
    def point(self) -> float:
        return paired_differences.in_units(self.estimate, self.estimate.mean)

    @property
    def blocks(self) -> int:
        return self.estimate.blocks

    def interval(self) -> tuple[float, float]:
        half = float(paired_differences.half_width(self.estimate.error, self.blocks))
        low, high = self.estimate.mean - half, self.estimate.mean + half
        return paired_differences.in_units(self.estimate, low), paired_differences.in_units(self.estimate, high)

    def p_inside(self, region: Region) -> float:
        mean, low, high = self.estimate.mean, self._on_axis(region.low), self._on_axis(region.high)
        return max(self._p(mean - low), self._p(high - mean)) if low < mean < high else 1.0

    def p_outside(self, region: Region) -> float:
        away = self._distance(region)
        return self._p(away) if away > 0.0 else 1.0

    def blocks_to_decide(self, region: Region) -> int | None:
        """About: if runs go on to scatter as they did around the same number."""
        mean, low, high = self.estimate.mean, self._on_axis(region.low), self._on_axis(region.high)
        room = max(min(mean - low, high - mean), self._distance(region))
        return paired_differences.blocks_needed(self.estimate.deviation, room, LEVEL)

    def _distance(self, region: Region) -> float:
        """Of the number from the region; negative inside."""
        mean = self.estimate.mean
        return max(self._on_axis(region.low) - mean, mean - self._on_axis(region.high))

    def _on_axis(self, percent: float) -> float:
        if not np.isfinite(percent):
            return percent
        if self.estimate.logarithmic and percent <= -100.0:
            return -inf
        return paired_differences.on_axis(self.estimate, percent)

    def _p(self, distance: float) -> float:
        """Two-sided, that the true number is as far away as `distance`; 0 of an infinite one."""
        if distance == inf:
            return 0.0
        return float(paired_differences.p_value(distance, self.estimate.error, self.blocks))


def paired_ratio(
    variant: Sequence[float], baseline: Sequence[float], quantum: float = 0.0, series: Sequence[int] = ()
) -> StudentEstimate | None:
    """100 x (variant / baseline - 1), block by block; all values above 0. None: fewer than three blocks. `series`: how
    many blocks each has, where they are of several."""
    if len(variant) < MINIMUM_BLOCKS:
        return None
    found = paired_differences.estimate(baseline, variant, logarithmic=True, quantum=quantum)
    if not _show_noise(series):
        return StudentEstimate(found, None)
    below, above = (np.asarray(side, dtype=np.float64) for side in (baseline, variant))
    step = paired_differences.relative_step(below, above, quantum)
    floor = same_code_floors.neighbour_floor(np.log(below), np.log(above), LEVEL, step, series)
    return _no_narrower(found, float(floor))


def geometric_ratio(variant: Sequence[float], baseline: Sequence[float]) -> float:
    """What `paired_ratio` estimates, of any number of blocks."""
    return 100.0 * float(np.expm1(np.mean(np.log(np.asarray(variant) / np.asarray(baseline)))))


def own_number(values: Sequence[float], series: Sequence[int] = ()) -> StudentEstimate | None:
    """Of one variant's own percentage, run by run. None: fewer than three runs. `series`: as of `paired_ratio`."""
    if len(values) < MINIMUM_BLOCKS:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    mean, error = paired_differences.mean_and_error(numbers)
    found = Estimate(float(mean), float(error), len(values), logarithmic=False)
    if not _show_noise(series):
        return StudentEstimate(found, None)
    return _no_narrower(found, float(same_code_floors.own_floor(numbers, LEVEL, series)))


def _show_noise(series: Sequence[int]) -> bool:
    """Whether there are as many pairs of neighbouring blocks as the fewest blocks of one series have: fewer make no
    floor. Where each series has one block there are none, and Student's interval stands alone."""
    return not series or same_code_floors.neighbours(series) >= MINIMUM_BLOCKS - 1


def _no_narrower(found: Estimate, floor: float) -> StudentEstimate:
    """A deviation that is small by luck is seen by neighbouring runs of one side."""
    least = floor / same_code_floors.student_bound(LEVEL, found.blocks - 1)
    return StudentEstimate(replace(found, error=max(found.error, least)), paired_differences.in_units(found, floor))


# --- Fieller's, of means ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeanRatio:
    """100 x (mean of variant / mean of baseline - 1), values of the same blocks, each in whole steps of `quantum`.

    Fieller's: a ratio r is in the interval where the mean of variant - r x baseline is not surely other than 0. Where
    the baseline's mean is not surely above 0, any ratio may be the true one, and nothing is sure.
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

    def interval(self) -> tuple[float, float]:
        if self._p_of_no_baseline >= LEVEL:
            return -100.0, inf
        ratio = 1.0 + self.point / 100.0
        return 100.0 * (self._end(ratio, 0.0) - 1.0), 100.0 * (self._end(ratio, inf) - 1.0)

    def p_inside(self, region: Region) -> float:
        above = region.low <= -100.0 or region.low < self.point  # no ratio lies lower
        if not (above and self.point < region.high):
            return 1.0
        return max(self._p_at(region.low), self._p_at(region.high), self._p_of_no_baseline)

    def p_outside(self, region: Region) -> float:
        if region.low <= self.point <= region.high:
            return 1.0
        nearer = region.low if self.point < region.low else region.high
        return max(self._p_at(nearer), self._p_of_no_baseline)

    @property
    def _p_of_no_baseline(self) -> float:
        """Two-sided, that the baseline's mean is 0."""
        least = self.quantum / float(np.sqrt(12.0))
        mean, error = paired_differences.mean_and_error(np.asarray(self.baseline), least)
        return float(paired_differences.p_value(float(mean), float(error), self.blocks))

    def _p_at(self, percent: float) -> float:
        """Two-sided, that this is the ratio; 0 of what no ratio can be."""
        if percent <= -100.0 or percent == inf:
            return 0.0
        return self._p(1.0 + percent / 100.0)

    def _p(self, ratio: float) -> float:
        contrast = np.asarray(self.variant) - ratio * np.asarray(self.baseline)
        least = self.quantum * float(np.sqrt((1.0 + ratio**2) / 12.0))
        mean, error = paired_differences.mean_and_error(contrast, least)
        return float(paired_differences.p_value(float(mean), float(error), self.blocks))

    def _end(self, ratio: float, limit: float) -> float:
        """Where the interval ends on the way from the ratio to its limit: 0, or none at all."""
        inside, outside = ratio, 0.0
        if limit == inf:
            outside = 2.0 * ratio + 1.0
            while self._p(outside) >= LEVEL:
                outside *= 2.0
        elif self._p(outside) >= LEVEL:
            return 0.0
        for _ in range(60):
            middle = (inside + outside) / 2.0
            inside, outside = (middle, outside) if self._p(middle) >= LEVEL else (inside, middle)
        return inside


def mean_ratio(variant: Sequence[float], baseline: Sequence[float], quantum: float) -> MeanRatio | None:
    """None: fewer than three blocks, or a baseline that was at 0 throughout, so that there is no ratio."""
    if len(variant) < MINIMUM_BLOCKS or max(baseline) <= 0.0:
        return None
    return MeanRatio(tuple(variant), tuple(baseline), quantum)


# --- times of which some are horizons --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """Of the runs of one side, s; `censored`: which of them are horizons."""

    times: tuple[float, ...]
    censored: tuple[bool, ...]

    @property
    def median(self) -> float | None:
        return survival.median(self.times, self.censored)

    @property
    def typical(self) -> float | None:
        """As the ledger's estimates have it: the geometric mean, or the median where some are horizons."""
        if any(self.censored):
            return self.median
        return float(np.exp(np.mean(np.log(self.times)))) if min(self.times) > 0.0 else 0.0


@dataclass(frozen=True)
class CensoredRatio:
    """100 x (variant's time / baseline's - 1), where some runs never got there within what was watched.

    Blocks are not paired: a log-rank test is of two groups (analysis.stats.survival).
    """

    variant: Times
    baseline: Times
    floor: float | None = None

    @property
    def point(self) -> float | None:
        found = self._ratio().point
        return None if found is None else 100.0 * (found - 1.0)

    @property
    def blocks(self) -> int:
        return min(len(self.variant.times), len(self.baseline.times))

    def interval(self) -> tuple[float, float]:
        found = self._ratio()
        return 100.0 * (found.low - 1.0), 100.0 * (found.high - 1.0)

    def p_inside(self, region: Region) -> float:
        """Twice the larger of both one-sided values: the interval's are two-sided."""
        return min(1.0, 2.0 * max(self._p(region.low, "greater"), self._p(region.high, "less")))

    def p_outside(self, region: Region) -> float:
        return min(1.0, 2.0 * min(self._p(region.low, "less"), self._p(region.high, "greater")))

    def _ratio(self) -> survival.RatioInterval:
        return survival.ratio_interval(*self._groups, CONFIDENCE)

    @property
    def _groups(self) -> tuple[tuple[float, ...], tuple[bool, ...], tuple[float, ...], tuple[bool, ...]]:
        return self.variant.times, self.variant.censored, self.baseline.times, self.baseline.censored

    def _p(self, percent: float, side: survival.Side) -> float:
        """One-sided, that the ratio is this one or lies on the other side; beyond all ratios nothing is unsure."""
        if percent <= -100.0 or percent == inf:
            return 0.0 if (percent == inf) == (side == "less") else 1.0
        return survival.ratio_p(*self._groups, 1.0 + percent / 100.0, side)


@dataclass(frozen=True)
class BaselineTime:
    """What the baseline of a ratio of times takes, s. `about_s`: None where most of its runs never got there. `low_s`,
    `high_s`: the ends of its 95 % interval, 0 and infinite where nothing bounds it. `least_s`: the shortest that a time
    can be."""

    about_s: float | None
    low_s: float
    high_s: float
    least_s: float


def baseline_time(
    variant: Times, baseline: Times, noise_s: float, quantum: float, series: Sequence[int] = ()
) -> BaselineTime | None:
    """Its ends are those by which the ledger would judge a variant whose every run takes `noise_s`, what noise alone
    takes; where either side was quicker than that here, the least is what it took. None: fewer than three blocks.
    `series`: as of `paired_ratio`."""
    runs = len(baseline.times)
    if runs < MINIMUM_BLOCKS or min(baseline.times) <= 0.0:
        return None
    alike = Times((noise_s,) * runs, (False,) * runs)
    found: Estimated | None = CensoredRatio(alike, baseline)
    if not any(baseline.censored):
        found = paired_ratio(alike.times, baseline.times, quantum, series)
    if found is None:
        return None
    low, high = (1.0 + percent / 100.0 for percent in found.interval())
    least_s = min(time for time in (noise_s, variant.typical, baseline.typical) if time is not None)
    return BaselineTime(baseline.typical, noise_s / high, noise_s / low if low > 0.0 else inf, least_s)
