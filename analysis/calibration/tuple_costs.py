"""CPU and time of tuples, from sums by window: of executors' threads, of sleeps, of machines and their workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.calibration.linear import CostEstimate, Linear, estimate, linear_estimates, pooled
from analysis.calibration.starts import overlaps
from analysis.calibration.sums import RunSums
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedComponent, SimulatedTopology, young_share

OF_THREADS = ("receive_ms", "local_emit_ms", "poll_ms")
LEAST_CPU_S = 0.05  # of a machine and window, the least that differs from 0
LEAST_COVERED = 0.8  # of a window, by a machine's lines
OF_MACHINES = ("machine_idle_cores", "idle_cores", "remote_emit_ms", "warm_up_cores", "remote_kb_ms")
EVEN = ("shuffle", "fields", "none", "local_or_shuffle", "all")


def tuple_estimates(runs: Sequence[RunSums], default: Costs) -> list[CostEstimate]:
    """Return estimates of a tuple's cost, and of machines and workers at rest."""
    estimates = linear_estimates([_thread_rows(run, default) for run in runs], default, OF_THREADS)
    costs = with_estimates(default, estimates)
    slept = [part for run in runs if (part := _slept(run, costs))[1]]
    estimates.append(estimate("sleep_slack_ms", slept, pooled, costs, "no component slept"))
    return [*estimates, *linear_estimates([_machine_rows(run, costs) for run in runs], costs, OF_MACHINES)]


def with_estimates(costs: Costs, estimates: Sequence[CostEstimate]) -> Costs:
    return replace(costs, **{each.name: each.value for each in estimates if each.value is not None})


def component_of(run: RunSums, row: Row) -> SimulatedComponent | None:
    """Return the component of a row; None if its topology's costs are not stated."""
    work = run.works.get(row["topology"])
    return next((each for each in work.components if each.name == row["component"]), None) if work else None


# --- executors' threads ---


def _thread_rows(run: RunSums, default: Costs) -> Linear:
    """Return the fit of a component's CPU time in a window, beside its stated cost, by its received and emitted tuples
    and the looks of its executors' threads while they had nothing to do."""
    groups: dict[tuple[str, str, float], list[Row]] = {}
    for row in run.activity:
        if row["timed_s"] and component_of(run, row) is not None:
            groups.setdefault((row["topology"], row["component"], row["window_s"]), []).append(row)
    x, y = [], []
    for rows in groups.values():
        component = component_of(run, rows[0])
        assert component is not None

        def total(name: str, rows: Sequence[Row] = rows) -> float:
            return sum(float(row[name] or 0) for row in rows)

        received = 0.0 if component.kind == "spout" else total("timed_executed")
        resting_s = max(0.0, total("timed_executor_s") - total("timed_execute_ms") / 1000)
        x.append([received, total("timed_transferred"), resting_s * looks_per_s(run, rows[0], default)])
        y.append(total("cpu_ms") - component.cpu_ms * received)
    defaults = tuple(getattr(default, name) for name in OF_THREADS)
    return Linear(OF_THREADS, defaults, np.array(x).reshape(-1, 3), np.array(y))


def looks_per_s(run: RunSums, row: Row, costs: Costs) -> float:
    """Return how often an executor of this component that has nothing to do looks for tuples; 0 where its topology's
    costs are not stated, or it does not sleep."""
    component = component_of(run, row)
    if component is None:
        return 0.0
    work = run.works[row["topology"]]
    sleep_s = (work.spout_waits if component.kind == "spout" else work.bolt_waits).sleep_s
    return 1.0 / (sleep_s + costs.sleep_slack_ms / 1000) if sleep_s else 0.0


def polls_ms(run: RunSums, row: Row, costs: Costs) -> float:
    """Return the CPU of looks without tuples of a component's executors in a process, by the simulator's rules."""
    resting_s = max(0.0, float(row["worker_s"]) * int(row["executors"]) - float(row["execute_ms"] or 0) / 1000)
    return costs.poll_ms * resting_s * looks_per_s(run, row, costs)


def thread_ms(run: RunSums, row: Row, costs: Costs) -> float:
    """Return the CPU of a component's activity, by the simulator's rules."""
    component = component_of(run, row)
    if component is None:
        return 0.0
    received = 0.0 if component.kind == "spout" else float(row["executed"] or 0)
    return (costs.receive_ms + component.cpu_ms) * received + costs.local_emit_ms * float(row["transferred"] or 0)


def _slept(run: RunSums, costs: Costs) -> tuple[float, float]:
    """Return milliseconds of tuples beyond their sleep and their CPU, for components that sleep, while nothing starts
    beside them, and tuples."""
    start_spans, over_ms, tuples = overlaps(run.starts, run.joins), 0.0, 0.0
    for row in run.activity:
        component, begin_s = component_of(run, row), row["window_s"]
        starts = any(span.touches(begin_s, begin_s + run.window_s) for span in start_spans.get(row["machine"], ()))
        if component is None or not component.sleep_ms or not row["executed"] or row["execute_ms"] is None or starts:
            continue
        asked_ms = component.sleep_ms * float(row["executed"]) + thread_ms(run, row, costs)
        over_ms += float(row["execute_ms"]) - asked_ms
        tuples += float(row["executed"])
    return over_ms, tuples


# --- tuples that leave a worker: from the places of tasks, as an even grouping deals evenly ---


def is_dealt_evenly(work: SimulatedTopology | None) -> bool:
    """Return whether it is known how many tuples leave a worker: every component has one stream with a known
    distribution, and none has routes of its own."""
    if work is None:
        return False
    streams: dict[str, set[str]] = {}
    for edge in work.edges:
        streams.setdefault(edge.source, set()).add(edge.stream)
    is_even = all(edge.grouping in EVEN and not edge.routes for edge in work.edges)
    return is_even and all(len(names) == 1 for names in streams.values())


def remote_shares(edge: EdgeWork, work: SimulatedTopology, here: Mapping[str, int]) -> float:
    """Return deliveries to other workers per tuple emitted on the edge in a worker that has `here` tasks of
    components."""
    tasks = next(len(component.tasks) for component in work.components if component.name == edge.target)
    local_tasks = min(here.get(edge.target, 0), tasks)
    if edge.grouping == "all":
        return float(tasks - local_tasks)
    if edge.grouping == "local_or_shuffle" and local_tasks:
        return 0.0
    return 1.0 - local_tasks / tasks


def deliveries_of_worker(work: SimulatedTopology, rows: Iterable[Row]) -> tuple[float, float]:
    """Return the tuples that one process of a worker sends to tasks of others in one window, and their kilobytes
    without Storm's frame; `rows` are those of its components."""
    rows_by_component = {row["component"]: row for row in rows}
    task_counts = {name: row["tasks"] for name, row in rows_by_component.items()}
    remote = kilobytes = 0.0
    for edge in work.edges:
        if edge.source in rows_by_component:
            tuples = (rows_by_component[edge.source]["emitted"] or 0) * remote_shares(edge, work, task_counts)
            remote += tuples
            kilobytes += tuples * edge.tuple_bytes / 1000.0
    return remote, kilobytes


# --- machines ---


@dataclass(frozen=True)
class MachineUse:
    """Use by the workers of a machine in some time: tuples to other workers and their kilobytes (1,000 bytes) with what
    Storm adds to each; seconds of workers, and of young ones, weighted by their youth (1 for one that has just started,
    less for older ones); CPU seconds of their executors' threads."""

    remote: float
    kilobytes: float
    worker_s: float
    young_s: float
    threads_s: float


def use_of_workers(run: RunSums, rows: Sequence[Row], begin_s: float, end_s: float, costs: Costs) -> MachineUse:
    """Return the use of workers between two times (epoch seconds). `rows`: of `activity`, one a process and component,
    all of one machine and that time."""
    by_process: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        by_process.setdefault((row["topology"], row["port"], row["pid"]), []).append(row)
    remote = kilobytes = worker_s = young_s = 0.0
    for (topology, port, pid), process_rows in by_process.items():
        to_others, kilobytes_to_others = deliveries_of_worker(run.works[topology], process_rows)
        remote, kilobytes = remote + to_others, kilobytes + kilobytes_to_others
        seconds = max(float(row["worker_s"]) for row in process_rows)
        worker_s += seconds
        begun_s = run.begun_s.get((topology, process_rows[0]["machine"], port, pid))
        if begun_s is not None:  # otherwise it is old
            since_s = max(begin_s, begun_s)
            young_s += seconds * young_share(since_s - begun_s, end_s - since_s, costs.warm_up_s)
    kilobytes += remote * costs.frame_bytes / 1000
    threads_s = sum(thread_ms(run, row, costs) + polls_ms(run, row, costs) for row in rows) / 1000
    return MachineUse(remote, kilobytes, worker_s, young_s, threads_s)


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
        if not all(is_dealt_evenly(run.works.get(each["topology"])) for each in rows):
            continue
        use = use_of_workers(run, rows, begin_s, end_s, costs)
        # Lines of the machine may be missing where those of its workers are not.
        covered = min(1.0, row["machine_s"] / max((float(each["worker_s"]) for each in rows), default=1e-9))
        of_workers_s = np.array([use.worker_s, use.remote / 1000, use.young_s, use.kilobytes / 1000])
        x.append([row["machine_s"], *(covered * of_workers_s)])
        y.append(row["cpu_s"] - covered * use.threads_s)
    defaults = tuple(getattr(costs, name) for name in OF_MACHINES)
    # The error is a share of the use: a machine at rest says as much as a busy one. The share is of the use that these
    # costs predict and not of the observed one, which would favour windows that chance made cheap.
    columns = np.array(x).reshape(-1, 5)
    weights = 1.0 / np.maximum(columns @ np.array(defaults), LEAST_CPU_S)
    return Linear(OF_MACHINES, defaults, columns * weights[:, None], np.array(y) * weights)
