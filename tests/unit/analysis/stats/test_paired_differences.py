import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats import paired_differences

A, B = [100.0, 104.0, 98.0, 101.0], [112.0, 113.0, 111.0, 115.0]
VALUES = st.lists(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)), min_size=3, max_size=12)


def test_a_ratio_is_students_paired_interval_of_logarithms() -> None:
    found = paired_differences.estimate(A, B, logarithmic=True)
    expected = stats.ttest_rel(np.log(B), np.log(A))
    half = float(paired_differences.half_width(found.error, found.blocks))
    assert float(paired_differences.p_value(found.mean, found.error, found.blocks)) == pytest.approx(expected.pvalue)
    assert (found.mean - half, found.mean + half) == pytest.approx(tuple(expected.confidence_interval()))
    assert paired_differences.in_units(found, found.mean) == pytest.approx(100 * (np.prod(np.divide(B, A)) ** 0.25 - 1))


@given(VALUES, st.floats(0.01, 100))
def test_a_drift_that_both_sides_of_a_block_share_changes_nothing(
    pairs: list[tuple[float, float]], slower: float
) -> None:
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    plain = paired_differences.estimate(a, b, logarithmic=True)
    drifted = paired_differences.estimate(
        [value * slower**i for i, value in enumerate(a)], [value * slower**i for i, value in enumerate(b)],
        logarithmic=True,
    )  # fmt: skip
    assert (drifted.mean, drifted.error) == pytest.approx((plain.mean, plain.error), abs=1e-6)


def test_equal_values_of_whole_windows_still_have_an_interval() -> None:
    """Three times 40 s against three times 50 s, in windows of 10 s, is no proof of 10 s."""
    found = paired_differences.estimate([40.0] * 3, [50.0] * 3, logarithmic=False, quantum=10.0)
    assert float(paired_differences.p_value(found.mean, found.error, 3)) > 0.05
    exact = paired_differences.estimate([40.0] * 3, [50.0] * 3, logarithmic=False)
    assert float(paired_differences.p_value(exact.mean, exact.error, 3)) == 0.0
    assert float(paired_differences.p_value(0.0, 0.0, 3)) == 1.0


@given(st.integers(0, 30), st.integers(0, 30))
def test_sign_test_counts_the_ways_to_be_as_uneven(longer: int, shorter: int) -> None:
    untied = longer + shorter
    tail = sum(math.comb(untied, k) for k in range(min(longer, shorter) + 1))
    found = paired_differences.sign_test([1] * longer + [0, 0] + [-1] * shorter)
    assert found == pytest.approx(min(1.0, 2 * tail / 2**untied))


def test_the_floor_holds_back_what_neighbours_of_the_same_code_differ_by() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, (2, 4000, 8))
    beyond = np.abs((b - a).mean(axis=1)) >= paired_differences.neighbour_floor(a, b, 0.05)
    assert 0.03 < beyond.mean() < 0.08  # the level that it is made for, by an approximate number of freedoms


def test_runs_of_two_series_are_no_neighbours() -> None:
    """On another box all is half as fast: that is no noise."""
    quiet = np.array([1.00, 1.01, 1.00, 1.01, 1.00, 1.01])
    apart = quiet - np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5])
    floor, own = paired_differences.neighbour_floor, paired_differences.own_floor
    floors = [float(floor(side, side, 0.05, series=(3, 3))) for side in (quiet, apart)]
    owns = [float(own(side, 0.05, (3, 3))) for side in (quiet, apart)]
    assert floors[0] == pytest.approx(floors[1]) and owns[0] == pytest.approx(owns[1])
    assert float(floor(apart, apart, 0.05)) > 10 * floors[0] and float(own(apart, 0.05)) > 10 * owns[0]
    assert float(floor(apart, apart, 0.05, series=(6,))) == float(floor(apart, apart, 0.05))


def test_the_floor_of_several_series_has_its_level() -> None:
    """Whatever lies between the series, which both sides of a pair share."""
    rng = np.random.default_rng(1)
    between = np.repeat(rng.normal(0, 9, (4000, 3)), (2, 3, 3), axis=1)
    a, b = rng.normal(0, 1, (2, 4000, 8)) + between
    beyond = np.abs((b - a).mean(axis=1)) >= paired_differences.neighbour_floor(a, b, 0.05, series=(2, 3, 3))
    assert 0.03 < beyond.mean() < 0.08


def test_the_floor_on_record_is_around_zero_and_needs_six_blocks() -> None:
    assert paired_differences.record_floor([0.01] * 5, 4, 0.05) is None
    assert paired_differences.record_floor([0.01] * 6, 4, 0.05) == pytest.approx(stats.t.ppf(0.975, 6) * 0.01 / 2)


def test_needed_blocks_find_the_goal_in_four_of_five_cases() -> None:
    number = paired_differences.blocks_needed(0.05, 0.05, 0.05)
    assert number is not None
    rng = np.random.default_rng(2)
    differences = rng.normal(0.05, 0.05, (4000, number))
    mean, error = paired_differences.mean_and_error(differences)
    assert 0.77 < (paired_differences.p_value(mean, error, number) < 0.05).mean() < 0.86
    assert float(paired_differences.half_width(0.05 / math.sqrt(number), number)) <= 0.05


def test_needed_blocks_at_their_ends() -> None:
    assert paired_differences.blocks_needed(0.0, 0.05, 0.05) == paired_differences.MINIMUM_BLOCKS
    assert paired_differences.blocks_needed(10.0, 0.05, 0.05) is None
    assert paired_differences.blocks_needed(0.05, 0.0, 0.05) is None
    many = [paired_differences.blocks_needed(spread, 0.05, 0.05) or 0 for spread in (0.01, 0.02, 0.05, 0.1, 0.2)]
    assert many == sorted(many) and many[0] == paired_differences.MINIMUM_BLOCKS and many[-1] > 100


def test_holm_against_a_worked_case() -> None:
    assert paired_differences.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_never_passes_one(p_values: list[float]) -> None:
    assert all(p <= corrected <= 1.0 for p, corrected in zip(p_values, paired_differences.holm(p_values), strict=True))


def test_cliffs_delta_at_its_ends_and_at_ties() -> None:
    assert paired_differences.cliffs_delta([4, 5], [1, 2]) == 1.0
    assert paired_differences.cliffs_delta([1, 2], [4, 5]) == -1.0
    assert paired_differences.cliffs_delta([1, 1], [1, 1]) == 0.0
