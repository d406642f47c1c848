"""Numbers of claims with their intervals, and how often they would be judged wrongly."""

import numpy as np
import pytest
from scipy import stats

from analysis.claims.assumptions import time_of_baseline
from analysis.stats.effect import Interval, MeanRatio, PairedEffect, TimeRatio, mean_ratio, own_number, paired_ratio
from analysis.stats.survival import Times
from bench.statistics import claim_verdicts

ABOUT_65 = Interval(50.0, 81.5)  # a wide one: both ends are tried


def student(values: list[float], baseline: list[float]) -> PairedEffect:
    found = paired_ratio(values, baseline)
    assert found is not None
    return found


def test_two_blocks_have_no_estimate() -> None:
    assert paired_ratio([165.0, 166.0], [100.0, 100.0]) is None
    assert own_number([1.0, 2.0]) is None
    assert mean_ratio([0.0, 10.0], [80.0, 80.0], 10.0) is None


def test_a_drift_between_blocks_falls_on_both_sides_of_a_pair() -> None:
    """Each pair differs by 65 %, whatever the day; the floor, of neighbouring runs of one side, sees the drift."""
    steady = student([165.0, 165.2, 164.8, 165.1], [100.0, 100.1, 99.9, 100.0])
    low, high = steady.interval()
    assert low == pytest.approx(65.0, abs=0.5)
    assert high == pytest.approx(65.0, abs=0.5)
    drifting = student([165.0, 182.0, 198.0, 215.0], [100.0, 110.0, 120.0, 130.0])
    assert drifting.point == pytest.approx(65.0, abs=0.5)
    assert drifting.interval()[0] < 60.0


def test_a_deviation_that_is_small_by_luck_makes_no_narrow_interval() -> None:
    """Three blocks whose ratios happen to agree, of runs that differ by 10 %."""
    lucky = student([150.0, 165.0, 180.0], [90.91, 100.0, 109.09])
    assert lucky.floor is not None
    assert lucky.floor > 5.0
    low, high = lucky.interval()
    assert high - low > 10.0


def test_series_of_one_block_have_no_floor_and_students_interval() -> None:
    """Their runs have no neighbours; one pair of neighbours says too little, two are what three blocks have."""
    values, baseline = [165.0, 91.0, 320.0, 150.0], [100.0, 55.0, 200.0, 90.0]
    alone = paired_ratio(values, baseline, series=(1, 1, 1, 1))
    assert alone is not None and alone.floor is None
    logs = np.log(np.array(values) / np.array(baseline))
    half = stats.t.ppf(0.975, 3) * logs.std(ddof=1) / 2
    assert alone.interval() == pytest.approx((100 * np.expm1(logs.mean() - half), 100 * np.expm1(logs.mean() + half)))
    floors = {series: paired_ratio(values, baseline, series=series) for series in ((2, 1, 1), (2, 2), (3, 1), (4,))}
    assert [found is not None and found.floor is not None for found in floors.values()] == [False, True, True, True]
    assert floors[4,] == paired_ratio(values, baseline)
    one, two = own_number([1.0, 2.0, 9.0], (2, 1)), own_number([1.0, 2.0, 9.0, 8.0], (2, 2))
    assert one is not None and one.floor is None
    assert two is not None and two.floor is not None


def test_how_long_a_baseline_of_several_series_takes_has_the_bounds_of_their_interval() -> None:
    """On every other box it is twice as slow: that is no noise of neighbours."""
    baseline = Times((100.0, 200.0) * 3, (False,) * 6)
    apart, one = (time_of_baseline(baseline, baseline, 60.0, 10.0, series) for series in ((1,) * 6, ()))
    ratio = paired_ratio([60.0] * 6, baseline.times, 10.0, (1,) * 6)
    assert apart is not None and one is not None and ratio is not None
    assert apart.high_s == pytest.approx(60.0 / (1 + ratio.interval()[0] / 100)) and apart.high_s < one.high_s


@pytest.mark.parametrize(
    ("values", "inside", "outside"),
    [([164.0, 165.0, 166.0], True, False), ([130.0, 131.0, 132.0], False, True), ([149.0, 150.0, 151.0], False, False)],
)
def test_p_values_are_below_the_level_exactly_where_the_interval_says_so(
    values: list[float], inside: bool, outside: bool
) -> None:
    found = student(values, [100.0, 100.0, 100.0])
    low, high = found.interval()
    assert (found.p_inside(ABOUT_65) < 0.05) is inside is (ABOUT_65.low < low and high < ABOUT_65.high)
    assert (found.p_outside(ABOUT_65) < 0.05) is outside is (high < ABOUT_65.low or ABOUT_65.high < low)


def test_how_many_blocks_would_decide_grows_with_the_scatter_and_with_how_near_the_edge_lies() -> None:
    near = student([154.0, 150.0, 158.0], [100.0, 100.0, 100.0]).blocks_to_decide(ABOUT_65)
    nearer = student([152.0, 148.0, 156.0], [100.0, 100.0, 100.0]).blocks_to_decide(ABOUT_65)
    assert near is not None
    assert nearer is not None
    assert 3 < near < nearer


def test_a_ratio_of_times_may_be_zero() -> None:
    found = mean_ratio([0.0, 10.0, 0.0, 10.0], [80.0, 80.0, 70.0, 90.0], 10.0)
    assert found is not None
    assert found.point == pytest.approx(100 * (5 / 80 - 1))
    low, high = found.interval()
    assert low == -100.0
    assert -95.0 < high < -75.0


def test_fiellers_interval_is_the_ratios_that_a_t_test_does_not_reject() -> None:
    from scipy.stats import ttest_1samp

    variant, baseline = (20.0, 40.0, 30.0, 50.0, 30.0), (80.0, 120.0, 60.0, 100.0, 90.0)
    found = MeanRatio(variant, baseline, quantum=0.0)
    for end in found.interval():
        contrast = np.asarray(variant) - (1 + end / 100) * np.asarray(baseline)
        assert ttest_1samp(contrast, 0.0).pvalue == pytest.approx(0.05, abs=1e-4)


def test_equal_windows_do_not_show_that_there_is_no_scatter() -> None:
    found = mean_ratio([10.0, 10.0, 10.0], [80.0, 80.0, 80.0], 10.0)
    assert found is not None
    low, high = found.interval()
    assert low < -95.0 < -80.0 < high


def test_where_the_baseline_may_be_zero_nothing_is_sure() -> None:
    """Its set of ratios is no interval: both ends of a region may be rejected while a ratio of 1 is not."""
    found = mean_ratio([0.0, 0.0, 0.0, 0.0, 0.0, 50.0], [0.0, 10.0, 10.0, 20.0, 20.0, 120.0], 10.0)
    assert found is not None
    assert found.interval() == (-100.0, float("inf"))
    assert found.p_inside(Interval(-100.0, -50.0)) >= 0.05
    assert found.p_outside(Interval(-10.0, 10.0)) >= 0.05


def test_a_short_time_is_as_coarse_as_it_is_short() -> None:
    """Six times 50 s against six times 520 s, in windows of 10 s: 45 to 55 s are the same to them."""
    found = paired_ratio([50.0] * 6, [520.0] * 6, 10.0)
    assert found is not None
    low, high = found.interval()
    assert low < -90.9 < -90.0 < high


def test_of_times_that_were_never_reached_only_the_known_end_decides() -> None:
    fast = Times((60.0, 70.0, 80.0, 70.0, 60.0, 90.0), (False,) * 6)
    never = Times((600.0,) * 6, (True,) * 6)
    found = TimeRatio(fast, never)
    low, high = found.interval()
    assert (found.point, low) == (None, -100.0)
    assert high < -80.0
    assert found.p_outside(Interval(-20.0, 25.0)) < 0.05
    assert found.p_outside(Interval(-93.6, -90.0)) > 0.05


# --- error rates -----------------------------------------------------------------------------------------------------

DRAWS = 2_000


@pytest.mark.parametrize("blocks", [3, pytest.param(6, marks=pytest.mark.long)])
@pytest.mark.parametrize("noise", ["normal", "heavy", pytest.param("drift", marks=pytest.mark.long)])
def test_verdicts_at_the_edge_of_what_was_stated_are_rarely_wrong(blocks: int, noise: str) -> None:
    """The true ratio is just out of the region, and just within."""
    out, within = (
        claim_verdicts.shares(truth, ABOUT_65, blocks, claim_verdicts.NOISES[noise], DRAWS) for truth in (81.5, 81.4)
    )
    assert out.reproduced <= 0.05 >= within.differs


@pytest.mark.parametrize(
    ("estimator", "noise", "level", "region", "draws"),
    [
        (claim_verdicts.own, claim_verdicts.NOISES["normal"], 100.0, Interval(72.0, 88.0), DRAWS),
        (claim_verdicts.zero, claim_verdicts.ZERO, 100.0, Interval(-100.0, -50.0), DRAWS),
        (claim_verdicts.cut, claim_verdicts.CUT, 200.0, Interval(-20.0, 25.0), DRAWS // 10),
    ],
)
@pytest.mark.long
def test_the_other_estimators_are_rarely_wrong_at_the_edge_either(
    estimator: claim_verdicts.Estimator, noise: claim_verdicts.Noise, level: float, region: Interval, draws: int
) -> None:
    for blocks in (3, 6):
        out = claim_verdicts.shares(region.high + 0.1, region, blocks, noise, draws, level, estimator)
        within = claim_verdicts.shares(region.high - 0.1, region, blocks, noise, draws, level, estimator)
        assert out.reproduced <= 0.05
        assert within.differs <= 0.05


def test_six_blocks_of_our_scatter_find_what_is_stated_and_what_is_not() -> None:
    noise = claim_verdicts.NOISES["normal"]
    assert claim_verdicts.shares(65.0, ABOUT_65, 6, noise, DRAWS).reproduced > 0.95
    assert claim_verdicts.shares(40.0, ABOUT_65, 6, noise, DRAWS).differs > 0.95


def test_noise_alone_reproduces_nothing() -> None:
    """An interval as wide as [-20, 180] contains +65 and 0; it reproduces neither."""
    wild = claim_verdicts.Noise(spread=0.4)
    shares = claim_verdicts.shares(0.0, ABOUT_65, 3, wild, DRAWS)
    assert shares.reproduced <= 0.01
