"""Blocks -> rows, before the correction: how each metric is compared, its estimate, its test and its A/A floor."""

from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean

import numpy as np

from analysis import metric_directions, statistics
from analysis.comparison import floor, intervals
from analysis.comparison.answer import FAILED, Kind, Row
from analysis.comparison.blocks import Measured
from analysis.comparison.intervals import MINIMUM_BLOCKS, Estimate
from analysis.comparison.ranks import ranked
from analysis.metric_directions import CONVERGENCE, PRIMARY, Better, Compared, Metric
from analysis.steady import WINDOW_S

OnRecord = Mapping[tuple[str, str], Sequence[float]]  # (metric, event) -> differences of A/A blocks on the same axis


def of_metric(found: Measured, level: float, goal_percent: float, on_record: OnRecord) -> Row:
    """A row with its p-value as it is, hence without a verdict."""
    metric = metric_directions.metric(found.metric)
    if found.censored:
        return ranked(found, metric.words)
    a = [block.a.number for block in found.blocks]
    b = [block.b.number for block in found.blocks]
    ratio = metric.compared is Compared.RATIO and min(a + b) > 0
    seen = _estimate(a, b, ratio, _quantum(metric))
    smallest = 100 * metric.smallest / fmean(a) if ratio else metric.smallest
    enough = len(a) >= MINIMUM_BLOCKS
    before = on_record.get((found.metric, found.event), ()) if ratio is (metric.compared is Compared.RATIO) else ()
    bound, recorded = _floor(a, b, seen, _quantum(metric), level, before) if enough else (None, False)
    return Row(
        pair=found.pair,
        metric=found.metric,
        event=found.event,
        words=metric.words,
        primary=found.metric in PRIMARY,
        kind=Kind.RATIO if ratio else Kind.DIFFERENCE,
        unit="%" if ratio else metric.unit,
        a=geometric_mean(a) if ratio else fmean(a),
        b=geometric_mean(b) if ratio else fmean(b),
        estimate=seen,
        p=float(intervals.p_value(seen.mean, seen.error, seen.blocks)) if enough else None,
        effect=statistics.cliffs_delta(b, a),
        floor=None if bound is None else max(bound, smallest),
        floor_on_record=recorded,
        goal=max(goal_percent if ratio else goal_percent / 100 * abs(fmean(a)), smallest),
        blocks=found.blocks,
        sign=int(np.sign(seen.mean)),
        note=_why_no_ratio(metric) if metric.compared is Compared.RATIO and not ratio else "",
    )


def _estimate(a: Sequence[float], b: Sequence[float], ratio: bool, quantum: float) -> Estimate:
    if len(a) > 1:
        return intervals.estimate(a, b, ratio, quantum)
    return Estimate(float(np.log(b[0] / a[0])) if ratio else b[0] - a[0], 0.0, 1, ratio)


def _quantum(metric: Metric) -> float:
    """The step of its values: whole windows, whole seconds, whole things; 0 for what is measured finely."""
    if metric.name.startswith(CONVERGENCE) or metric.name == "windows_at_zero_s":
        return WINDOW_S
    return 1.0 if metric.compared is Compared.DIFFERENCE and metric.unit not in ("points", "") else 0.0


def _floor(
    a: Sequence[float], b: Sequence[float], seen: Estimate, quantum: float, level: float, before: Sequence[float]
) -> tuple[float, bool]:
    """The A/A floor in the row's unit, on the side on which b lies: −33 % is as far as +50 %. And whether it comes from
    comparisons on record.
    """
    first, second = (np.asarray(side, dtype=np.float64) for side in (a, b))
    step = quantum / float(first.mean()) if seen.logarithmic else quantum
    if seen.logarithmic:
        first, second = np.log(first), np.log(second)
    here = float(floor.of_neighbours(first, second, level, step))
    known = floor.on_record(before, len(a), level)
    bound = float(np.copysign(max(here, known or 0.0), seen.mean))
    return abs(intervals.in_units(seen, bound)), known is not None and known > here


def _why_no_ratio(metric: Metric) -> str:
    return f"compared in {metric.unit} because a ratio needs values above 0"


def direction(name: str) -> Better:
    """Which way the metric of a row is better."""
    return Better.LOWER if name == FAILED else metric_directions.metric(name).better


def block_differences(found: Measured) -> list[float]:
    """On the axis on which the metric is compared; none where that cannot be said. For A/A comparisons on record."""
    ratio = metric_directions.metric(found.metric).compared is Compared.RATIO
    numbers = [(block.a.number, block.b.number) for block in found.blocks]
    if found.censored or (ratio and min(min(pair) for pair in numbers) <= 0):
        return []
    return [float(np.log(b / a)) if ratio else b - a for a, b in numbers]
