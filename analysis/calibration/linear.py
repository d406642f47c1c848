"""Small fits: coefficients that are never below 0, parameters that data cannot separate, and intervals by leaving runs
out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import t as student

from scheduler_plugins.simulator.work import Costs

Floats = NDArray[np.float64]
Part = TypeVar("Part")  # what one run contributes to a fit
CONFIDENCE = 0.95
OWN_SHARE = 0.02  # of a column's variation that no other column explains: with less it cannot be separated from them
LEAST_ROWS = 10
NO_ROWS = "no run has the measurements that it takes"


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


@dataclass(frozen=True)
class Solution:
    """Coefficients by name of column. Each has the unit of y for one of the column's; none is below 0."""

    values: dict[str, float]
    unknown: dict[str, str]  # why it has none


def solve(parts: Sequence[Linear]) -> Solution:
    """Solve all parts together; columns with too little information are taken at their default, the last of them first,
    as the first ones matter most."""
    names, fixed, least_rows = parts[0].names, parts[0].fixed, parts[0].least_rows
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    reasons: dict[str, str] = {}
    indices = list(range(len(names)))
    while indices:
        shares = [_own_share(x[:, indices], place, least_rows) for place in range(len(indices))]
        place = max((place for place, share in enumerate(shares) if share < OWN_SHARE), default=-1)
        if place < 0:
            break
        column = indices.pop(place)
        reason = f"only {len(y)} rows say anything"
        if not x[:, column].any():
            reason = "nothing of it happened in these runs"
        elif len(y) >= least_rows:
            others = ", ".join(names[other] for other in indices)
            reason = f"cannot be told from {others} here ({100 * shares[place]:.1f} % of it is its own)"
        reasons[names[column]] = reason
        y = y - x[:, column] * (fixed[column] or 0.0)
    if not indices:
        return Solution({}, reasons)
    scale = np.maximum(np.abs(x[:, indices]).max(axis=0), 1e-12)
    solution, _ = nnls(x[:, indices] / scale, y)
    return Solution({names[column]: float(v) for column, v in zip(indices, solution / scale, strict=True)}, reasons)


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


def jackknife(
    parts: Sequence[Part], fit: Callable[[Sequence[Part]], float | None]
) -> tuple[float | None, float | None]:
    """Return the interval of the fit of all runs, from the fits of all but one; None if there is none."""
    runs = len(parts)
    if runs < 2:
        return None, None
    center = fit(parts)
    numbers = np.array([n for i in range(runs) if (n := fit([*parts[:i], *parts[i + 1 :]])) is not None])
    if center is None or len(numbers) < runs:
        return None, None
    error = math.sqrt((runs - 1) / runs * float(((numbers - numbers.mean()) ** 2).sum()))
    if center == 0.0 and not numbers.any():
        return None, None  # it is held at 0, whatever is left out: that says nothing about its distance below
    half = float(student.ppf((1 + CONFIDENCE) / 2, runs - 1)) * error
    return max(0.0, center - half), center + half


def estimate(
    name: str, parts: Sequence[Part], fit: Callable[[Sequence[Part]], float | None], default: Costs, why: str
) -> CostEstimate:
    """Return a parameter as `fit` gives it for all parts, one a run; if there is none, its default, for the reason
    `why`."""
    total = fit(parts) if parts else None
    if total is None:
        return CostEstimate(name, None, getattr(default, name), None, None, 0, why)
    return CostEstimate(name, total, getattr(default, name), *jackknife(parts, fit), len(parts))


def linear_estimates(
    parts: Sequence[Linear], default: Costs, wanted: Iterable[str], why: str = NO_ROWS
) -> list[CostEstimate]:
    """Return estimates; `parts`: one a run; `why`: the reason if none has a row."""
    parts = [part for part in parts if len(part.y)]
    reasons = solve(parts).unknown if parts else {}

    def coefficient(name: str) -> Callable[[Sequence[Linear]], float | None]:
        return lambda some: solve(some).values.get(name)

    return [estimate(name, parts, coefficient(name), default, reasons.get(name, why)) for name in wanted]


def pooled(parts: Sequence[tuple[float, float]]) -> float:
    """Return the mean over all runs, of each its sum and number; never below 0."""
    return max(0.0, sum(total for total, _ in parts) / sum(number for _, number in parts))
