"""Blocks -> rows -> verdicts (docs/decisions/statistics.md).

Each metric gets its estimate, its test and its A/A floor. Sides that can only be ordered (runs that never converged)
get exact sign tests over blocks, shares of runs that failed Fisher's test. Then come Holm's correction, the verdicts,
and whether further blocks are needed. *No difference* is a finding of its own: the whole interval is less than the
goal. A side that failed more often is not called better, nor the other one worse: its numbers are of the runs left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from statistics import fmean, geometric_mean

import numpy as np

from analysis.compare.blocks import Block, MetricBlocks, PairRuns, SideRuns
from analysis.compare.question import Question
from analysis.compare.result import RUNS_FAILED, SURVIVORS, Kind, MetricRow, Verdict
from analysis.metrics import definitions
from analysis.metrics.definitions import PRIMARY, Better, DifferenceKind
from analysis.record.event_timeline import WHOLE_RUN
from analysis.stats import inference, paired_differences, same_code_floors
from analysis.stats.paired_differences import MINIMUM_BLOCKS, Estimate, in_units, on_axis, sign_test
from analysis.stats.shares import Failures


def rank_row(found: MetricBlocks, words: str) -> MetricRow:
    """Some runs never got there: which side was first in each block. A horizon is not a time."""
    signs = [block_order(block) for block in found.blocks]
    return MetricRow(
        pair=found.pair, metric=found.metric, event=found.event, words=words, primary=found.metric in PRIMARY,
        kind=Kind.RANK, unit="", p=sign_test(signs) if len(signs) >= MINIMUM_BLOCKS else None,
        effect=fmean(signs) if signs else None, blocks=found.blocks, sign=int(np.sign(sum(signs))),
        topology=found.topology,
    )  # fmt: skip


def block_order(block: Block) -> int:
    """1 where b's time is longer. Longer than a horizon that lies below the other's time says nothing: a tie.

    So both sides count as if they had been watched as long as the one that was watched less: a side that is watched
    longer gains nothing by it.
    """
    a, b = block.a, block.b
    if a.censored and b.censored:
        return 0
    if a.censored:
        return -1 if a.number >= b.number else 0
    if b.censored:
        return 1 if b.number >= a.number else 0
    return int(np.sign(b.number - a.number))


def failure_row(runs: PairRuns, goal_percent: float) -> MetricRow | None:
    """Runs that the system under test failed, where there are any; the goal is so many percentage points."""
    a, b = len(runs.a.failed), len(runs.b.failed)
    if not (a or b):
        return None
    counted = min(runs.a.counted, runs.b.counted)
    found = Failures(a, runs.a.counted, b, runs.b.counted) if counted else None
    return MetricRow(
        pair=runs.pair.name, metric=RUNS_FAILED, event=WHOLE_RUN, words="runs that failed", primary=True,
        kind=Kind.RUNS, unit="points", a=float(a), b=float(b), failures=found,
        p=found.p if found and counted >= MINIMUM_BLOCKS else None, effect=found.points / 100 if found else None,
        goal=goal_percent, goal_low=-goal_percent, sign=int(np.sign(found.points)) if found else 0,
    )  # fmt: skip


# `MetricBlocks.key` -> differences of A/A blocks on the same axis
DifferencesOnRecord = Mapping[tuple[str, ...], Sequence[float]]


def metric_row(found: MetricBlocks, level: float, goal_percent: float, on_record: DifferencesOnRecord) -> MetricRow:
    """A row with its p-value as it is, hence without a verdict."""
    metric, quantum = definitions.metric(found.metric), definitions.quantum(found.metric)
    if found.censored:
        return rank_row(found, metric.words)
    a, b = ([getattr(block, side).number for block in found.blocks] for side in ("a", "b"))
    is_ratio = metric.difference_kind is DifferenceKind.RATIO
    ratio = is_ratio and min(a + b) > 0
    estimate, extremes = _estimate_of(a, b, ratio, quantum), _extremes(found, ratio, quantum)
    smallest = 100 * metric.smallest / fmean(a) if ratio else metric.smallest
    enough = len(a) >= MINIMUM_BLOCKS and not found.why_no_verdict
    before = on_record.get(found.key, ()) if ratio is is_ratio else ()
    no_ratio = f"compared in {metric.unit} because a ratio needs values above 0" if is_ratio and not ratio else ""
    bound, recorded = _row_floor(a, b, estimate, quantum, level, before) if enough else (None, False)
    goal_low, goal = _goals(goal_percent, smallest, fmean(a), ratio)
    mean = geometric_mean if ratio else fmean
    return MetricRow(
        pair=found.pair, metric=found.metric, event=found.event, words=metric.words, primary=found.metric in PRIMARY,
        kind=Kind.RATIO if ratio else Kind.DIFFERENCE, unit="%" if ratio else metric.unit, a=mean(a), b=mean(b),
        estimate=estimate, p=_p_value((estimate, *extremes)) if enough else None, effect=inference.cliffs_delta(b, a),
        floor=None if bound is None else max(bound, smallest), floor_on_record=recorded, goal=goal, goal_low=goal_low,
        blocks=found.blocks, sign=int(np.sign(estimate.mean)), note="; ".join(filter(None, (found.note, no_ratio))),
        why_no_verdict=found.why_no_verdict, extremes=extremes, topology=found.topology, highest=found.highest,
    )  # fmt: skip


def _goals(goal_percent: float, smallest: float, mean: float, ratio: bool) -> tuple[float, float]:
    """How far down and up a difference is less than the goal, in the row's unit.

    Of a ratio +5 % is as far as its inverse, -4.8 %. What is not worth naming is so on both sides, in the metric's own
    unit: 20 s of 40 s are 50 % up, and 50 % down.
    """
    if not ratio:
        goal = max(goal_percent / 100 * abs(mean), smallest)
        return -goal, goal
    inverse = 100 * goal_percent / (100 + goal_percent)
    return -min(max(inverse, smallest), 100.0), max(goal_percent, smallest)


def _estimate_of(a: Sequence[float], b: Sequence[float], ratio: bool, quantum: float) -> Estimate:
    if len(a) > 1:
        return paired_differences.estimate(a, b, ratio, quantum)
    return Estimate(float(np.log(b[0] / a[0])) if ratio else b[0] - a[0], 0.0, 1, ratio)


MOST_ENUMERATED = 10  # blocks: so many have 1,024 choices
Pair = tuple[float, float]  # a's value and b's, of one block


def _extremes(found: MetricBlocks, ratio: bool, quantum: float) -> tuple[Estimate, ...]:
    """Each block's difference as low or as high as it may be. The least favourable p-value and ends of the interval are
    among these: the mean is linear in the differences and its error convex.
    """
    if not found.highest:
        return ()
    blocks = zip(found.blocks, found.highest, strict=True)
    choices = [((most.a.number, least.b.number), (least.a.number, most.b.number)) for least, most in blocks]
    every = (
        _estimate_of([a for a, _ in chosen], [b for _, b in chosen], ratio, quantum) for chosen in _chosen(choices)
    )
    return tuple(dict.fromkeys(every))


def _chosen(choices: Sequence[tuple[Pair, Pair]]) -> Iterator[tuple[Pair, ...]]:
    """All of them; of many blocks only those that spread the differences most: the lower ones low, the others high."""
    if len(choices) <= MOST_ENUMERATED:
        yield from product(*choices)
        return
    order = sorted(range(len(choices)), key=lambda block: sum(b - a for a, b in choices[block]))
    for below in range(len(order) + 1):
        low = set(order[:below])
        yield tuple(choice[block not in low] for block, choice in enumerate(choices))


def _p_value(estimates: Sequence[Estimate]) -> float:
    """Of the least favourable estimate; 1 where they do not agree which side is better."""
    if len({np.sign(each.mean) for each in estimates}) > 1:
        return 1.0
    means, errors = (np.array([getattr(each, name) for each in estimates]) for name in ("mean", "error"))
    return float(paired_differences.p_value(means, errors, estimates[0].blocks).max())


def _row_floor(
    a: Sequence[float], b: Sequence[float], estimate: Estimate, quantum: float, level: float, before: Sequence[float]
) -> tuple[float, bool]:
    """The A/A floor in the row's unit, on the side on which b lies: −33 % is as far as +50 %. And whether it comes from
    comparisons on record.
    """
    first, second = (np.asarray(side, dtype=np.float64) for side in (a, b))
    step = paired_differences.relative_step(first, second, quantum) if estimate.logarithmic else quantum
    if estimate.logarithmic:
        first, second = np.log(first), np.log(second)
    in_series = float(same_code_floors.neighbour_floor(first, second, level, step))
    on_record = same_code_floors.record_floor(before, len(a), level)
    bound = float(np.copysign(max(in_series, on_record or 0.0), estimate.mean))
    return abs(paired_differences.in_units(estimate, bound)), on_record is not None and on_record > in_series


def direction(name: str) -> Better:
    """Which way the metric of a row is better."""
    return Better.LOWER if name == RUNS_FAILED else definitions.metric(name).better


def block_differences(found: MetricBlocks) -> list[float]:
    """On the axis on which the metric is compared; none where that cannot be said. For A/A comparisons on record."""
    ratio = definitions.metric(found.metric).difference_kind is DifferenceKind.RATIO
    numbers = [(block.a.number, block.b.number) for block in found.blocks]
    if found.censored or found.why_no_verdict or (ratio and min(min(pair) for pair in numbers) <= 0):
        return []
    return [float(np.log(b / a)) if ratio else b - a for a, b in numbers]


def judge_rows(rows: Sequence[MetricRow], runs: Sequence[PairRuns], level: float) -> list[MetricRow]:
    """Every row with its verdict; primary rows are corrected among themselves, and so are the others."""
    by_fact = {pair.pair.name for pair in runs if one_side_always_failed(pair)}
    verdicts: dict[int, MetricRow] = {}
    for primary in (True, False):
        family = [i for i, row in enumerate(rows) if row.primary is primary]
        p_of = {i: p for i in family if (p := rows[i].p) is not None and not same_in_every_block(rows[i])}
        p_holm = dict(zip(p_of, inference.holm(list(p_of.values())).tolist(), strict=True))
        for i in family:
            row = _with_needed_blocks(replace(rows[i], p_holm=p_holm.get(i)), level / max(1, len(p_of)))
            fact = row.metric == RUNS_FAILED and row.pair in by_fact
            verdicts[i] = replace(row, verdict=better_or_worse(row) if fact else _verdict(row, level))
    judged = [verdicts[i] for i in range(len(rows))]
    refused = {(row.pair, verdict) for row in judged for verdict in praise_of_survivors(row)}
    return [
        replace(row, verdict=Verdict.NONE, why_no_verdict=SURVIVORS)
        if row.metric != RUNS_FAILED and (row.pair, row.verdict) in refused else row
        for row in judged
    ]  # fmt: skip


def praise_of_survivors(row: MetricRow) -> tuple[Verdict, ...]:
    """Return what a row of failures leaves no ground for: a call for the side that failed more often, unless both are
    shown to fail alike."""
    if row.metric != RUNS_FAILED or not row.sign or row.verdict is Verdict.NO_DIFFERENCE:
        return ()
    return (Verdict.BETTER if row.sign > 0 else Verdict.WORSE,)


def same_in_every_block(row: MetricRow) -> bool:
    """Equal in every block: no test, and it costs the others nothing."""
    return bool(row.blocks) and all(block.a == block.b for block in row.blocks) and len(set(row.extremes)) < 2


def always_failed(side: SideRuns) -> bool:
    return not side.complete and len(side.failed) >= MINIMUM_BLOCKS


def one_side_always_failed(runs: PairRuns) -> bool:
    """A fact that needs no test: one side failed in each of three runs or more, and the other in none of as many."""
    return any(
        always_failed(one) and not other.failed and other.counted >= MINIMUM_BLOCKS
        for one, other in ((runs.a, runs.b), (runs.b, runs.a))
    )


def _with_needed_blocks(row: MetricRow, level: float) -> MetricRow:
    if row.estimate is None or row.p is None or is_wide_by_the_unseen(row):
        return row
    every = (row.estimate, *row.extremes)
    deviation, room = max(each.deviation for each in every), _room(row)
    seen = min(abs(each.mean) for each in every) if len({np.sign(each.mean) for each in every}) == 1 else 0.0
    finds = paired_differences.blocks_needed(deviation, room, level)
    excludes = paired_differences.blocks_to_exclude(deviation, room)
    return replace(
        row,
        needed_blocks=None if finds is None or excludes is None else max(finds, excludes),
        needed_for_seen=paired_differences.blocks_needed(deviation, seen, level),
    )


def _room(row: MetricRow) -> float:
    """Between no difference and the goal, on the nearer side of the axis, without what may have been lost unseen."""
    if row.estimate is None or row.goal is None or row.goal_low is None:
        return 0.0
    unseen = [0.0, *(each.mean - row.estimate.mean for each in row.extremes)]
    down = inf if row.kind is Kind.RATIO and row.goal_low <= -100.0 else -on_axis(row.estimate, row.goal_low)
    return min(on_axis(row.estimate, row.goal) - max(unseen), down + min(unseen))


def _verdict(row: MetricRow, level: float) -> Verdict:
    if row.why_no_verdict:
        return Verdict.NONE
    if row.p is None:
        return Verdict.UNDECIDED
    if row.p_holm is not None and row.p_holm < level and beyond_floor(row):
        return better_or_worse(row)
    return Verdict.NO_DIFFERENCE if row.within_goal else Verdict.UNDECIDED


def holds_zero(row: MetricRow) -> bool:
    return row.low is not None and row.high is not None and row.low <= 0.0 <= row.high


def beyond_floor(row: MetricRow) -> bool:
    """Whatever became of tuples that may be lost unseen."""
    return row.floor is None or all(size >= row.floor for size in _sizes(row))


def inside_floor(row: MetricRow) -> bool:
    """Whatever became of tuples that may be lost unseen."""
    sizes = _sizes(row)
    return row.floor is not None and bool(sizes) and all(size < row.floor for size in sizes)


def _sizes(row: MetricRow) -> list[float]:
    """Of the difference, and of what it may have been."""
    return [] if row.estimate is None else [abs(in_units(each, each.mean)) for each in (row.estimate, *row.extremes)]


def better_or_worse(row: MetricRow) -> Verdict:
    better = direction(row.metric)
    if better is Better.NONE:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (row.sign > 0) == (better is Better.HIGHER) else Verdict.WORSE


def is_wide_by_the_unseen(row: MetricRow) -> bool:
    """What may have been lost unseen is the goal or more, and no block takes that away."""
    return bool(row.extremes) and row.p is not None and _room(row) <= 0.0


def level_of_one_check(level: float, tests: int, most_blocks: int) -> float:
    """The level of one look at one metric, so that all looks of all metrics together keep `level`."""
    return level / (max(1, tests) * max(1, most_blocks - MINIMUM_BLOCKS + 1))


def certainty(
    question: Question, rows: Sequence[MetricRow], runs: Sequence[PairRuns]
) -> tuple[bool, list[MetricRow], str]:
    """(whether more blocks are not needed, the rows that wait for some, the reason where it is not an interval)."""
    open_pairs = [pair for pair in runs if not (always_failed(pair.a) or always_failed(pair.b))]
    if runs and not open_pairs:
        return True, [], "a side failed in every run"
    short = [pair.pair.name for pair in open_pairs if len(pair.whole) < MINIMUM_BLOCKS]
    if short or not runs:
        return False, [], f"{' and '.join(short) or 'no pair'}: fewer than {MINIMUM_BLOCKS} whole blocks"
    names = {pair.pair.name for pair in open_pairs}
    judged_rows = [row for row in rows if row.primary and row.half_width is not None and row.pair in names]
    level = level_of_one_check(
        question.level, sum(row.p_holm is not None for row in rows if row.primary), question.most_blocks
    )
    waiting = [row for row in judged_rows if not _is_settled(row, rows, level)]
    return not waiting, waiting, ""


def _is_settled(row: MetricRow, rows: Sequence[MetricRow], level: float) -> bool:
    """Whether no further block is needed for it; `level`: of one look. Failures wait while they refuse a call of the
    goal's size, and while sides are not alike of which nothing is called: only the one that failed less can be.
    """
    if row.failures is not None:
        others = [each for each in rows if each.primary and each.pair == row.pair and each is not row]
        refuses = any(each.why_no_verdict == SURVIVORS and not each.within_goal for each in others)
        unopposed = row.failures.alike or any(each.called for each in others)
        return row.within_goal or row.failures.p < level or (unopposed and not refuses)
    # So many blocks find the goal, or rule it out, in four of five cases. Their scatter alone decides, so to look after
    # every block favours no answer.
    enough = row.needed_blocks is not None and row.needed_blocks <= len(row.blocks)
    low, high = row.ends(1 - level) or (0.0, 0.0)
    beyond = row.goal is not None and row.goal_low is not None and (low >= row.goal or high <= row.goal_low)
    return enough or is_wide_by_the_unseen(row) or beyond
