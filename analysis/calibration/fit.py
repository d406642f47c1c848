"""Costs of the simulator from sums of runs. Pure: numpy over at most a few thousand rows.

Each parameter is fitted over all runs together; its 95 % interval is Student's over the same fit with one run left out
at a time (the jackknife). A parameter that the data cannot separate keeps its default, and the reason says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from analysis.calibration.hops import hop_rows
from analysis.calibration.linear import CostEstimate, Linear, estimate, linear_estimates, pooled, solve
from analysis.calibration.starts import Span
from analysis.calibration.sums import RunSums
from analysis.calibration.tuple_costs import (
    component_of,
    is_dealt_evenly,
    tuple_estimates,
    use_of_workers,
    with_estimates,
)
from scheduler_plugins.simulator.work import Costs

DEFAULT = Costs()
LEAST_HOP_ROWS = 2  # each is a whole side of an event
ROUNDING = 0.25  # variance of a second's whole tuples that is no variation of speed
LEAST_PAIRS = 30
# Parts of the time before a start's CPU begins, and why one is not known. The later ones keep their default if they
# cannot be separated.
WAITS = {
    "start_wait_s": "every worker that started had to wait for another to end first",
    "stop_s": "no worker had to end before another began in its slot, or none began without that",
    "fetch_s": "no machine had workers of the topology for the first time, or every one had",
}


def fit_costs(runs: Sequence[RunSums], default: Costs = DEFAULT) -> list[CostEstimate]:
    """Return estimates of all parameters, in the order of Costs."""
    estimates_by_name: dict[str, CostEstimate] = {}
    costs = default
    for part in (tuple_estimates, start_estimates, _hops, _noise):
        estimates = part(runs, costs)
        estimates_by_name |= {each.name: each for each in estimates}
        costs = with_estimates(costs, estimates)
    unknown = (CostEstimate(name, None, value, None, None, 0, "nothing in a record says it")
               for name, value in asdict(default).items())  # fmt: skip
    return [estimates_by_name.get(each.name, each) for each in unknown]


def given_costs(costs: Costs) -> list[CostEstimate]:
    """Return estimates for costs that were given, not fitted."""
    return [CostEstimate(name, float(value), value, None, None, 0, "given") for name, value in asdict(costs).items()]


def as_costs(estimates: Sequence[CostEstimate]) -> dict[str, float]:
    """Return the fitted costs over the defaults."""
    return {each.name: float(each.default if each.value is None else each.value) for each in estimates}


def _hops(runs: Sequence[RunSums], default: Costs) -> list[CostEstimate]:
    """Return estimates of hops; those between workers come first, as they matter most."""
    names, parts = ("remote_hop_ms", "hop_ms"), []
    defaults = tuple(getattr(default, name) for name in names)
    for rows in (hop_rows(run, default) for run in runs):
        x = np.array([[row.remote, row.local] for row in rows]).reshape(-1, 2)
        parts.append(Linear(names, defaults, x, np.array([row.ms for row in rows]), LEAST_HOP_ROWS))
    reason = "no side of an event was free of queues: latency says nothing of the way"
    return linear_estimates(parts, default, names, reason)


def _noise(runs: Sequence[RunSums], default: Costs) -> list[CostEstimate]:
    """Return the estimate from squared variations of speed, second by second."""
    parts = []
    for run in runs:
        total, pairs = 0.0, 0
        for row in run.speeds:
            component = component_of(run, row)
            if component is None or component.kind == "spout" or not row["rates"]:
                continue
            rate = row["rates"] / row["pairs"]
            variation = row["square"] / row["pairs"] / rate**2
            # A second has `rate` tuples, each of another cost, and begins and ends within one.
            total += row["pairs"] * (variation - component.cost_cv2 / rate - ROUNDING / rate**2)
            pairs += row["pairs"]
        if pairs >= LEAST_PAIRS:
            parts.append((total, pairs))
    reason = f"no executor was busy all the time for {LEAST_PAIRS} seconds"
    return [estimate("noise", parts, lambda some: math.sqrt(pooled(some)), default, reason)]


# --- starts of workers and supervisors: CPU, and time that passes whatever the CPU ---


@dataclass(frozen=True)
class StartRow:
    """Starts on one machine: CPU seconds of all of them, and the cores that were free for them. `restarted`: of them,
    those that another process had to end for; `is_first`: the machine had no worker of the topology before. `is_timed`:
    they were ordered at one time, and no supervisor started there."""

    number: int
    restarted: int
    elapsed_s: float
    cpu_s: float
    free_cores: float
    is_first: bool = False
    is_timed: bool = True


def start_estimates(runs: Sequence[RunSums], costs: Costs) -> list[CostEstimate]:
    """Return `start_cpu_s` of a worker (CPU seconds), WAITS (seconds), `supervisor_cpu_s` (CPU seconds), in this order.
    `costs`: known costs of tuples and of rest, and the defaults of these five."""
    parts = [rows for run in runs if (rows := _start_rows(run, costs))]
    unknown = "no worker started on a machine of which all costs but that were known"
    cpu = estimate("start_cpu_s", parts, start_cpu, costs, unknown)
    costs = with_estimates(costs, [cpu])

    def wait(name: str) -> Callable[[Sequence[Sequence[StartRow]]], float | None]:
        return lambda some: start_times(some, costs).get(name)

    waits = start_times(parts, costs)
    estimates = [
        estimate(name, parts if name in waits else [], wait(name), costs, why if parts else unknown)
        for name, why in WAITS.items()
    ]
    # CPU of a machine that joins, from its supervisor's start until it is at rest again, less that of workers.
    joined = []
    for run in runs if parts else ():
        known = [(join, rest[0]) for join in run.joins if (rest := _rest(run, join.span, costs)) is not None]
        if known:
            joined.append((sum(cpu_s - join.workers * costs.start_cpu_s for join, cpu_s in known), len(known)))
    reason = "no machine joined of which all costs but that were known"
    return [cpu, *estimates, estimate("supervisor_cpu_s", joined, pooled, costs, reason)]


def start_cpu(parts: Sequence[Sequence[StartRow]]) -> float:
    """Return a worker's CPU, from all that started; without those beside a starting supervisor, whose CPU would be in
    it."""
    rows = [row for part in parts for row in part]
    selection = [row for row in rows if row.is_timed] or rows
    return max(0.0, sum(row.cpu_s for row in selection) / max(1, sum(row.number for row in selection)))


def start_times(parts: Sequence[Sequence[StartRow]], costs: Costs) -> dict[str, float]:
    """Return the time before a start's CPU begins, by least squares; without parts that no row separates: a machine
    whose workers all restart gives the sum of wait and stop only, one with new workers the wait alone."""
    timed = [row for part in parts for row in part if row.is_timed]
    x = np.array([[1.0, float(row.restarted > 0), float(row.is_first)] for row in timed]).reshape(-1, 3)
    # The machine's cores hold them up, and a start has one thread.
    cpu_s = costs.start_cpu_s
    y = [row.elapsed_s - max(row.number * cpu_s / row.free_cores, cpu_s) for row in timed]
    defaults = tuple(float(getattr(costs, name)) for name in WAITS)
    return solve([Linear(tuple(WAITS), defaults, x, np.array(y), least_rows=1)]).values


def _start_rows(run: RunSums, costs: Costs) -> list[StartRow]:
    rows = []
    for group in run.starts:
        is_disturbed = any(
            join.machine == group.machine and join.span.touches(group.order_s, group.end_s) for join in run.joins
        )
        if (rest := _rest(run, group.span, costs)) is not None:
            sizes = (group.number, group.restarted, group.elapsed_s)
            rows.append(StartRow(*sizes, *rest, group.is_first, group.is_at_once and not is_disturbed))
    return rows


def _rest(run: RunSums, span: Span, costs: Costs) -> tuple[float, float] | None:
    """Return CPU seconds of a machine that are neither tuples' nor those of rest, and the cores that these leave free;
    None if its cost meanwhile is unknown."""
    used_s, cores = run.cpu_of_spans.get(span), run.cores.get(span.machine)
    length_s = span.until_s - span.from_s
    rows = [row for other, row in run.tuples_of_spans if other == span]
    if used_s is None or not cores or length_s <= 0:
        return None
    if not all(is_dealt_evenly(run.works.get(row["topology"])) for row in rows):
        return None
    use = use_of_workers(run, rows, span.from_s, span.until_s, costs)
    sent_ms = costs.remote_emit_ms * use.remote + costs.remote_kb_ms * use.kilobytes
    threads_s = use.threads_s + sent_ms / 1000
    at_rest_s = costs.machine_idle_cores * length_s + costs.idle_cores * use.worker_s
    at_rest_s += costs.warm_up_cores * use.young_s
    load = min(cores * 0.9, (threads_s + at_rest_s) / length_s)
    return used_s - threads_s - at_rest_s, cores - load
