"""Rows whose values may be higher than measured, by tuples that may be lost unseen: nothing is said that these could
undo."""

from collections.abc import Sequence
from itertools import product

import pytest

from analysis.compare.blocks import Block, MetricBlocks, Value
from analysis.compare.result import MetricRow, Verdict
from analysis.compare.verdict import is_wide_by_measurement, judge_rows, metric_row
from analysis.stats.effect import MOST_ENUMERATED, ZERO, PairedEffect, paired
from tests.support.compared_series import LATENCY

Sides = Sequence[tuple[float, float]]


def judged(measured: Sides, highest: Sides, on_record: Sequence[float] = ()) -> MetricRow:
    blocks = tuple(
        Block(number, *(Value(value, high=most) for value, most in zip(sides, ends, strict=True)))
        for number, (sides, ends) in enumerate(zip(measured, highest, strict=True), 1)
    )
    found = MetricBlocks("stela", LATENCY, "e1", blocks)
    (row,) = judge_rows([metric_row(found, 0.05, 5.0, {(LATENCY, "e1"): on_record})], [], 0.05)
    return row


STEADY = [(100.0 + 0.1 * (number % 2), 94.0 + 0.1 * (number % 3)) for number in range(6)]
SAME_CODE = [0.05, -0.05] * 30  # differences of blocks of the same code on record


def test_a_difference_that_lost_tuples_could_bring_inside_the_floor_is_not_called() -> None:
    """-6 % as measured, -2 % if B's unseen losses were its slowest tuples."""
    seen = judged(STEADY, STEADY, SAME_CODE)
    assert seen.verdict is Verdict.BETTER and seen.floor is not None and 2.5 < seen.floor < 5.5
    may_be_less = judged(STEADY, [(a, b * 1.043) for a, b in STEADY], SAME_CODE)
    assert may_be_less.p is not None and may_be_less.p < 0.05
    assert may_be_less.verdict is Verdict.UNDECIDED


def test_a_difference_inside_the_floor_that_may_be_beyond_it_is_not_none() -> None:
    measured = [(100.0, 102.5 + 0.05 * number) for number in range(6)]
    assert judged(measured, measured, SAME_CODE).verdict is Verdict.NO_DIFFERENCE
    assert judged(measured, [(a, b * 1.04) for a, b in measured], SAME_CODE).verdict is Verdict.UNDECIDED


def test_losses_of_a_in_one_block_and_of_b_in_others_are_the_least_favourable() -> None:
    """Either side's extreme in all blocks leaves the scatter as it is; a mixture adds to it."""
    measured = [(100.0, 90.0), (100.0, 90.5), (100.0, 89.5)]
    row = judged(measured, [(a * 1.02, b * 1.022) for a, b in measured])
    every_b = judged([(a, b * 1.022) for a, b in measured], [(a, b * 1.022) for a, b in measured])
    assert every_b.p is not None and row.p is not None and every_b.p < 0.01 < 0.02 < row.p < 0.04
    assert row.low is not None and row.high is not None and row.low < -14.5 and -3.6 < row.high < 0


def test_of_more_blocks_than_are_enumerated_the_least_favourable_are_found_too() -> None:
    """Ratios of small and of large values: b - a does not order them."""
    levels = [10.0 ** (block % 3) for block in range(MOST_ENUMERATED + 1)]
    b = [level * (1.1 + 0.02 * (block % 5)) for block, level in enumerate(levels)]
    ranges = [((1.02 * one, 0.98 * two), (0.98 * one, 1.02 * two)) for one, two in zip(levels, b, strict=True)]
    found = paired(levels, b, logarithmic=True, ranges=ranges)
    every = [paired(*zip(*choice, strict=True), logarithmic=True).estimate for choice in product(*ranges)]
    expected = PairedEffect(found.estimate, tuple(every))
    assert len(found.extremes) < len(every)
    assert found.p_outside(ZERO) == pytest.approx(expected.p_outside(ZERO))
    assert found.interval() == pytest.approx(expected.interval())


@pytest.mark.parametrize("blocks", [6, 30])
@pytest.mark.parametrize("side", ["a", "b"])
def test_blocks_go_on_while_what_is_unseen_leaves_room(blocks: int, side: str) -> None:
    """What is unseen is a part of the goal: more blocks bring the whole interval within it."""
    scatter = 4.0 * (blocks / 6) ** 0.5
    measured = [(100.0, 100.0 + scatter * (-1) ** number) for number in range(blocks)]

    def unseen(share: float) -> MetricRow:
        return judged(measured, [(a * (1 + share), b) if side == "a" else (a, b * (1 + share)) for a, b in measured])

    row, plain = unseen(0.02), unseen(0.0)
    assert not is_wide_by_measurement(row) and not row.within_goal
    assert row.needed_blocks is not None and plain.needed_blocks is not None
    assert row.needed_blocks > max(blocks, plain.needed_blocks)
    assert is_wide_by_measurement(unseen(0.06)), "no block takes 6 % away, and less than 5 % is wanted"
