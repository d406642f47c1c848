"""CPU and time of tuples, from sums by window: of executors' threads, of JVMs that are young, of sleeps, of machines.

A process is young for `warm_up_s` from its first line on: what its threads cost beyond others is `warm_up_share`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import Deliveries, is_dealt_evenly, of_worker
from analysis.calibration.linear import Estimate, Linear, estimated, linear_estimates, solve
from analysis.calibration.starts import SETTLE_S, overlaps
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import ComponentWork, Costs

OF_THREADS = ("receive_ms", "local_emit_ms")
RESTS = ("rest of spouts", "rest of bolts")  # a thread that waits polls; in Costs that is the worker's, `idle_cores`
LEAST_CPU_S = 0.05  # of a machine and window, that is told from nothing
OF_MACHINES = ("machine_idle_cores", "idle_cores", "remote_emit_ms", "remote_kb_ms")


def tuple_estimates(runs: Sequence[RunSums], default: Costs) -> list[Estimate]:
    """Of what a tuple costs, and what machines and workers cost at rest."""
    found = linear_estimates([_thread_rows(run, default) for run in runs], default, OF_THREADS)
    known = with_estimates(default, found)
    for part in (_warm_up, _slack):
        found.append(part(runs, known))
        known = with_estimates(known, found)
    return [*found, *linear_estimates([_machine_rows(run, known) for run in runs], known, OF_MACHINES)]


def with_estimates(costs: Costs, estimates: Sequence[Estimate]) -> Costs:
    return replace(costs, **{each.name: each.value for each in estimates if each.value is not None})


# --- how old a process is ---


def age_s(run: RunSums, row: Row, t_s: float) -> float:
    """Of the process that a row is of, since its first line; one whose begin nobody saw is old."""
    process = (row["topology"], row["machine"], row["port"], row["pid"])
    return t_s - run.begun_s.get(process, float("-inf"))


def dearness(run: RunSums, row: Row, begin_s: float, end_s: float, costs: Costs) -> float:
    """What Storm's own work costs the process in this time, as a multiple of what it costs an old one."""
    young_s = min(end_s - begin_s, max(0.0, costs.warm_up_s - age_s(run, row, begin_s)))
    return 1.0 + costs.warm_up_share * young_s / max(end_s - begin_s, 1e-9)


def _is_old(run: RunSums, row: Row, costs: Costs) -> bool:
    return age_s(run, row, row["window_s"]) >= costs.warm_up_s


def _is_young(run: RunSums, row: Row, costs: Costs) -> bool:
    """In the whole window; that in which it started says more of its start."""
    begin = age_s(run, row, row["window_s"])
    return begin >= SETTLE_S and begin + run.window_s <= costs.warm_up_s


# --- executors' threads ---


def _windows(run: RunSums, counts: Callable[[Row], bool]) -> Mapping[tuple[str, str, float], list[Row]]:
    """Rows of components whose CPU is known, by topology, component and window."""
    found: dict[tuple[str, str, float], list[Row]] = {}
    for row in run.activity:
        if row["topology"] in run.works and row["timed_s"] and counts(row):
            found.setdefault((row["topology"], row["component"], row["window_s"]), []).append(row)
    return found


def _thread_rows(run: RunSums, default: Costs) -> Linear:
    """CPU time of a component's threads in a window, beside its stated cost, is that of what it receives and emits."""
    x, y = [], []
    for (topology, name, _), rows in _windows(run, lambda row: _is_old(run, row, default)).items():
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
    return {key: sum(float(row[f"timed_{key}"] or 0) for row in rows) for key in ("executed", "transferred", "s")}


def _rests(rows: Sequence[Row], is_spout: bool) -> tuple[float, float]:
    """Seconds in which its threads had nothing to do, as columns."""
    busy_s = sum(float(row["timed_execute_ms"] or 0) for row in rows) / 1000
    resting_s = max(0.0, _timed(rows)["s"] - busy_s)
    return resting_s * is_spout, resting_s * (not is_spout)


def _warm_up(runs: Sequence[RunSums], costs: Costs) -> Estimate:
    """Of young processes: CPU beside what an old one would need."""

    def of(parts: Sequence[Linear]) -> float | None:
        times = solve(Linear.joined(parts)).values.get("times")
        return None if times is None else max(0.0, times - 1.0)

    parts = [part for run in runs if len((part := _young_rows(run, costs)).y)]
    return estimated("warm_up_share", parts, of, costs, "no window had young processes alone, whose work cost CPU")


def _young_rows(run: RunSums, costs: Costs) -> Linear:
    x, y = [], []
    for (topology, name, _), rows in _windows(run, lambda row: _is_young(run, row, costs)).items():
        component = component_of(run, topology, name)
        if component is not None:
            total = _timed(rows)
            received = 0.0 if component.kind == "spout" else total["executed"]
            own_ms = costs.receive_ms * received + costs.local_emit_ms * total["transferred"]
            x.append([own_ms, *_rests(rows, component.kind == "spout")])
            y.append(sum(float(row["cpu_ms"]) for row in rows) - component.cpu_ms * received)
    return Linear(("times", *RESTS), (1.0, None, None), np.array(x).reshape(-1, 3), np.array(y))


def _slack(runs: Sequence[RunSums], costs: Costs) -> Estimate:
    """Of components that sleep: what a tuple takes beyond that and its CPU, in old processes and where nothing starts
    beside them."""

    def of(parts: Sequence[tuple[float, float]]) -> float:
        return max(0.0, sum(over_ms for over_ms, _ in parts) / sum(tuples for _, tuples in parts))

    parts = [part for run in runs if (part := _slept(run, costs))[1]]
    return estimated("sleep_slack_ms", parts, of, costs, "no component slept")


def _slept(run: RunSums, costs: Costs) -> tuple[float, float]:
    """Milliseconds beyond what was asked for, and tuples."""
    starting, over_ms, tuples = overlaps(run.starts, run.joins), 0.0, 0.0
    for row in run.activity:
        component = component_of(run, row["topology"], row["component"]) if row["topology"] in run.works else None
        begin_s, end_s = row["window_s"], row["window_s"] + run.window_s
        starts = any(span.touches(begin_s, end_s) for span in starting.get(row["machine"], ()))
        is_calm = not starts and _is_old(run, row, costs)
        if (
            component is None
            or not component.sleep_ms
            or not row["executed"]
            or row["execute_ms"] is None
            or not is_calm
        ):
            continue
        asked_ms = component.sleep_ms * float(row["executed"]) + thread_ms(run, row, costs)
        over_ms += float(row["execute_ms"]) - asked_ms
        tuples += float(row["executed"])
    return over_ms, tuples


def component_of(run: RunSums, topology: str, name: str) -> ComponentWork | None:
    return next((each for each in run.works[topology].components if each.name == name), None)


def thread_ms(run: RunSums, row: Row, costs: Costs) -> float:
    """CPU of what a component did, as the simulator has it of an old process."""
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
        is_whole = row["machine_s"] > 0.8 * run.window_s and row["machine"] in run.cores
        if not is_whole or any(span.touches(begin_s - 1, end_s) for span in starting.get(row["machine"], ())):
            continue
        if any(each["topology"] not in run.works or not is_dealt_evenly(run.works[each["topology"]]) for each in rows):
            continue
        used = of_workers(run, rows, begin_s, end_s, costs)
        x.append([row["machine_s"], used.worker_s, used.sent.remote / 1000, kilobytes(used.sent, costs) / 1000])
        y.append(row["cpu_s"] - used.threads_s)
    fixed = tuple(getattr(costs, name) for name in OF_MACHINES)
    # What is off is a share of what is used: a machine at rest says as much as a busy one.
    weights = 1.0 / np.maximum(np.array(y), LEAST_CPU_S)
    return Linear(OF_MACHINES, fixed, np.array(x).reshape(-1, 4) * weights[:, None], np.array(y) * weights)


def kilobytes(sent: Deliveries, costs: Costs) -> float:
    return sent.kilobytes + sent.remote * costs.frame_bytes / 1000


@dataclass(frozen=True)
class Used:
    """Of the workers of a machine in some time: what they sent to others, as dear as a young process makes it; seconds
    of workers; CPU seconds of their executors' threads."""

    sent: Deliveries
    worker_s: float
    threads_s: float


def of_workers(run: RunSums, rows: Sequence[Row], begin_s: float, end_s: float, costs: Costs) -> Used:
    by_process: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        by_process.setdefault((row["topology"], row["port"], row["pid"]), []).append(row)
    sent, worker_s, threads_s = Deliveries(), 0.0, 0.0
    for (topology, *_), mine in by_process.items():
        times = dearness(run, mine[0], begin_s, end_s, costs)
        sent += of_worker(run.works[topology], mine).times(times)
        worker_s += max(float(row["worker_s"]) for row in mine)
        threads_s += sum(_dear_ms(run, row, costs, times) for row in mine) / 1000
    return Used(sent, worker_s, threads_s)


def _dear_ms(run: RunSums, row: Row, costs: Costs, times: float) -> float:
    """What a component itself asks for is not dearer."""
    component = component_of(run, row["topology"], row["component"])
    received = 0.0 if component is None or component.kind == "spout" else float(row["executed"] or 0)
    work_ms = received * (component.cpu_ms if component is not None else 0.0)
    return work_ms + (thread_ms(run, row, costs) - work_ms) * times
