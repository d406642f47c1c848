"""Costs of starting workers and supervisors: CPU, and time that passes whatever the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import is_dealt_evenly
from analysis.calibration.linear import CostEstimate, Linear, default_estimate, estimate, solve
from analysis.calibration.starts import Join
from analysis.calibration.sums import Span
from analysis.calibration.thread_costs import kilobytes, of_workers, with_estimates
from scheduler_plugins.simulator.work import Costs

# If they cannot be separated, the later keeps its default.
WAITS = ("start_wait_s", "stop_s", "fetch_s")


@dataclass(frozen=True)
class StartRow:
    """Starts on one machine: CPU seconds of all of them, and `bound_s`, their duration if only the
    machine's cores held them up. `restarted`: of them, those that another process had to end for; `is_first`: the
    machine had no worker of the topology before. `is_timed`: they were ordered at one time, and no supervisor started
    there."""

    number: int
    restarted: int
    elapsed_s: float
    cpu_s: float
    bound_s: Callable[[float], float]
    is_first: bool = False
    is_timed: bool = True


def start_estimates(runs: Sequence[RunSums], costs: Costs) -> list[CostEstimate]:
    """Return `start_cpu_s` of a worker (CPU seconds), WAITS (seconds), `supervisor_cpu_s` (CPU seconds), in this order.
    `costs`: known costs of tuples and of rest, and the defaults of these five."""
    names = ("start_cpu_s", *WAITS)
    parts = [rows for run in runs if (rows := _start_rows(run, costs))]
    if not parts:
        return [
            *(
                default_estimate(name, costs, "no worker started on a machine of which all costs but that were known")
                for name in names
            ),
            default_estimate("supervisor_cpu_s", costs, "no machine joined of which all costs but that were known"),
        ]
    cpu = estimate(
        "start_cpu_s", parts, lambda chosen: start_cpu(_all(chosen)), costs, "every start was beside another"
    )
    costs_so_far = with_estimates(costs, [cpu])
    return [cpu, *_waits(parts, costs_so_far), _supervisors(runs, costs_so_far)]


def _all(parts: Sequence[Sequence[StartRow]]) -> list[StartRow]:
    return [row for rows in parts for row in rows]


def start_cpu(rows: Sequence[StartRow]) -> float:
    """Return a worker's CPU, from all that started; without those beside a starting supervisor, whose CPU would be in
    it."""
    selection = [row for row in rows if row.is_timed] or rows
    return max(0.0, sum(row.cpu_s for row in selection) / max(1, sum(row.number for row in selection)))


def _waits(parts: Sequence[Sequence[StartRow]], costs: Costs) -> list[CostEstimate]:
    waits = start_times(_all(parts), costs)

    def value(name: str) -> Callable[[Sequence[Sequence[StartRow]]], float | None]:
        return lambda chosen: start_times(_all(chosen), costs).get(name)

    reasons = {
        "start_wait_s": "every worker that started had to wait for another to end first",
        "stop_s": "no worker had to end before another began in its slot, or none began without that",
        "fetch_s": "no machine had workers of the topology for the first time, or every one had",
    }
    return [estimate(name, parts if name in waits else [], value(name), costs, reasons[name]) for name in WAITS]


def start_times(rows: Sequence[StartRow], costs: Costs) -> Mapping[str, float]:
    """Return the time before a start's CPU begins, by least squares; without parts that no row separates: a machine
    whose workers all restart gives the sum of wait and stop only, one with new workers the wait alone."""
    timed = [row for row in rows if row.is_timed]
    columns = np.array([[1.0, float(row.restarted > 0), float(row.is_first)] for row in timed]).reshape(-1, 3)
    rest = np.array([row.elapsed_s - row.bound_s(costs.start_cpu_s) for row in timed])
    defaults = tuple(float(getattr(costs, name)) for name in WAITS)
    return solve(Linear(WAITS, defaults, columns, rest, least_rows=1)).values


def _start_rows(run: RunSums, costs: Costs) -> list[StartRow]:
    rows = []
    for group in run.starts:
        is_disturbed = any(
            join.machine == group.machine and join.span.touches(group.order_s, group.end_s) for join in run.joins
        )
        if (rest := _rest_s(run, group.span, costs)) is None:
            continue
        cpu_s, free = rest

        def bound_s(start_cpu_s: float, number: int = group.number, free: float = free) -> float:
            return max(number * start_cpu_s / free, start_cpu_s)

        is_timed = group.is_at_once and not is_disturbed
        row = StartRow(group.number, group.restarted, group.elapsed_s, cpu_s, bound_s, group.is_first, is_timed)
        rows.append(row)
    return rows


def _rest_s(run: RunSums, span: Span, costs: Costs) -> tuple[float, float] | None:
    """Return CPU seconds of a machine that are neither tuples' nor those of rest, and the cores that these leave
    free."""
    used_s, cores = run.cpu_of_spans.get(span), run.cores.get(span.machine)
    length_s = span.until_s - span.from_s
    if used_s is None or not cores or length_s <= 0:
        return None
    rows = [row for other, row in run.tuples_of_spans if other == span]
    works = {row["topology"]: run.works.get(row["topology"]) for row in rows}
    if any(work is None or not is_dealt_evenly(work) for work in works.values()):
        return None  # its cost meanwhile is unknown
    use = of_workers(run, rows, span.from_s, span.until_s, costs)
    sent_ms = costs.remote_emit_ms * use.sent.remote + costs.remote_kb_ms * kilobytes(use.sent, costs)
    threads_s = use.threads_s + sent_ms / 1000
    at_rest_s = costs.machine_idle_cores * length_s + costs.idle_cores * use.worker_s
    at_rest_s += costs.warm_up_cores * use.young_s
    load = min(cores * 0.9, (threads_s + at_rest_s) / length_s)
    return used_s - threads_s - at_rest_s, cores - load


def _supervisors(runs: Sequence[RunSums], costs: Costs) -> CostEstimate:
    """Return CPU of a machine that joins, from its supervisor's start until it is at rest again, less that of
    workers."""

    def of(parts: Sequence[Sequence[float]]) -> float:
        every = [value for values in parts for value in values]
        return max(0.0, sum(every) / len(every))

    parts = [
        values for run in runs if (values := [s for join in run.joins if (s := _join_s(run, join, costs)) is not None])
    ]
    return estimate("supervisor_cpu_s", parts, of, costs, "no machine joined of which all costs but that were known")


def _join_s(run: RunSums, join: Join, costs: Costs) -> float | None:
    rest = _rest_s(run, join.span, costs)
    return None if rest is None else rest[0] - join.workers * costs.start_cpu_s
