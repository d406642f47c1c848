"""The promises of docs/decisions/statistics.md, on few enough simulated comparisons to run with every test."""

from collections import Counter
from math import comb
from pathlib import Path
from random import Random

import numpy as np
import pytest

from analysis.compare.blocks import Block, MetricBlocks, Value
from analysis.compare.result import Verdict
from analysis.compare.verdict import judge_rows, metric_row
from analysis.stats import paired_differences
from bench.statistics import comparisons, drawn_comparisons
from bench.statistics.drawn_comparisons import Request, Series, drawn_sets, shares
from tests.support.compared_series import LATENCY, SideOf, write

NUMBER = 1500
SLACK = 0.017  # three standard errors of a share of 5 % in NUMBER comparisons


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed", "drifting"])
@pytest.mark.parametrize("blocks", [3, 5, 10, 20])
def test_whole_sentences_of_a_code_against_itself_call_a_difference_in_one_of_twenty(noise: str, blocks: int) -> None:
    sides = comparisons.simulate(np.random.default_rng(blocks), NUMBER, 4, blocks, comparisons.NOISES[noise], 0.02)
    assert comparisons.judge_sides(sides).called.any(axis=1).mean() <= comparisons.LEVEL + SLACK


def test_differences_of_ten_percent_are_found() -> None:
    sides = comparisons.simulate(np.random.default_rng(1), NUMBER, 4, 6, comparisons.normal, 0.02, float(np.log(1.1)))
    assert comparisons.judge_sides(sides).called[:, 0].mean() > 0.97


@pytest.mark.parametrize("spread", [0.011, 0.04])
def test_stopping_by_width_keeps_the_level(spread: float) -> None:
    sides = comparisons.simulate(np.random.default_rng(2), NUMBER, 4, 20, comparisons.normal, spread)
    found = comparisons.until_certain(sides)
    assert found.called.any(axis=1).mean() <= comparisons.LEVEL + SLACK
    assert 3 <= found.blocks.min() <= found.blocks.max() <= 20


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed", "drifting", "two states"])
@pytest.mark.parametrize(("blocks", "spread"), [(3, 0.02), (4, 0.02), (6, 0.03), (10, 0.04)])
def test_no_difference_is_rarely_said_of_codes_that_differ_by_the_goal(noise: str, blocks: int, spread: float) -> None:
    """With the interval's width and 0 inside it alone, as it once was, 10 to 28 % under normal noise and drift."""
    sides = comparisons.simulate(
        np.random.default_rng(blocks), NUMBER, 1, blocks, comparisons.NOISES[noise], spread, comparisons.GOAL
    )
    assert comparisons.judge_sides(sides).no_difference().mean() <= comparisons.LEVEL


def test_no_difference_is_found_where_there_is_none() -> None:
    sides = comparisons.simulate(np.random.default_rng(7), NUMBER, 4, 5, comparisons.normal, 0.011)
    assert comparisons.judge_sides(sides).no_difference()[:, 0].mean() > 0.95


def test_blocks_enough_find_the_goal_or_rule_it_out() -> None:
    """And a comparison that may stop at any of them is no more often wrong."""
    rng = np.random.default_rng(8)
    same, apart = (
        comparisons.until_certain(comparisons.simulate(rng, NUMBER, 4, 20, comparisons.normal, 0.02, shift))
        for shift in (0.0, comparisons.GOAL)
    )
    assert same.no_difference[:, 0].mean() > 0.8 < apart.called[:, 0].mean()
    assert apart.no_difference[:, 0].mean() <= comparisons.LEVEL


def test_holm_for_many_is_holm_for_one() -> None:
    p = np.random.default_rng(4).random((50, 7)) ** 3
    assert paired_differences.holm(p).tolist() == [paired_differences.holm(row).tolist() for row in p]


def test_the_noise_can_be_that_of_series_on_record(tmp_path: Path) -> None:
    values = (100.0, 104.0, 98.0, 101.0)
    root = write(tmp_path / "s", {"stela": (SideOf({"throughput_after": values}),
                                           SideOf({"throughput_after": values[:2]}))})  # fmt: skip
    found = comparisons.residuals([root])
    assert len(found) == 4  # two runs say nothing about their scatter
    assert np.sqrt(np.square(found).mean()) == pytest.approx(np.log(values).std(ddof=1))
    sides = comparisons.simulate(np.random.default_rng(5), 10, 2, 5, comparisons.noise_from(found), 0.0)
    assert set(np.unique(sides.a)) <= set(found)


def interleaved(root: Path, again: float, slower: float, blocks: int = 20) -> Path:
    """Runs of one code as x_a and x_b, and of a slower one as y_a; in each block one of each."""
    rng = np.random.default_rng(9)

    def side(factor: float) -> SideOf:
        return SideOf({
            "throughput_after": (100 * factor * np.exp(rng.normal(0, 0.01, blocks))).tolist(),
            LATENCY: (50 * np.exp(rng.normal(0, 0.05, blocks))).tolist(),
            "downtime_s": rng.integers(0, 3, blocks).astype(float).tolist(),
        })  # fmt: skip

    return write(root, {"x": (side(1.0), side(again)), "y": (side(slower), side(slower))})


def drawn(root: Path, size: int, **asked: bool) -> tuple[drawn_comparisons.Shares, drawn_comparisons.Shares]:
    """(A/A, A/B) over forty sets of blocks."""
    series, rng = Series(root, Request("x_a", "x_b", "y_a", **asked)), Random(1)
    sets = drawn_sets(series.blocks, size, 40, rng)
    assert len(set(sets)) == 40
    a_a, a_b = (
        shares(drawn_comparisons.answers(series, compare, sets, rng))
        for compare in (series.same_code, series.slower_code)
    )
    return a_a, a_b


def test_comparisons_drawn_from_runs_find_what_they_differ_by(tmp_path: Path) -> None:
    a_a, a_b = drawn(interleaved(tmp_path / "s", 1.0, 0.9), 5)
    assert a_a.called <= 0.1 and a_a.no_difference > 0.8 and a_a.worse <= 0.05
    assert a_b.worse == 1.0 and a_b.better == a_b.no_difference == 0.0
    assert 0.5 < a_a.half_width < 3 > a_b.half_width


@pytest.mark.long
def test_comparisons_drawn_where_nothing_differs_find_nothing(tmp_path: Path) -> None:
    _, a_b = drawn(interleaved(tmp_path / "s", 1.0, 1.0), 5)
    assert a_b.worse <= 0.1 and a_b.no_difference > 0.8


@pytest.mark.long
def test_comparisons_drawn_where_everything_differs_call_all_of_it(tmp_path: Path) -> None:
    """Unless it is drawn which run is which: under one code nothing but chance depends on that."""
    root = interleaved(tmp_path / "s", 1.2, 0.8)
    a_a, a_b = drawn(root, 4, as_run=True)
    assert a_a.called == a_a.better == a_b.called == a_b.worse == 1.0
    assert drawn(root, 4)[0].called < 0.3


@pytest.mark.long
def test_drawn_comparisons_may_have_the_other_blocks_on_record(tmp_path: Path) -> None:
    """What the same code differs by in them, 20 %, is more than the slower code's 10 %."""
    root = interleaved(tmp_path / "s", 1.2, 0.9)
    assert drawn(root, 4)[1].worse == 1.0 and drawn(root, 4, on_record=True)[1].worse == 0.0


def test_sets_of_blocks_are_drawn_once_each_and_splits_share_none() -> None:
    blocks = list(range(1, 21))
    assert (
        len(drawn_sets(blocks, 3, 2000, Random(1))) == comb(20, 3) == len(set(drawn_sets(blocks, 3, 2000, Random(1))))
    )
    some = drawn_sets(blocks, 6, 300, Random(1))
    assert len(set(some)) == 300 and all(len(set(each)) == 6 and list(each) == sorted(each) for each in some)
    split = drawn_comparisons.disjoint_sets(blocks, 6, Random(1))
    assert len(split) == 3 and max(Counter(number for each in split for number in each).values()) == 1
    assert drawn_comparisons.consecutive_sets(blocks, 6)[-1] == (15, 16, 17, 18, 19, 20)


@pytest.mark.parametrize("shift", [0.0, 0.03, comparisons.GOAL, -comparisons.GOAL, 0.1])
def test_the_simulation_judges_as_the_product_does(shift: float) -> None:
    sides = comparisons.simulate(np.random.default_rng(11), 40, 1, 5, comparisons.normal, 0.015, shift)
    found = comparisons.judge_sides(sides)
    for a, b, called, equal in zip(sides.a[:, 0], sides.b[:, 0], found.called[:, 0], found.no_difference()[:, 0],
                                   strict=True):  # fmt: skip
        blocks = tuple(Block(n, *(Value(100 * float(np.exp(each))) for each in both))
                       for n, both in enumerate(zip(a, b, strict=True), 1))  # fmt: skip
        (row,) = judge_rows([metric_row(MetricBlocks("p", "throughput_after", "e1", blocks), 0.05, 5.0, {})], [], 0.05)
        assert (row.called, row.verdict is Verdict.NO_DIFFERENCE) == (bool(called), bool(equal))
