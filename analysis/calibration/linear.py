"""Small fits: coefficients that are never below 0, what data cannot tell apart, and intervals by leaving runs out."""

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
OWN_SHARE = 0.02  # of a column's variation that no other column explains: with less it cannot be told from them
LEAST_ROWS = 10


@dataclass(frozen=True)
class Estimate:
    """A parameter of Costs. `value` None: it keeps its default, for the reason `why`; `low` to `high`: 95 %, None of a
    single run."""

    name: str
    value: float | None
    default: float
    low: float | None
    high: float | None
    runs: int
    why: str = ""


@dataclass(frozen=True)
class Linear:
    """y of each row from its columns, none of whose coefficients is below 0. `fixed`: what a column has where it cannot
    be told from others; None: of no interest."""

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
    """By name of column. A coefficient has the unit of y for one of the column's; none is below 0."""

    values: dict[str, float]
    unknown: dict[str, str]  # why it has none


def solve(linear: Linear) -> Solution:
    """Columns that say too little are taken at their default, the last of them first: the first ones matter most."""
    values: dict[str, float] = {}
    unknown: dict[str, str] = {}
    left, y = list(range(len(linear.names))), linear.y.copy()
    while left:
        shares = [_own_share(linear.x[:, left], place, linear.least_rows) for place in range(len(left))]
        place = max((place for place, share in enumerate(shares) if share < OWN_SHARE), default=-1)
        if place < 0:
            break
        column = left.pop(place)
        name, fixed = linear.names[column], linear.fixed[column]
        others = [linear.names[other] for other in left]
        unknown[name] = _why_unknown(linear.x[:, column], shares[place], others, linear.least_rows)
        y = y - linear.x[:, column] * (fixed or 0.0)
    if left:
        scale = np.maximum(np.abs(linear.x[:, left]).max(axis=0), 1e-12)
        found, _ = nnls(linear.x[:, left] / scale, y)
        values = {linear.names[column]: float(v) for column, v in zip(left, found / scale, strict=True)}
    return Solution(values, unknown)


def _own_share(x: Floats, place: int, least_rows: int) -> float:
    """Of the square of a column, the share that no combination of the others gives; 0 where it is all zero."""
    column, others = x[:, place], np.delete(x, place, axis=1)
    size = float(column @ column)
    if size <= 0 or len(column) < least_rows:
        return 0.0
    if not others.shape[1]:
        return 1.0
    scale = np.maximum(np.abs(others).max(axis=0), 1e-12)
    best, *_ = np.linalg.lstsq(others / scale, column, rcond=None)
    rest = column - (others / scale) @ best
    return float(rest @ rest) / size


def _why_unknown(column: Floats, share: float, others: Sequence[str], least_rows: int) -> str:
    if not column.any():
        return "nothing of it happened in these runs"
    if len(column) < least_rows:
        return f"only {len(column)} rows say anything"
    return f"cannot be told from {', '.join(others)} here ({100 * share:.1f} % of it is its own)"


def jackknife(runs: int, fit: Callable[[Sequence[int]], float | None]) -> tuple[float | None, float | None]:
    """The interval of what `fit` says of all runs, from what it says of all but one; None where that is nothing."""
    if runs < 2:
        return None, None
    whole = fit(range(runs))
    parts = [fit([other for other in range(runs) if other != left]) for left in range(runs)]
    known = np.array([part for part in parts if part is not None])
    if whole is None or len(known) < runs:
        return None, None
    error = math.sqrt((runs - 1) / runs * float(((known - known.mean()) ** 2).sum()))
    if whole == 0.0 and not known.any():
        return None, None  # it is held at 0, whatever is left out: that says nothing of how far below it lies
    half = float(student.ppf((1 + CONFIDENCE) / 2, runs - 1)) * error
    return max(0.0, whole - half), whole + half


def linear_estimates(parts: Sequence[Linear], default: Costs, wanted: Sequence[str]) -> list[Estimate]:
    """`parts`: one a run."""
    parts = [part for part in parts if len(part.y)]
    if not parts:
        return [default_estimate(name, default, "no run has the measurements that it takes") for name in wanted]
    whole = solve(Linear.joined(parts))
    found = []
    for name in wanted:
        if name in whole.unknown:
            found.append(default_estimate(name, default, whole.unknown[name]))
            continue

        def value(chosen: Sequence[int], name: str = name) -> float | None:
            return solve(Linear.joined([parts[place] for place in chosen])).values.get(name)

        low, high = jackknife(len(parts), value)
        found.append(Estimate(name, whole.values[name], getattr(default, name), low, high, len(parts)))
    return found


def default_estimate(name: str, default: Costs, why: str) -> Estimate:
    return Estimate(name, None, getattr(default, name), None, None, 0, why)


Part = TypeVar("Part")


def estimate(
    name: str, parts: Sequence[Part], value: Callable[[Sequence[Part]], float | None], default: Costs, why: str
) -> Estimate:
    """A parameter as `value` has it of all parts, one a run; where there is none or it says nothing, for the reason
    `why`, its default."""

    def of(places: Sequence[int]) -> float | None:
        return value([parts[place] for place in places])

    whole = of(range(len(parts))) if parts else None
    if whole is None:
        return default_estimate(name, default, why)
    return Estimate(name, whole, getattr(default, name), *jackknife(len(parts), of), len(parts))
