"""Small fits: coefficients that are never below 0, parameters that data cannot separate, and intervals by leaving runs
out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import t as student

from scheduler_plugins.simulator.work import Costs

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
OWN_SHARE = 0.02  # of a column's variation that no other column explains: with less it cannot be separated from them
LEAST_ROWS = 10


@dataclass(frozen=True)
class CostEstimate:
    """A parameter of Costs. `value` None: it keeps its default, for the reason `why`; `low` to `high`: 95 %, None with
    a single run."""

    name: str
    value: float | None
    default: float
    low: float | None
    high: float | None
    runs: int
    why: str = ""


@dataclass(frozen=True)
class Linear:
    """y of each row from its columns, none of whose coefficients is below 0. `fixed`: a column's coefficient if it
    cannot be separated from others; None: of no interest."""

    names: tuple[str, ...]
    fixed: tuple[float | None, ...]
    x: Floats
    y: Floats
    least_rows: int = LEAST_ROWS  # with fewer they say nothing

    @classmethod
    def joined(cls, parts: Sequence[Linear]) -> Linear:
        first = parts[0]
        x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
        return cls(first.names, first.fixed, x, y, first.least_rows)


@dataclass(frozen=True)
class Solution:
    """Coefficients by name of column. Each has the unit of y for one of the column's; none is below 0."""

    values: dict[str, float]
    unknown: dict[str, str]  # why it has none


def solve(linear: Linear) -> Solution:
    """Solve; columns with too little information are taken at their default, the last of them first, as the first ones
    matter most."""
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    indices, y = list(range(len(linear.names))), linear.y.copy()
    while indices:
        shares = [_own_share(linear.x[:, indices], place, linear.least_rows) for place in range(len(indices))]
        place = max((place for place, share in enumerate(shares) if share < OWN_SHARE), default=-1)
        if place < 0:
            break
        column = indices.pop(place)
        name, default = linear.names[column], linear.fixed[column]
        names = [linear.names[other] for other in indices]
        reasons[name] = _why_unknown(linear.x[:, column], shares[place], names, linear.least_rows)
        y = y - linear.x[:, column] * (default or 0.0)
    if indices:
        scale = np.maximum(np.abs(linear.x[:, indices]).max(axis=0), 1e-12)
        solution, _ = nnls(linear.x[:, indices] / scale, y)
        values = {linear.names[column]: float(v) for column, v in zip(indices, solution / scale, strict=True)}
    return Solution(values, reasons)


def _own_share(x: Floats, place: int, least_rows: int) -> float:
    """Return the share of the square of a column that no combination of the others gives; 0 if it is all zero."""
    column, matrix = x[:, place], np.delete(x, place, axis=1)
    size = float(column @ column)
    if size <= 0 or len(column) < least_rows:
        return 0.0
    if not matrix.shape[1]:
        return 1.0
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-12)
    best, *_ = np.linalg.lstsq(matrix / scale, column, rcond=None)
    rest = column - (matrix / scale) @ best
    return float(rest @ rest) / size


def _why_unknown(column: Floats, share: float, others: Sequence[str], least_rows: int) -> str:
    if not column.any():
        return "nothing of it happened in these runs"
    if len(column) < least_rows:
        return f"only {len(column)} rows say anything"
    return f"cannot be told from {', '.join(others)} here ({100 * share:.1f} % of it is its own)"


def jackknife(runs: int, fit: Callable[[Sequence[int]], float | None]) -> tuple[float | None, float | None]:
    """Return the interval of the fit of all runs, from the fits of all but one; None if there is none."""
    if runs < 2:
        return None, None
    center = fit(range(runs))
    parts = [fit([other for other in range(runs) if other != place]) for place in range(runs)]
    numbers = np.array([part for part in parts if part is not None])
    if center is None or len(numbers) < runs:
        return None, None
    error = math.sqrt((runs - 1) / runs * float(((numbers - numbers.mean()) ** 2).sum()))
    if center == 0.0 and not numbers.any():
        return None, None  # it is held at 0, whatever is left out: that says nothing about its distance below
    half = float(student.ppf((1 + CONFIDENCE) / 2, runs - 1)) * error
    return max(0.0, center - half), center + half


def linear_estimates(parts: Sequence[Linear], default: Costs, wanted: Sequence[str]) -> list[CostEstimate]:
    """Return estimates; `parts`: one a run."""
    parts = [part for part in parts if len(part.y)]
    if not parts:
        return [default_estimate(name, default, "no run has the measurements that it takes") for name in wanted]
    solution = solve(Linear.joined(parts))
    estimates = []
    for name in wanted:
        if name in solution.unknown:
            estimates.append(default_estimate(name, default, solution.unknown[name]))
            continue

        def value(chosen: Sequence[int], name: str = name) -> float | None:
            return solve(Linear.joined([parts[place] for place in chosen])).values.get(name)

        low, high = jackknife(len(parts), value)
        estimates.append(CostEstimate(name, solution.values[name], getattr(default, name), low, high, len(parts)))
    return estimates


def default_estimate(name: str, default: Costs, why: str) -> CostEstimate:
    return CostEstimate(name, None, getattr(default, name), None, None, 0, why)


Part = TypeVar("Part")


def estimate(
    name: str, parts: Sequence[Part], value: Callable[[Sequence[Part]], float | None], default: Costs, why: str
) -> CostEstimate:
    """Return a parameter as `value` gives it for all parts, one a run; if there is none, its default, for the reason
    `why`."""

    def of(places: Sequence[int]) -> float | None:
        return value([parts[place] for place in places])

    total = of(range(len(parts))) if parts else None
    if total is None:
        return default_estimate(name, default, why)
    return CostEstimate(name, total, getattr(default, name), *jackknife(len(parts), of), len(parts))
