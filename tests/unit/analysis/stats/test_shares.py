"""Shares of failed runs, against cases that are counted by hand and against what is drawn."""

from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.shares import Failures, upper_bound


def test_all_failures_on_one_side_have_the_chance_of_being_drawn_so() -> None:
    assert Failures(0, 10, 5, 10).p == pytest.approx(2 * comb(10, 5) / comb(20, 5))
    assert Failures(3, 3, 0, 3).p == pytest.approx(2 / comb(6, 3))
    assert Failures(4, 9, 4, 9).p == 1.0


def test_the_upper_bound_is_the_share_that_fails_so_seldom_in_one_of_twenty() -> None:
    """Of no failure in n runs it is 1 − 0.05^(1/n)."""
    assert upper_bound(0, 10) == pytest.approx(1 - 0.05**0.1)
    share = upper_bound(5, 10)
    assert sum(comb(10, k) * share**k * (1 - share) ** (10 - k) for k in range(6)) == pytest.approx(0.05)
    assert upper_bound(10, 10) == 1.0


runs = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(runs, runs)
def test_sides_that_are_exchanged_say_the_opposite(a: tuple[int, int], b: tuple[int, int]) -> None:
    one, other = Failures(*a, *b), Failures(*b, *a)
    (low, high), (other_low, other_high) = one.interval(0.95), other.interval(0.95)
    assert one.p == pytest.approx(other.p) and one.points == -other.points
    assert (low, high) == (pytest.approx(-other_high), pytest.approx(-other_low)) and low <= one.points <= high
    assert one.interval(0.99)[0] <= low and high <= one.interval(0.99)[1]


@pytest.mark.parametrize(("share", "spread"), [(0.5, 0.0), (0.2, 0.0), (0.5, 0.5), (0.3, 0.3)])
def test_of_sides_that_fail_alike_few_are_told_apart_also_where_blocks_differ(share: float, spread: float) -> None:
    """Blocks fail with `share` ± `spread`: then both of their runs are more likely to fail."""
    rng, blocks, number = np.random.default_rng(1), 12, 3000
    chance = share + spread * rng.choice([-1, 1], (number, blocks))
    a, b = ((rng.random((number, blocks)) < chance).sum(axis=1).tolist() for _ in "ab")
    drawn = Counter(zip(a, b, strict=True))
    found = {pair: Failures(pair[0], blocks, pair[1], blocks) for pair in drawn}
    assert sum(drawn[pair] for pair, each in found.items() if each.p < 0.05) <= 0.05 * number
    outside = [pair for pair, each in found.items() if not each.interval(0.95)[0] <= 0.0 <= each.interval(0.95)[1]]
    assert sum(drawn[pair] for pair in outside) <= 0.05 * number


def test_sides_that_fail_unlike_are_told_apart_and_their_interval_holds_the_difference() -> None:
    rng, runs_of_each, number = np.random.default_rng(2), 20, 300
    drawn = [Failures(*(int(n) for n in (rng.binomial(runs_of_each, 0.05), runs_of_each,
                                         rng.binomial(runs_of_each, 0.6), runs_of_each)))
             for _ in range(number)]  # fmt: skip
    assert np.mean([one.p < 0.05 for one in drawn]) > 0.9
    holds = [low <= 55.0 <= high for low, high in (one.interval(0.95) for one in drawn)]
    assert np.mean(holds) >= 0.95


@given(runs, runs)
def test_sides_are_as_alike_as_they_are_exchanged_and_equal_shares_are(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert Failures(*a, *b).alike is Failures(*b, *a).alike and Failures(*a, *a).alike


@pytest.mark.parametrize("before", [6, 90])
def test_a_half_is_never_like_none_and_one_of_many_is(before: int) -> None:
    assert not any(Failures(0, before, -(-runs // 2), runs).alike for runs in range(1, 60))
    assert [runs for runs in range(1, 270) if Failures(0, before, 1, runs).alike] == list(range(18, 270))
    assert not Failures(0, 200, 8, 200).alike, "4 % are a difference that so many runs show"
