"""CPU and time of tuples, from sums by window: of executors' threads, of sleeps, of machines and their workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import Deliveries, is_dealt_evenly, of_worker
from analysis.calibration.linear import Estimate, Linear, estimate, linear_estimates
from analysis.calibration.starts import overlaps
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import ComponentWork, Costs, young_share

OF_THREADS = ("receive_ms", "local_emit_ms")
RESTS = ("rest of spouts", "rest of bolts")  # a thread that waits polls; in Costs that is the worker's, `idle_cores`
LEAST_CPU_S = 0.05  # of a machine and window, that is told from nothing
LEAST_COVERED = 0.8  # of a window, by a machine's lines
OF_MACHINES = ("machine_idle_cores", "idle_cores", "remote_emit_ms", "warm_up_cores", "remote_kb_ms")


def tuple_estimates(runs: Sequence[RunSums], default: Costs) -> list[Estimate]:
    """Of what a tuple costs, and what machines and workers cost at rest."""
    found = linear_estimates([_thread_rows(run, default) for run in runs], default, OF_THREADS)
    known = with_estimates(default, found)
    found.append(_slack(runs, known))
    return [*found, *linear_estimates([_machine_rows(run, known) for run in runs], known, OF_MACHINES)]


def with_estimates(costs: Costs, estimates: Sequence[Estimate]) -> Costs:
    return replace(costs, **{each.name: each.value for each in estimates if each.value is not None})


# --- executors' threads ---


def _windows(run: RunSums) -> Mapping[tuple[str, str, float], list[Row]]:
    """Rows of components whose CPU is known, by topology, component and window."""
    found: dict[tuple[str, str, float], list[Row]] = {}
    for row in run.activity:
        if row["topology"] in run.works and row["timed_s"]:
            found.setdefault((row["topology"], row["component"], row["window_s"]), []).append(row)
    return found


def _thread_rows(run: RunSums, default: Costs) -> Linear:
    """CPU time of a component's threads in a window, beside its stated cost, is that of what it receives and emits."""
    x, y = [], []
    for (topology, name, _), rows in _windows(run).items():
        component = component_of(run, topology, name)
        if component is not None:
            total = _timed(rows)
            is_spout = component.kind == "spout"
            received = 0.0 if is_spout else total["executed"]
            x.append([received, total["transferred"], *_rests(rows, is_spout)])
            y.append(sum(float(row["cpu_ms"]) for row in rows) - component.cpu_ms * received)
    fixed = (default.receive_ms, default.local_emit_ms, None, None)
    return Linear((*OF_THREADS, *RESTS), fixed, np.array(x).reshape(-1, 4), np.array(y))


def _timed(rows: Sequence[Row]) -> dict[str, float]:
    return {key: sum(float(row[f"timed_{key}"] or 0) for row in rows) for key in ("executed", "transferred")}


def _rests(rows: Sequence[Row], is_spout: bool) -> tuple[float, float]:
    """Seconds in which its executors' threads had nothing to do, as columns."""
    busy_s = sum(float(row["timed_execute_ms"] or 0) for row in rows) / 1000
    resting_s = max(0.0, sum(float(row["timed_executor_s"]) for row in rows) - busy_s)
    return resting_s * is_spout, resting_s * (not is_spout)


def _slack(runs: Sequence[RunSums], costs: Costs) -> Estimate:
    """Of components that sleep: what a tuple takes beyond that and its CPU, where nothing starts beside it."""

    def of(parts: Sequence[tuple[float, float]]) -> float:
        return max(0.0, sum(over_ms for over_ms, _ in parts) / sum(tuples for _, tuples in parts))

    parts = [part for run in runs if (part := _slept(run, costs))[1]]
    return estimate("sleep_slack_ms", parts, of, costs, "no component slept")


def _slept(run: RunSums, costs: Costs) -> tuple[float, float]:
    """Milliseconds beyond what was asked for, and tuples."""
    starting, over_ms, tuples = overlaps(run.starts, run.joins), 0.0, 0.0
    for row in run.activity:
        component = component_of(run, row["topology"], row["component"]) if row["topology"] in run.works else None
        begin_s, end_s = row["window_s"], row["window_s"] + run.window_s
        starts = any(span.touches(begin_s, end_s) for span in starting.get(row["machine"], ()))
        if component is None or not component.sleep_ms or not row["executed"] or row["execute_ms"] is None or starts:
            continue
        asked_ms = component.sleep_ms * float(row["executed"]) + thread_ms(run, row, costs)
        over_ms += float(row["execute_ms"]) - asked_ms
        tuples += float(row["executed"])
    return over_ms, tuples


def component_of(run: RunSums, topology: str, name: str) -> ComponentWork | None:
    return next((each for each in run.works[topology].components if each.name == name), None)


def thread_ms(run: RunSums, row: Row, costs: Costs) -> float:
    """CPU of what a component did, as the simulator has it."""
    component = component_of(run, row["topology"], row["component"])
    if component is None:
        return 0.0
    received = 0.0 if component.kind == "spout" else float(row["executed"] or 0)
    own = (costs.receive_ms + component.cpu_ms) * received
    return own + costs.local_emit_ms * float(row["transferred"] or 0)


# --- machines ---


def _machine_rows(run: RunSums, costs: Costs) -> Linear:
    """Windows of machines on which nothing starts: CPU seconds beside those of threads."""
    starting = overlaps(run.starts, run.joins)
    windows: dict[tuple[str, float], list[Row]] = {}
    for row in run.activity:
        windows.setdefault((row["machine"], row["window_s"]), []).append(row)
    x, y = [], []
    for row in run.machine_cpu:
        begin_s, end_s = row["window_s"], row["window_s"] + run.window_s
        rows = windows.get((row["machine"], begin_s), [])
        is_whole = row["machine_s"] > LEAST_COVERED * run.window_s and row["machine"] in run.cores
        if not is_whole or any(span.touches(begin_s - 1, end_s) for span in starting.get(row["machine"], ())):
            continue
        if any(each["topology"] not in run.works or not is_dealt_evenly(run.works[each["topology"]]) for each in rows):
            continue
        used = of_workers(run, rows, begin_s, end_s, costs)
        kb = kilobytes(used.sent, costs)
        # Lines of the machine may be missing where those of its workers are not.
        covered = min(1.0, row["machine_s"] / max((float(each["worker_s"]) for each in rows), default=1e-9))
        of_workers_s = np.array([used.worker_s, used.sent.remote / 1000, used.young_s, kb / 1000])
        x.append([row["machine_s"], *(covered * of_workers_s)])
        y.append(row["cpu_s"] - covered * used.threads_s)
    fixed = tuple(getattr(costs, name) for name in OF_MACHINES)
    # What is off is a share of what is used: a machine at rest says as much as a busy one. The share is of what these
    # costs foresee and not of what was seen: that would give most weight to windows in which chance took most away.
    columns = np.array(x).reshape(-1, 5)
    weights = 1.0 / np.maximum(columns @ np.array(fixed), LEAST_CPU_S)
    return Linear(OF_MACHINES, fixed, columns * weights[:, None], np.array(y) * weights)


def kilobytes(sent: Deliveries, costs: Costs) -> float:
    """Of 1,000 bytes, with what Storm adds to each tuple."""
    return sent.kilobytes + sent.remote * costs.frame_bytes / 1000


@dataclass(frozen=True)
class Used:
    """Of the workers of a machine in some time: what they sent to others; seconds of workers, and of young ones,
    weighted by how young they are (1 of one that has just started, less of older ones); CPU seconds of their executors'
    threads."""

    sent: Deliveries
    worker_s: float
    young_s: float
    threads_s: float


def of_workers(run: RunSums, rows: Sequence[Row], begin_s: float, end_s: float, costs: Costs) -> Used:
    """What workers used between two times (epoch seconds). `rows`: of `activity`, one a process and component, all of
    one machine and that time."""
    by_process: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        by_process.setdefault((row["topology"], row["port"], row["pid"]), []).append(row)
    sent, worker_s, young_s = Deliveries(), 0.0, 0.0
    for (topology, *_), mine in by_process.items():
        sent += of_worker(run.works[topology], mine)
        own_s = max(float(row["worker_s"]) for row in mine)
        worker_s += own_s
        young_s += own_s * _young_share(run, mine[0], begin_s, end_s, costs)
    return Used(sent, worker_s, young_s, sum(thread_ms(run, row, costs) for row in rows) / 1000)


def _young_share(run: RunSums, row: Row, begin_s: float, end_s: float, costs: Costs) -> float:
    """Of the process that a row is of; one whose begin nobody saw is old."""
    begun_s = run.begun_s.get((row["topology"], row["machine"], row["port"], row["pid"]))
    if begun_s is None:
        return 0.0
    since_s = max(begin_s, begun_s)
    return young_share(since_s - begun_s, end_s - since_s, costs.warm_up_s)
