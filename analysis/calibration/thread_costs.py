"""CPU and time of tuples, from sums by window: of executors' threads, of sleeps, of machines and their workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import Deliveries, is_dealt_evenly, of_worker
from analysis.calibration.linear import CostEstimate, Linear, estimate, linear_estimates
from analysis.calibration.starts import overlaps
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import Costs, SimulatedComponent, young_share

OF_THREADS = ("receive_ms", "local_emit_ms")
RESTS = ("rest of spouts", "rest of bolts")  # a thread that waits polls; in Costs that is the worker's, `idle_cores`
LEAST_CPU_S = 0.05  # of a machine and window, the least that differs from 0
LEAST_COVERED = 0.8  # of a window, by a machine's lines
OF_MACHINES = ("machine_idle_cores", "idle_cores", "remote_emit_ms", "warm_up_cores", "remote_kb_ms")


def tuple_estimates(runs: Sequence[RunSums], default: Costs) -> list[CostEstimate]:
    """Return estimates of a tuple's cost, and of machines and workers at rest."""
    estimates = linear_estimates([_thread_rows(run, default) for run in runs], default, OF_THREADS)
    costs = with_estimates(default, estimates)
    estimates.append(_slack(runs, costs))
    return [*estimates, *linear_estimates([_machine_rows(run, costs) for run in runs], costs, OF_MACHINES)]


def with_estimates(costs: Costs, estimates: Sequence[CostEstimate]) -> Costs:
    return replace(costs, **{each.name: each.value for each in estimates if each.value is not None})


# --- executors' threads ---


def _windows(run: RunSums) -> Mapping[tuple[str, str, float], list[Row]]:
    """Return rows of components whose CPU is known, by topology, component and window."""
    groups: dict[tuple[str, str, float], list[Row]] = {}
    for row in run.activity:
        if row["topology"] in run.works and row["timed_s"]:
            groups.setdefault((row["topology"], row["component"], row["window_s"]), []).append(row)
    return groups


def _thread_rows(run: RunSums, default: Costs) -> Linear:
    """Return the fit of a component's CPU time in a window, beside its stated cost, by its received and emitted
    tuples."""
    x, y = [], []
    for (topology, name, _), rows in _windows(run).items():
        component = component_of(run, topology, name)
        if component is not None:
            total = _timed(rows)
            is_spout = component.kind == "spout"
            received = 0.0 if is_spout else total["executed"]
            x.append([received, total["transferred"], *_rests(rows, is_spout)])
            y.append(sum(float(row["cpu_ms"]) for row in rows) - component.cpu_ms * received)
    defaults = (default.receive_ms, default.local_emit_ms, None, None)
    return Linear((*OF_THREADS, *RESTS), defaults, np.array(x).reshape(-1, 4), np.array(y))


def _timed(rows: Sequence[Row]) -> dict[str, float]:
    return {key: sum(float(row[f"timed_{key}"] or 0) for row in rows) for key in ("executed", "transferred")}


def _rests(rows: Sequence[Row], is_spout: bool) -> tuple[float, float]:
    """Return seconds in which its executors' threads had nothing to do, as columns."""
    busy_s = sum(float(row["timed_execute_ms"] or 0) for row in rows) / 1000
    resting_s = max(0.0, sum(float(row["timed_executor_s"]) for row in rows) - busy_s)
    return resting_s * is_spout, resting_s * (not is_spout)


def _slack(runs: Sequence[RunSums], costs: Costs) -> CostEstimate:
    """Return the time of a tuple beyond its sleep and its CPU, for components that sleep, while nothing starts beside
    them."""

    def of(parts: Sequence[tuple[float, float]]) -> float:
        return max(0.0, sum(over_ms for over_ms, _ in parts) / sum(tuples for _, tuples in parts))

    parts = [part for run in runs if (part := _slept(run, costs))[1]]
    return estimate("sleep_slack_ms", parts, of, costs, "no component slept")


def _slept(run: RunSums, costs: Costs) -> tuple[float, float]:
    """Return milliseconds beyond the requested sleep, and tuples."""
    start_spans, over_ms, tuples = overlaps(run.starts, run.joins), 0.0, 0.0
    for row in run.activity:
        component = component_of(run, row["topology"], row["component"]) if row["topology"] in run.works else None
        begin_s, end_s = row["window_s"], row["window_s"] + run.window_s
        starts = any(span.touches(begin_s, end_s) for span in start_spans.get(row["machine"], ()))
        if component is None or not component.sleep_ms or not row["executed"] or row["execute_ms"] is None or starts:
            continue
        asked_ms = component.sleep_ms * float(row["executed"]) + thread_ms(run, row, costs)
        over_ms += float(row["execute_ms"]) - asked_ms
        tuples += float(row["executed"])
    return over_ms, tuples


def component_of(run: RunSums, topology: str, name: str) -> SimulatedComponent | None:
    return next((each for each in run.works[topology].components if each.name == name), None)


def thread_ms(run: RunSums, row: Row, costs: Costs) -> float:
    """Return the CPU of a component's activity, by the simulator's rules."""
    component = component_of(run, row["topology"], row["component"])
    if component is None:
        return 0.0
    received = 0.0 if component.kind == "spout" else float(row["executed"] or 0)
    cost_ms = (costs.receive_ms + component.cpu_ms) * received
    return cost_ms + costs.local_emit_ms * float(row["transferred"] or 0)


# --- machines ---


def _machine_rows(run: RunSums, costs: Costs) -> Linear:
    """Return the fit of windows of machines on which nothing starts: CPU seconds beside those of threads."""
    start_spans = overlaps(run.starts, run.joins)
    windows: dict[tuple[str, float], list[Row]] = {}
    for row in run.activity:
        windows.setdefault((row["machine"], row["window_s"]), []).append(row)
    x, y = [], []
    for row in run.machine_cpu:
        begin_s, end_s = row["window_s"], row["window_s"] + run.window_s
        rows = windows.get((row["machine"], begin_s), [])
        is_whole = row["machine_s"] > LEAST_COVERED * run.window_s and row["machine"] in run.cores
        if not is_whole or any(span.touches(begin_s - 1, end_s) for span in start_spans.get(row["machine"], ())):
            continue
        if any(each["topology"] not in run.works or not is_dealt_evenly(run.works[each["topology"]]) for each in rows):
            continue
        use = of_workers(run, rows, begin_s, end_s, costs)
        kb = kilobytes(use.sent, costs)
        # Lines of the machine may be missing where those of its workers are not.
        covered = min(1.0, row["machine_s"] / max((float(each["worker_s"]) for each in rows), default=1e-9))
        of_workers_s = np.array([use.worker_s, use.sent.remote / 1000, use.young_s, kb / 1000])
        x.append([row["machine_s"], *(covered * of_workers_s)])
        y.append(row["cpu_s"] - covered * use.threads_s)
    defaults = tuple(getattr(costs, name) for name in OF_MACHINES)
    # The error is a share of the use: a machine at rest says as much as a busy one. The share is of the use that these
    # costs predict and not of the observed one, which would favour windows that chance made cheap.
    columns = np.array(x).reshape(-1, 5)
    weights = 1.0 / np.maximum(columns @ np.array(defaults), LEAST_CPU_S)
    return Linear(OF_MACHINES, defaults, columns * weights[:, None], np.array(y) * weights)


def kilobytes(sent: Deliveries, costs: Costs) -> float:
    """Return kilobytes (1,000 bytes), including what Storm adds to each tuple."""
    return sent.kilobytes + sent.remote * costs.frame_bytes / 1000


@dataclass(frozen=True)
class Used:
    """Use by the workers of a machine in some time: their output to others; seconds of workers, and of young ones,
    weighted by their youth (1 for one that has just started, less for older ones); CPU seconds of their executors'
    threads."""

    sent: Deliveries
    worker_s: float
    young_s: float
    threads_s: float


def of_workers(run: RunSums, rows: Sequence[Row], begin_s: float, end_s: float, costs: Costs) -> Used:
    """Return the use of workers between two times (epoch seconds). `rows`: of `activity`, one a process and component,
    all of one machine and that time."""
    by_process: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        by_process.setdefault((row["topology"], row["port"], row["pid"]), []).append(row)
    sent, worker_s, young_s = Deliveries(), 0.0, 0.0
    for (topology, *_), process_rows in by_process.items():
        sent += of_worker(run.works[topology], process_rows)
        own_s = max(float(row["worker_s"]) for row in process_rows)
        worker_s += own_s
        young_s += own_s * _young_share(run, process_rows[0], begin_s, end_s, costs)
    return Used(sent, worker_s, young_s, sum(thread_ms(run, row, costs) for row in rows) / 1000)


def _young_share(run: RunSums, row: Row, begin_s: float, end_s: float, costs: Costs) -> float:
    """Return the youth of a row's process; one without a known begin is old."""
    begun_s = run.begun_s.get((row["topology"], row["machine"], row["port"], row["pid"]))
    if begun_s is None:
        return 0.0
    since_s = max(begin_s, begun_s)
    return young_share(since_s - begun_s, end_s - since_s, costs.warm_up_s)
