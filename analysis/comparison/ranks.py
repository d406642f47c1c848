"""Sides that can only be ordered: runs that never converged, and runs that failed. Exact sign tests over blocks."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from analysis.comparison.answer import FAILED, Kind, Row
from analysis.comparison.blocks import Block, Measured, PairRuns
from analysis.comparison.intervals import MINIMUM_BLOCKS, sign_test
from analysis.event_ids import WHOLE_RUN
from analysis.metric_directions import PRIMARY


def ranked(found: Measured, words: str) -> Row:
    """Some runs never got there: which side was first in each block. A horizon is not a time."""
    return _row(found.pair, found.metric, found.event, words, Kind.RANK, [order(block) for block in found.blocks],
                found.blocks)  # fmt: skip


def order(block: Block) -> int:
    """1 where b's time is longer. Longer than a horizon that lies below the other's time says nothing: a tie."""
    a, b = block.a, block.b
    if a.censored and b.censored:
        return 0
    if a.censored:
        return -1 if a.number >= b.number else 0
    if b.censored:
        return 1 if b.number >= a.number else 0
    return int(np.sign(b.number - a.number))


def failures(runs: PairRuns) -> Row | None:
    """Runs that the system under test failed, where there are any."""
    a, b = runs.a.outcomes(), runs.b.outcomes()
    if not (any(a.values()) or any(b.values())):
        return None
    signs = [int(b[number]) - int(a[number]) for number in sorted(set(a) & set(b))]
    failed = (float(sum(a.values())), float(sum(b.values())))
    return _row(runs.pair.name, FAILED, WHOLE_RUN, "runs that failed", Kind.RUNS, signs, failed=failed)


def _row(
    pair: str, metric: str, event: str, words: str, kind: Kind, signs: Sequence[int], blocks: tuple[Block, ...] = (),
    failed: tuple[float, float] | None = None,
) -> Row:  # fmt: skip
    """`signs`: of b against a, in each block."""
    a, b = failed or (None, None)
    return Row(
        pair=pair, metric=metric, event=event, words=words, primary=metric in (FAILED, *PRIMARY), kind=kind, unit="",
        a=a, b=b, estimate=None, p=sign_test(signs) if len(signs) >= MINIMUM_BLOCKS else None,
        effect=fmean(signs) if signs else None, floor=None, floor_on_record=False, goal=None, blocks=blocks,
        sign=int(np.sign(sum(signs))),
    )  # fmt: skip
