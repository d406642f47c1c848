"""Where a step may lie: the likeliest first night of the new level, and the nights that may have been it as well. Pure.

With levels and scatter known, moving the border by one night costs what that night fits worse to its new side, in
squared standard deviations. Every border that costs little more than the cheapest one may be the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.history.changes import Step, scatter

# A border that fits worse by more than this is not the true one; how often that is wrong is in decision 0012.
DOUBT = 8.0
LEAST_SCATTER = 1e-3  # of the step: where nothing scatters a border is where the values say


@dataclass(frozen=True)
class Edges:
    """Places among the values: the last clearly good one, the likeliest first bad one, the first clearly bad one."""

    good: int
    since: int
    bad: int


def edges(values: Sequence[float], step: Step) -> Edges:
    costs = _costs(values, step)
    least = min(costs.values())
    since = min(costs, key=lambda border: (costs[border], abs(border - step.after.start)))
    likely = [border for border, cost in costs.items() if cost <= least + DOUBT]
    return Edges(min(likely) - 1, since, max(likely))


def _costs(values: Sequence[float], step: Step) -> dict[int, float]:
    """By border (the first value of the new level): how much worse than the border found it fits."""
    first, found, last = step.before.start, step.after.start, step.after.stop
    sigma = max(scatter(values[first:last]), LEAST_SCATTER * abs(step.difference))
    for_new = [_prefers_new(value, step) / sigma**2 for value in values]
    costs, cost = {found: 0.0}, 0.0
    for border in range(found - 1, first, -1):
        cost -= for_new[border]
        costs[border] = cost
    cost = 0.0
    for border in range(found + 1, last):
        cost += for_new[border - 1]
        costs[border] = cost
    return costs


def _prefers_new(value: float, step: Step) -> float:
    """How much nearer to the new level than to the old one, in squares."""
    return (value - step.before.level) ** 2 - (value - step.after.level) ** 2
