"""Rows -> verdicts: Holm's correction, the A/A floor, and whether further blocks are needed (decision 0010)."""

from collections.abc import Sequence
from dataclasses import replace

from analysis import statistics
from analysis.comparison import needed
from analysis.comparison.answer import FAILED, Row, Verdict
from analysis.comparison.asked import Asked
from analysis.comparison.blocks import PairRuns, SideRuns
from analysis.comparison.intervals import MINIMUM_BLOCKS, on_axis
from analysis.comparison.rows import direction
from analysis.metric_directions import Better


def judged(rows: Sequence[Row], runs: Sequence[PairRuns], level: float) -> list[Row]:
    """Every row with its verdict; primary rows are corrected among themselves, and so are the others."""
    by_fact = {pair.pair.name for pair in runs if one_side_always_failed(pair)}
    done: dict[int, Row] = {}
    for primary in (True, False):
        family = [i for i, row in enumerate(rows) if row.primary is primary]
        p_of = {i: p for i in family if (p := rows[i].p) is not None and not same(rows[i])}
        p_holm = dict(zip(p_of, statistics.holm(list(p_of.values())), strict=True))
        for i in family:
            row = _with_needed(replace(rows[i], p_holm=p_holm.get(i)), level / max(1, len(p_of)))
            fact = row.metric == FAILED and row.pair in by_fact
            done[i] = replace(row, verdict=_side(row) if fact else _verdict(row, level))
    return [done[i] for i in range(len(rows))]


def same(row: Row) -> bool:
    """Equal in every block: no test, and it costs the others nothing."""
    return bool(row.blocks) and all(block.a == block.b for block in row.blocks)


def always_failed(side: SideRuns) -> bool:
    return not side.complete and len(side.failed) >= MINIMUM_BLOCKS


def one_side_always_failed(runs: PairRuns) -> bool:
    """A fact that needs no test: one side failed in each of three runs or more, and the other in none of as many."""
    return any(
        always_failed(one) and not other.failed and other.counted >= MINIMUM_BLOCKS
        for one, other in ((runs.a, runs.b), (runs.b, runs.a))
    )


def _with_needed(row: Row, level: float) -> Row:
    found = row.estimate
    if found is None or row.goal is None or row.p is None:
        return row
    wanted = needed.blocks(found.deviation, on_axis(found, row.goal), level)
    return replace(row, needed_blocks=wanted, needed_for_seen=needed.blocks(found.deviation, abs(found.mean), level))


def _verdict(row: Row, level: float) -> Verdict:
    if row.p is None:
        return Verdict.UNDECIDED
    if row.p_holm is not None and row.p_holm < level and beyond_floor(row):
        return _side(row)
    if row.estimate is not None and same(row):
        return Verdict.NO_DIFFERENCE
    return Verdict.NO_DIFFERENCE if narrow(row) and (holds_zero(row) or not beyond_floor(row)) else Verdict.UNDECIDED


def holds_zero(row: Row) -> bool:
    return row.low is not None and row.high is not None and row.low <= 0.0 <= row.high


def beyond_floor(row: Row) -> bool:
    return row.difference is None or row.floor is None or abs(row.difference) >= row.floor


def _side(row: Row) -> Verdict:
    better = direction(row.metric)
    if better is Better.NONE:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (row.sign > 0) == (better is Better.HIGHER) else Verdict.WORSE


def narrow(row: Row) -> bool:
    """Whether the interval is no wider than the goal asks."""
    return row.half_width is not None and row.goal is not None and row.half_width <= row.goal


def looks_level(level: float, tests: int, most_blocks: int) -> float:
    """The level of one look at one metric, so that all looks of all metrics together keep `level`."""
    return level / (max(1, tests) * max(1, most_blocks - MINIMUM_BLOCKS + 1))


def settled(row: Row, level: float) -> bool:
    """Whether the difference surely exceeds the goal: its width does not matter any more."""
    ends = row.ends(1 - level)
    return ends is not None and row.goal is not None and (ends[0] >= row.goal or ends[1] <= -row.goal)


def certainty(asked: Asked, rows: Sequence[Row], runs: Sequence[PairRuns]) -> tuple[bool, list[Row], str]:
    """(whether more blocks are not needed, the rows that wait for some, the reason where it is not an interval)."""
    going = [pair for pair in runs if not (always_failed(pair.a) or always_failed(pair.b))]
    if runs and not going:
        return True, [], "a side failed in every run"
    short = [pair.pair.name for pair in going if len(pair.whole) < MINIMUM_BLOCKS]
    if short or not runs:
        return False, [], f"{' and '.join(short) or 'no pair'}: fewer than {MINIMUM_BLOCKS} whole blocks"
    judged_rows = [row for row in rows if row.primary and row.half_width is not None]
    level = looks_level(asked.level, sum(row.p_holm is not None for row in rows if row.primary), asked.most_blocks)
    waiting = [row for row in judged_rows if not (narrow(row) or settled(row, level))]
    return not waiting, waiting, ""
