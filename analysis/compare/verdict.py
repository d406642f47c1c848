"""Blocks -> rows -> verdicts (docs/decisions/statistics.md).

Each metric gets its effect, its test and its A/A floor. Sides that can only be ordered (runs that never converged) get
exact sign tests over blocks, shares of runs that failed Fisher's test. Then come Holm's correction, the verdicts, and
whether further blocks are needed. *No difference* is a finding of its own: the whole interval is less than the goal. A
side that failed more often is not called better, nor the other one worse: its numbers are of the remaining runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, geometric_mean

import numpy as np

from analysis.compare.blocks import Block, MetricBlocks, PairRuns, SideRuns
from analysis.compare.question import Question
from analysis.compare.result import RUNS_FAILED, SURVIVORS, MetricKind, MetricRow, Verdict
from analysis.metrics import definitions
from analysis.metrics.definitions import PRIMARY, Better, DifferenceKind
from analysis.record.event_timeline import WHOLE_RUN
from analysis.stats import paired_differences
from analysis.stats.effect import ZERO, Interval, paired, with_floor
from analysis.stats.paired_differences import MINIMUM_BLOCKS, on_axis, sign_test
from analysis.stats.shares import Failures


def watched_alike(block: Block) -> tuple[float, float]:
    """Return both times cut to the shorter of the two watches: a side that is watched longer gains nothing
    by it."""
    horizon = min((each.number for each in (block.a, block.b) if each.censored), default=float("inf"))
    return min(block.a.number, horizon), min(block.b.number, horizon)


def block_order(block: Block, least: float = 0.0) -> int:
    """Return 1 if b's time is longer, -1 if it is shorter. A horizon below the other's time, or two times that are less
    than `least` apart, are a tie."""
    a, b = watched_alike(block)
    return 0 if abs(b - a) < least else int(np.sign(b - a))


def failure_row(runs: PairRuns, goal_percent: float) -> MetricRow | None:
    """Return runs that the system under test failed, if there are any; the goal is in percentage points."""
    a, b = len(runs.a.failed), len(runs.b.failed)
    if not (a or b):
        return None
    count = min(runs.a.counted, runs.b.counted)
    share = Failures(a, runs.a.counted, b, runs.b.counted) if count else None
    return MetricRow(
        pair=runs.pair.name, metric=RUNS_FAILED, event=WHOLE_RUN, words="runs that failed", primary=True,
        kind=MetricKind.RUNS, unit="points", a=float(a), b=float(b), failures=share,
        p=share.p if share and count >= MINIMUM_BLOCKS else None, effect=share.points / 100 if share else None,
        region=Interval(-goal_percent, goal_percent), sign=int(np.sign(share.points)) if share else 0,
    )  # fmt: skip


# `MetricBlocks.key` -> differences of A/A blocks on the same axis
DifferencesOnRecord = Mapping[tuple[str, ...], Sequence[float]]


def metric_row(found: MetricBlocks, level: float, goal_percent: float, on_record: DifferencesOnRecord) -> MetricRow:
    """Return a row with its uncorrected p-value, hence without a verdict. What has no number on the metric's scale is
    ordered block by block: times that some runs never reached, where differences below the smallest worth naming are
    ties, and ratios to a run at 0, where those inside the A/A floor of the other blocks are."""
    metric, quantum = definitions.metric(found.metric), definitions.quantum(found.metric)
    pairs = [watched_alike(block) for block in found.blocks]
    ratio = metric.difference_kind is DifferenceKind.RATIO
    numbers = [pair for pair in pairs if not ratio or min(pair) > 0.0]
    a, b = [one for one, _ in numbers], [other for _, other in numbers]
    is_ordered = found.censored or len(numbers) < len(pairs)
    has_ranges = any(not each.is_certain for block in found.blocks for each in (block.a, block.b))
    may_be_judged = has_ranges and not is_ordered and not found.why_no_verdict
    ranges = [block.ends for block in found.blocks] if may_be_judged else []
    effect, is_record = paired(a, b, ratio, quantum, ranges) if a else None, False
    smallest = 100 * metric.smallest / fmean(a) if ratio and a else metric.smallest
    has_p = len(pairs) >= MINIMUM_BLOCKS and not found.why_no_verdict
    if effect and has_p and len(a) >= MINIMUM_BLOCKS:
        effect, is_record = with_floor(effect, a, b, quantum, level, on_record.get(found.key, ()), smallest)
    row = MetricRow(
        pair=found.pair, metric=found.metric, event=found.event,
        words=metric.words.replace("throughput", found.throughput),
        primary=found.metric in PRIMARY if found.primary is None else found.primary,
        kind=MetricKind.RANK, unit="", measured=effect if found.censored else None, p=None, effect=None,
        blocks=found.blocks, sign=0, topology=found.topology, why_no_verdict=found.why_no_verdict, note=found.note,
    )  # fmt: skip
    if is_ordered or effect is None:
        signs = [block_order(block, metric.smallest) for block in found.blocks]
        if not found.censored and effect and effect.floor is not None:
            bound = abs(on_axis(effect.estimate, float(np.copysign(effect.floor, effect.estimate.mean))))
            is_tie = [min(pair) > 0.0 and abs(np.log(pair[1] / pair[0])) < bound for pair in pairs]
            signs = [0 if tie else sign for sign, tie in zip(signs, is_tie, strict=True)]
        sign, p = int(np.sign(sum(signs))), sign_test(signs) if has_p else None
        if (
            p is not None
            and not found.censored
            and sign * (fmean(y for _, y in pairs) - fmean(x for x, _ in pairs)) < 0
        ):
            p = 1.0  # more blocks go one way, and their mean the other
        return replace(row, p=p, effect=fmean(signs), sign=sign)
    mean = geometric_mean if ratio else fmean
    return replace(
        row, kind=MetricKind.RATIO if ratio else MetricKind.DIFFERENCE, unit="%" if ratio else metric.unit,
        measured=effect, a=mean(a), b=mean(b),
        p=effect.p_outside(ZERO) if has_p else None, effect=paired_differences.cliffs_delta(b, a),
        floor_on_record=is_record,
        region=region_of_goal(goal_percent, smallest, fmean(a), ratio), sign=int(np.sign(effect.estimate.mean)),
    )  # fmt: skip


def region_of_goal(goal_percent: float, smallest: float, mean: float, ratio: bool) -> Interval:
    """Return how far down and up a difference is less than the goal, in the row's unit.

    For a ratio +5 % is as far as its inverse, -4.8 %. The smallest difference worth naming applies to both sides, in
    the metric's own unit: 20 s of 40 s are 50 % up, and 50 % down.
    """
    if not ratio:
        goal = max(goal_percent / 100 * abs(mean), smallest)
        return Interval(-goal, goal)
    inverse = 100 * goal_percent / (100 + goal_percent)
    return Interval(-min(max(inverse, smallest), 100.0), max(goal_percent, smallest))


def direction(name: str) -> Better:
    """Return which direction of a row's metric is better."""
    return Better.LOWER if name == RUNS_FAILED else definitions.metric(name).better


def block_differences(found: MetricBlocks) -> list[float]:
    """Return differences on the axis of the metric's comparison, for later A/A floors; none if there is no such
    axis."""
    ratio = definitions.metric(found.metric).difference_kind is DifferenceKind.RATIO
    numbers = [(block.a.number, block.b.number) for block in found.blocks]
    if found.censored or found.why_no_verdict or (ratio and min(min(pair) for pair in numbers) <= 0):
        return []
    return [float(np.log(b / a)) if ratio else b - a for a, b in numbers]


def judge_rows(rows: Sequence[MetricRow], runs: Sequence[PairRuns], level: float) -> list[MetricRow]:
    """Return every row with its verdict; primary rows are corrected among themselves, and so are the others."""
    by_fact = {pair.pair.name for pair in runs if one_side_always_failed(pair)}
    verdicts: dict[int, MetricRow] = {}
    for primary in (True, False):
        family = [i for i, row in enumerate(rows) if row.primary is primary]
        p_of = {i: p for i in family if (p := rows[i].p) is not None and not same_in_every_block(rows[i])}
        p_holm = dict(zip(p_of, paired_differences.holm(list(p_of.values())).tolist(), strict=True))
        for i in family:
            row = _with_needed_blocks(replace(rows[i], p_holm=p_holm.get(i)), level / max(1, len(p_of)))
            fact = row.metric == RUNS_FAILED and row.pair in by_fact
            if row.p is None:
                verdict = Verdict.UNDECIDED
            elif row.p_holm is not None and row.p_holm < level and beyond_floor(row):
                verdict = better_or_worse(row)
            else:
                verdict = Verdict.NO_DIFFERENCE if row.within_goal else Verdict.UNDECIDED
            verdict = Verdict.NONE if row.why_no_verdict else verdict
            verdicts[i] = replace(row, verdict=better_or_worse(row) if fact else verdict)
    judged_rows = [verdicts[i] for i in range(len(rows))]
    refusals = {(row.pair, verdict) for row in judged_rows for verdict in praise_of_survivors(row)}
    return [
        replace(row, verdict=Verdict.NONE, why_no_verdict=SURVIVORS)
        if row.metric != RUNS_FAILED and (row.pair, row.verdict) in refusals else row
        for row in judged_rows
    ]  # fmt: skip


def praise_of_survivors(row: MetricRow) -> tuple[Verdict, ...]:
    """Return the verdicts that a row of failures rules out: those in favour of the side that failed more often, unless
    both are shown to fail alike."""
    if row.metric != RUNS_FAILED or not row.sign or row.verdict is Verdict.NO_DIFFERENCE:
        return ()
    return (Verdict.BETTER if row.sign > 0 else Verdict.WORSE,)


def same_in_every_block(row: MetricRow) -> bool:
    """Return whether values are equal in every block: there is no test then, which costs the other tests nothing."""
    is_certain = row.measured is None or len(set(row.measured.extremes)) < 2
    return bool(row.blocks) and all(block.a == block.b for block in row.blocks) and is_certain


def always_failed(side: SideRuns) -> bool:
    return not side.complete and len(side.failed) >= MINIMUM_BLOCKS


def one_side_always_failed(runs: PairRuns) -> bool:
    """Return whether one side failed in each of three runs or more, and the other in none: a fact that needs no
    test."""
    return any(
        always_failed(one) and not other.failed and other.counted >= MINIMUM_BLOCKS
        for one, other in ((runs.a, runs.b), (runs.b, runs.a))
    )


def _with_needed_blocks(row: MetricRow, level: float) -> MetricRow:
    effect = row.counted
    if effect is None or row.p is None or is_wide_by_measurement(row):
        return row
    deviation, room = effect.deviation, _room(row)
    one_way = len({np.sign(each.mean) for each in effect.every}) == 1
    least_size = min(abs(each.mean) for each in effect.every) if one_way else 0.0
    finds = paired_differences.blocks_needed(deviation, room, level)
    excludes = paired_differences.blocks_to_exclude(deviation, room)
    return replace(
        row,
        needed_blocks=None if finds is None or excludes is None else max(finds, excludes),
        needed_for_seen=paired_differences.blocks_needed(deviation, least_size, level),
    )


def _room(row: MetricRow) -> float:
    """Return the room between no difference and the goal, without the possible measurement error."""
    return 0.0 if row.counted is None or row.region is None else row.counted.room(row.region)


def holds_zero(row: MetricRow) -> bool:
    return row.low is not None and row.high is not None and row.low <= 0.0 <= row.high


def beyond_floor(row: MetricRow) -> bool:
    """Return whether the difference is as large as the floor, for any measurement error."""
    floor = None if row.measured is None else row.measured.floor
    return row.measured is None or floor is None or all(size >= floor for size in row.measured.sizes)


def inside_floor(row: MetricRow) -> bool:
    floor = None if row.measured is None else row.measured.floor
    return row.measured is not None and floor is not None and all(size < floor for size in row.measured.sizes)


def rows_of_model(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return the numbers with the smallest and the largest difference of a block, and no verdict. If no number of a
    block differs the runs do not either: hidden losses were the same on both sides."""
    blocks = {(row.pair, block.number) for row in rows for block in row.blocks if block.a != block.b}

    def spread(row: MetricRow) -> tuple[float, float] | None:
        """Return the spread with possible hidden losses; None if sides can only be ordered."""
        ends = []
        for block in row.blocks:
            numbers = (block.a.number, block.b.number)
            for a, b in block.ends if (row.pair, block.number) in blocks else (numbers, numbers):
                ends.append(100 * (b / a - 1) if row.kind is MetricKind.RATIO else b - a)
        return None if row.counted is None else (min(ends), max(ends))

    return [
        replace(row, spread=spread(row), p=None, floor_on_record=False, region=None, verdict=Verdict.NONE,
                measured=None if row.measured is None else replace(row.measured, floor=None))
        for row in rows
    ]  # fmt: skip


def better_or_worse(row: MetricRow) -> Verdict:
    preference = direction(row.metric)
    if preference is Better.NONE:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (row.sign > 0) == (preference is Better.HIGHER) else Verdict.WORSE


def is_wide_by_measurement(row: MetricRow) -> bool:
    """Return whether the measurement error is the goal or more, which no further block can reduce."""
    return row.counted is not None and bool(row.counted.extremes) and row.p is not None and _room(row) <= 0.0


def level_of_one_check(level: float, tests: int, most_blocks: int) -> float:
    """Return the level of one look at one metric, so that all looks of all metrics together keep `level`."""
    return level / (max(1, tests) * max(1, most_blocks - MINIMUM_BLOCKS + 1))


def certainty(
    question: Question, rows: Sequence[MetricRow], runs: Sequence[PairRuns]
) -> tuple[bool, list[MetricRow], str]:
    """Return whether no more blocks are needed, the rows that wait for some, and the reason if it is not an
    interval."""
    open_pairs = [pair for pair in runs if not (always_failed(pair.a) or always_failed(pair.b))]
    if runs and not open_pairs:
        return True, [], "a side failed in every run"
    short_pairs = [pair.pair.name for pair in open_pairs if len(pair.whole) < MINIMUM_BLOCKS]
    if short_pairs or not runs:
        return False, [], f"{' and '.join(short_pairs) or 'no pair'}: fewer than {MINIMUM_BLOCKS} whole blocks"
    names = {pair.pair.name for pair in open_pairs}
    judged_rows = [row for row in rows if row.primary and row.half_width is not None and row.pair in names]
    level = level_of_one_check(
        question.level, sum(row.p_holm is not None for row in rows if row.primary), question.most_blocks
    )
    open_rows = [row for row in judged_rows if not _is_settled(row, rows, level)]
    return not open_rows, open_rows, ""


def _is_settled(row: MetricRow, rows: Sequence[MetricRow], level: float) -> bool:
    """Return whether a row needs no further block; `level`: of one look. Failures wait while they refuse a verdict of
    the goal's size, and while sides do not fail alike and nothing is called: only the side that failed less can be.
    """
    if row.failures is not None:
        rest = [each for each in rows if each.primary and each.pair == row.pair and each is not row]
        refuses = any(each.why_no_verdict == SURVIVORS and not each.within_goal for each in rest)
        is_unopposed = row.failures.alike or any(each.called for each in rest)
        return row.within_goal or row.failures.p < level or (is_unopposed and not refuses)
    # So many blocks find the goal, or rule it out, in four of five cases. Their scatter alone decides, so that a look
    # after every block favours no answer.
    has_enough = row.needed_blocks is not None and row.needed_blocks <= len(row.blocks)
    low, high = row.ends(1 - level) or (0.0, 0.0)
    is_beyond = row.region is not None and (low >= row.region.high or high <= row.region.low)
    return has_enough or is_wide_by_measurement(row) or is_beyond
