"""Medians and ratios of times of which some are only horizons: against hand-computed values and scipy's log-rank."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import inf
from statistics import median as plain_median
from typing import Any

import numpy as np
import pytest
from scipy.stats import CensoredData, logrank

from analysis.stats import survival
from analysis.stats.survival import RatioInterval, Side, Times, median
from bench.statistics.survival import Cell, shares

NONE = [False] * 4
Seconds = Sequence[float]
Flags = Sequence[bool]


def side(times: Iterable[float], censored: Iterable[bool]) -> Times:
    return Times(tuple(map(float, times)), tuple(map(bool, censored)))


def ratio_interval(a: Seconds, a_censored: Flags, b: Seconds, b_censored: Flags) -> RatioInterval:
    return survival.ratio_interval(side(a, a_censored), side(b, b_censored))


def ratio_p(a: Seconds, a_censored: Flags, b: Seconds, b_censored: Flags, ratio: float, which: Side) -> float:
    return survival.ratio_p(side(a, a_censored), side(b, b_censored), ratio, which)


def permutation_p(*groups: Sequence[Any]) -> float:
    """Two-sided, that the times of both are distributed alike."""
    return min(1.0, 2.0 * min(ratio_p(*groups, ratio=1.0, which=which) for which in ("less", "greater")))


def test_the_median_is_kaplan_and_meiers() -> None:
    """5/6, 5/6 · 3/4 = 0.625, 0.625 · 2/3 = 0.417: the half is passed at 40 s; of the values alone it would be 35 s."""
    assert median([10, 20, 30, 40, 50, 60], [False, True, False, False, True, False]) == 40.0


@pytest.mark.parametrize("times", [[7.0], [1.0, 2.0], [3.0, 1.0, 2.0, 9.0], [2.0, 2.0, 5.0, 5.0]])
def test_without_a_horizon_it_is_the_ordinary_median(times: list[float]) -> None:
    assert median(times, [False] * len(times)) == plain_median(times)


@pytest.mark.parametrize(
    ("times", "censored"),
    [([90.0, 90.0, 50.0], [True, True, False]), ([50.0, 90.0], [False, True]), ([90.0], [True]), ([], [])],
)
def test_what_half_never_got_to_has_no_median(times: list[float], censored: list[bool]) -> None:
    assert median(times, censored) is None


def test_the_statistic_is_scipys_log_rank() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (10.0 * np.ceil(10 * rng.lognormal(0, 0.5, n)) for n in (5, 7))
        ours = [side(np.minimum(times, 140), times > 140) for times in (a, b)]
        numerator = survival._scores(*ours, ratios=np.ones(1))[0, :5].sum()
        x, y = (CensoredData.right_censored(np.minimum(side, 140), side > 140) for side in (a, b))
        pooled = np.concatenate([a, b])
        deviation = variance(np.minimum(pooled, 140), pooled > 140, 5) ** 0.5
        assert numerator / deviation == pytest.approx(logrank(x, y).statistic)


def variance(times: np.ndarray, censored: np.ndarray, a_runs: int) -> float:
    """Of the hypergeometric distribution at each time of an event."""
    total = 0.0
    for time in set(times[~censored]):
        at_risk, events = (times >= time).sum(), ((times == time) & ~censored).sum()
        of_a = (times[:a_runs] >= time).sum()
        if at_risk > 1:
            total += events * of_a / at_risk * (1 - of_a / at_risk) * (at_risk - events) / (at_risk - 1)
    return total


def test_p_counts_the_splits() -> None:
    """Of 70 splits one is as far on either side; three against three have 20, so that 0.1 is the least."""
    apart = [60, 70, 80, 90], NONE, [100, 110, 120, 130], NONE
    assert permutation_p(*apart) == pytest.approx(2 / 70)
    assert permutation_p([60, 70, 80], NONE[:3], [100, 110, 120], NONE[:3]) == pytest.approx(0.1)
    assert permutation_p([60] * 4, NONE, [60] * 4, NONE) == 1.0
    assert len(list(combinations(range(8), 4))) == 70


def test_horizons_alone_are_no_difference() -> None:
    """One side was watched for longer: that none of either got there says nothing."""
    never = [True] * 4
    assert permutation_p([60.0] * 4, never, [600.0] * 4, never) == 1.0
    assert ratio_interval([60.0] * 4, never, [600.0] * 4, never) == RatioInterval(None, 0.0, inf)
    assert permutation_p([60.0] * 4, never, [100.0, 200.0, 300.0, 400.0], NONE) == 1.0


def test_three_against_three_bound_nothing() -> None:
    found = ratio_interval([60, 70, 80], NONE[:3], [600, 700, 800], NONE[:3])
    assert found == RatioInterval(0.1, 0.0, inf)


def test_the_interval_is_of_ratios_that_are_not_rejected() -> None:
    a, b = [60.0, 70.0, 80.0, 90.0], [100.0, 120.0, 150.0, 170.0]
    found = ratio_interval(a, NONE, b, NONE)
    assert found.point == pytest.approx(75 / 135)
    assert found.low <= found.point <= found.high < 1.0
    assert permutation_p(a, NONE, [found.low * 0.99 * value for value in b], NONE) <= 0.05
    assert permutation_p(a, NONE, [found.low * 1.01 * value for value in b], NONE) > 0.05
    assert permutation_p(a, NONE, [found.high * 1.01 * value for value in b], NONE) <= 0.05
    assert permutation_p(a, NONE, [found.high * 0.99 * value for value in b], NONE) > 0.05


def test_units_do_not_matter_and_turning_turns() -> None:
    a, b = [60.0, 70.0, 80.0, 90.0, 120.0], [100.0, 120.0, 150.0, 170.0, 200.0]
    none = [False] * 4 + [True]
    found, minutes = (
        ratio_interval(a, none, b, none),
        ratio_interval([t / 60 for t in a], none, [t / 60 for t in b], none),
    )
    turned = ratio_interval(b, none, a, none)
    assert (minutes.low, minutes.high) == (pytest.approx(found.low), pytest.approx(found.high))
    assert (turned.low, turned.high) == (pytest.approx(1 / found.high), pytest.approx(1 / found.low))


def test_one_sided_p_of_a_ratio() -> None:
    a, b = [60.0, 70.0, 80.0, 90.0], [100.0, 120.0, 150.0, 170.0]
    assert ratio_p(a, NONE, b, NONE, 1.0, "less") == pytest.approx(1 / 70)
    assert ratio_p(a, NONE, b, NONE, 1.0, "greater") == 1.0
    assert ratio_p(a, NONE, b, NONE, 0.2, "greater") == pytest.approx(1 / 70)
    assert ratio_p([0.0] * 4, NONE, b, NONE, 0.5, "less") == pytest.approx(1 / 70), "a time of 0 is a time"


def test_splits_of_many_runs_are_drawn_alike_each_time_and_no_p_is_zero() -> None:
    a, b = [float(10 * i) for i in range(1, 13)], [float(1000 + 10 * i) for i in range(1, 13)]
    none = [False] * 12
    survival._splits.cache_clear()
    first = permutation_p(a, none, b, none)
    survival._splits.cache_clear()
    assert first == permutation_p(a, none, b, none) == pytest.approx(2 / (survival.MOST_SPLITS + 1))


def test_a_group_of_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are 0 and 1 times"):
        permutation_p([], [], [1.0], [False])


@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize("censored", [0.0, 0.5])
def test_the_interval_covers_the_true_ratio(ratio: float, censored: float) -> None:
    """In 95 of 100: fewer than 51 of 60 would then be less than one case in a thousand."""
    found = shares(np.random.default_rng(5), Cell(6, censored, ratio, 10.0), 60)
    assert found.covered >= 51 / 60
    assert found.called > 0.3 if ratio == 0.5 else found.called < 0.15
