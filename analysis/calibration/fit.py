"""Costs of the simulator from sums of runs. Pure: numpy over at most a few thousand rows.

Each parameter is fitted over all runs together; its 95 % interval is Student's over the same fit with one run left out
at a time (the jackknife). A parameter that the data cannot separate keeps its default, and the reason says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np

from analysis.calibration.collection import RunSums
from analysis.calibration.hops import HopRow, hop_rows
from analysis.calibration.linear import CostEstimate, Linear, default_estimate, estimate, linear_estimates
from analysis.calibration.start_costs import start_estimates
from analysis.calibration.thread_costs import component_of, tuple_estimates, with_estimates
from scheduler_plugins.simulator.work import Costs

DEFAULT = Costs()
LEAST_HOP_ROWS = 2  # each is a whole side of an event
ROUNDING = 0.25  # variance of a second's whole tuples that is no variation of speed
LEAST_PAIRS = 30


def fit_costs(runs: Sequence[RunSums], default: Costs = DEFAULT) -> list[CostEstimate]:
    """Return estimates of all parameters, in the order of Costs."""
    estimates_by_name: dict[str, CostEstimate] = {}
    costs = default
    for part in (tuple_estimates, start_estimates, _hops, _noise):
        estimates = part(runs, costs)
        estimates_by_name |= {each.name: each for each in estimates}
        costs = with_estimates(costs, estimates)
    reason = "nothing in a record says it"
    return [
        estimates_by_name.get(each.name)
        or CostEstimate(each.name, None, getattr(default, each.name), None, None, 0, reason)
        for each in fields(Costs)
    ]


def given_costs(costs: Costs) -> list[CostEstimate]:
    """Return estimates for costs that were given, not fitted."""
    return [CostEstimate(name, float(value), value, None, None, 0, "given") for name, value in asdict(costs).items()]


def costs_of(estimates: Sequence[CostEstimate]) -> Costs:
    """Return the fitted costs over the defaults."""
    return Costs(**{each.name: each.default if each.value is None else each.value for each in estimates})


def _hops(runs: Sequence[RunSums], default: Costs) -> list[CostEstimate]:
    rows = [hop_rows(run, default) for run in runs]
    parts = [_hop_linear(each, default) for each in rows if each]
    if not parts:
        reason = "no side of an event was free of queues: latency says nothing of the way"
        return [default_estimate(name, default, reason) for name in ("hop_ms", "remote_hop_ms")]
    return linear_estimates(parts, default, ("hop_ms", "remote_hop_ms"))


def _hop_linear(rows: Sequence[HopRow], default: Costs) -> Linear:
    """Return the fit of hops; those between workers come first, as they matter most."""
    names = ("remote_hop_ms", "hop_ms")
    x = np.array([[row.remote, row.local] for row in rows]).reshape(-1, 2)
    defaults = tuple(getattr(default, name) for name in names)
    return Linear(names, defaults, x, np.array([row.ms for row in rows]), LEAST_HOP_ROWS)


def _noise(runs: Sequence[RunSums], default: Costs) -> list[CostEstimate]:
    def of(parts: Sequence[tuple[float, int]]) -> float:
        return math.sqrt(max(0.0, sum(square for square, _ in parts) / sum(pairs for _, pairs in parts)))

    parts = [each for run in runs if (each := _noise_sums(run)) is not None]
    return [estimate("noise", parts, of, default, f"no executor was busy all the time for {LEAST_PAIRS} seconds")]


def _noise_sums(run: RunSums) -> tuple[float, int] | None:
    """Return the sum of squared variations of speed, second by second, and the number of seconds."""
    total, pairs = 0.0, 0
    for row in run.speeds:
        work = run.works.get(row["topology"])
        component = component_of(run, row["topology"], row["component"]) if work else None
        if component is None or component.kind == "spout" or not row["rates"]:
            continue
        rate = row["rates"] / row["pairs"]
        variation = row["square"] / row["pairs"] / rate**2
        # A second has `rate` tuples, each of another cost, and begins and ends within one.
        total += row["pairs"] * (variation - component.cost_cv2 / rate - ROUNDING / rate**2)
        pairs += row["pairs"]
    return (total, pairs) if pairs >= LEAST_PAIRS else None


def as_costs(estimates: Sequence[CostEstimate]) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(costs_of(estimates)).items()}
