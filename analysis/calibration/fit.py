"""Costs of the simulator from sums of runs. Pure: numpy over at most a few thousand rows.

Each parameter is fitted over all runs together; its 95 % interval is Student's over the same fit with one run left out
at a time (the jackknife). What the data cannot tell apart keeps its default, and the reason says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import t as student

from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import Deliveries, is_dealt_evenly, of_worker
from analysis.calibration.hops import HopRow, hop_rows
from analysis.calibration.starts import overlaps
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import ComponentWork, Costs

Floats = NDArray[np.float64]
DEFAULT = Costs()
CONFIDENCE = 0.95
OWN_SHARE = 0.02  # of a column's variation that no other column explains: with less it cannot be told from them
LEAST_ROWS = 10
LEAST_HOP_ROWS = 2  # each is a whole side of an event
ROUNDING = 0.25  # variance of a second's whole tuples that is no variation of speed
LEAST_PAIRS = 30


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


def fit_costs(runs: Sequence[RunSums], default: Costs = DEFAULT) -> list[Estimate]:
    """All parameters, in the order of Costs."""
    found: dict[str, Estimate] = {}
    known = default
    for part in (_threads, _starts_and_machines, _hops, _noise):
        estimates = part(runs, known)
        found |= {each.name: each for each in estimates}
        known = replace(known, **{each.name: each.value for each in estimates if each.value is not None})
    unfitted = "nothing in a record says it"
    return [
        found.get(each.name) or Estimate(each.name, None, getattr(default, each.name), None, None, 0, unfitted)
        for each in fields(Costs)
    ]


def costs_of(estimates: Sequence[Estimate]) -> Costs:
    """The fitted ones, over the defaults."""
    return Costs(**{each.name: each.default if each.value is None else each.value for each in estimates})


# --- small fits ---


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
    values: dict[str, float]
    unknown: dict[str, str]  # by column: why it has none


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
    half = float(student.ppf((1 + CONFIDENCE) / 2, runs - 1)) * error
    return max(0.0, whole - half), whole + half


def _linear_estimates(parts: Sequence[Linear], default: Costs, wanted: Sequence[str]) -> list[Estimate]:
    """`parts`: one a run."""
    parts = [part for part in parts if len(part.y)]
    if not parts:
        return [_kept(name, default, "no run has the measurements that it takes") for name in wanted]
    whole = solve(Linear.joined(parts))
    found = []
    for name in wanted:
        if name in whole.unknown:
            found.append(_kept(name, default, whole.unknown[name]))
            continue

        def value(chosen: Sequence[int], name: str = name) -> float | None:
            return solve(Linear.joined([parts[place] for place in chosen])).values.get(name)

        low, high = jackknife(len(parts), value)
        found.append(Estimate(name, whole.values[name], getattr(default, name), low, high, len(parts)))
    return found


def _kept(name: str, default: Costs, why: str) -> Estimate:
    return Estimate(name, None, getattr(default, name), None, None, 0, why)


# --- CPU of executors' threads ---

OF_THREADS = ("receive_ms", "local_emit_ms")
RESTS = ("rest of spouts", "rest of bolts")  # a thread that waits polls; in Costs that is the worker's, `idle_cores`


def _threads(runs: Sequence[RunSums], default: Costs) -> list[Estimate]:
    """CPU time of a component's threads in a window, beside its stated cost, is that of what it receives and emits."""
    return _linear_estimates([_thread_rows(run, default) for run in runs], default, OF_THREADS)


def _thread_rows(run: RunSums, default: Costs) -> Linear:
    of_window: dict[tuple[str, str, float], list[Row]] = {}
    for row in run.activity:
        if row["topology"] in run.works and row["timed_s"]:
            of_window.setdefault((row["topology"], row["component"], row["window_s"]), []).append(row)
    x, y = [], []
    for (topology, name, _), rows in of_window.items():
        component = _component(run, topology, name)
        if component is None:
            continue
        total = {key: sum(float(row[f"timed_{key}"] or 0) for row in rows) for key in ("executed", "transferred", "s")}
        resting_s = max(0.0, total["s"] - sum(float(row["timed_execute_ms"] or 0) for row in rows) / 1000)
        is_spout = component.kind == "spout"
        received = 0.0 if is_spout else total["executed"]
        x.append([received, total["transferred"], resting_s * is_spout, resting_s * (not is_spout)])
        y.append(sum(float(row["cpu_ms"]) for row in rows) - component.cpu_ms * received)
    fixed = (default.receive_ms, default.local_emit_ms, None, None)
    return Linear((*OF_THREADS, *RESTS), fixed, np.array(x).reshape(-1, 4), np.array(y))


def _component(run: RunSums, topology: str, name: str) -> ComponentWork | None:
    return next((each for each in run.works[topology].components if each.name == name), None)


def _thread_ms(run: RunSums, row: Row, costs: Costs) -> float:
    """CPU of what a component did, as the simulator has it."""
    component = _component(run, row["topology"], row["component"])
    if component is None:
        return 0.0
    received = 0.0 if component.kind == "spout" else float(row["executed"] or 0)
    own = (costs.receive_ms + component.cpu_ms) * received
    return own + costs.local_emit_ms * float(row["transferred"] or 0)


# --- machines, and starts of workers ---

LEAST_CPU_S = 0.05  # of a machine and window, that is told from nothing
OF_MACHINES = ("machine_idle_cores", "idle_cores", "remote_emit_ms", "remote_kb_ms")


def _starts_and_machines(runs: Sequence[RunSums], default: Costs) -> list[Estimate]:
    found = _linear_estimates([_machine_rows(run, default) for run in runs], default, OF_MACHINES)
    known = replace(default, **{each.name: each.value for each in found if each.value is not None})
    return [*found, *_starts(runs, known)]


def _machine_rows(run: RunSums, costs: Costs) -> Linear:
    """Windows of machines on which no worker starts: CPU seconds beside those of threads."""
    starting = overlaps(run.starts)
    length_s = _window_length(run)
    windows: dict[tuple[str, float], list[Row]] = {}
    for row in run.activity:
        windows.setdefault((row["machine"], row["window_s"]), []).append(row)
    x, y = [], []
    for row in run.machine_cpu:
        begin_s, end_s = row["window_s"], row["window_s"] + length_s
        spans = starting.get((run.run_id.rpartition(" ")[2], row["machine"]), [])
        rows = windows.get((row["machine"], begin_s), [])
        is_whole = row["machine_s"] > 0.8 * length_s and row["machine"] in run.cores
        if not is_whole or any(span.from_s - 1 < end_s and begin_s < span.until_s for span in spans):
            continue
        if any(each["topology"] not in run.works or not is_dealt_evenly(run.works[each["topology"]]) for each in rows):
            continue
        sent, worker_s = _of_workers(run, rows)
        x.append([row["machine_s"], worker_s, sent.remote / 1000, _kilobytes(sent, costs) / 1000])
        y.append(row["cpu_s"] - sum(_thread_ms(run, each, costs) for each in rows) / 1000)
    fixed = tuple(getattr(costs, name) for name in OF_MACHINES)
    # What is off is a share of what is used: a machine at rest says as much as a busy one.
    weights = 1.0 / np.maximum(np.array(y), LEAST_CPU_S)
    return Linear(OF_MACHINES, fixed, np.array(x).reshape(-1, 4) * weights[:, None], np.array(y) * weights)


def _kilobytes(sent: Deliveries, costs: Costs) -> float:
    return sent.kilobytes + sent.remote * costs.frame_bytes / 1000


def _window_length(run: RunSums) -> float:
    begins = sorted({row["window_s"] for row in run.machine_cpu})
    return float(min((b - a for a, b in pairwise(begins)), default=math.inf))


def _of_workers(run: RunSums, rows: Sequence[Row]) -> tuple[Deliveries, float]:
    by_process: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        by_process.setdefault((row["topology"], row["port"], row["pid"]), []).append(row)
    sent, worker_s = Deliveries(), 0.0
    for (topology, *_), mine in by_process.items():
        sent += of_worker(run.works[topology], mine)
        worker_s += max(float(row["worker_s"]) for row in mine)
    return sent, worker_s


@dataclass(frozen=True)
class StartRow:
    """One machine's starts for one order: CPU seconds of all of them, and `bound_s`, how long they would take if
    nothing but the machine's cores held them up."""

    number: int
    restarted: int
    elapsed_s: float
    cpu_s: float
    bound_s: Callable[[float], float]


WAITS = {
    "start_wait_s": "every worker that started had to wait for another to end first",
    "stop_s": "no worker had to end before another began in its slot",
}


def _starts(runs: Sequence[RunSums], costs: Costs) -> list[Estimate]:
    names = ("start_cpu_s", "start_wait_s", "stop_s")
    rows = [_start_rows(run, costs) for run in runs]
    rows = [each for each in rows if each]
    if not rows:
        return [_kept(name, costs, "no worker started on a machine whose CPU was measured") for name in names]

    def chosen(places: Sequence[int]) -> list[StartRow]:
        return [row for place in places for row in rows[place]]

    def cpu_s(places: Sequence[int]) -> float:
        return _start_cpu(chosen(places))

    found = [
        Estimate("start_cpu_s", cpu_s(range(len(rows))), costs.start_cpu_s, *jackknife(len(rows), cpu_s), len(rows))
    ]
    for place, (name, why) in enumerate(WAITS.items()):

        def value(places: Sequence[int], place: int = place) -> float | None:
            return start_times(chosen(places), cpu_s(places))[place]

        seconds = value(range(len(rows)))
        if seconds is None:
            found.append(_kept(name, costs, why))
        else:
            found.append(Estimate(name, seconds, getattr(costs, name), *jackknife(len(rows), value), len(rows)))
    return found


def _start_cpu(rows: Sequence[StartRow]) -> float:
    return max(0.0, sum(row.cpu_s for row in rows) / max(1, sum(row.number for row in rows)))


def _start_rows(run: RunSums, costs: Costs) -> list[StartRow]:
    found = []
    for group in run.starts:
        used_s, cores = run.cpu_of_starts.get(group.span), run.cores.get(group.machine)
        if used_s is None or not cores:
            continue
        rows = [row for span, row in run.tuples_of_starts if span == group.span]
        known = [row for row in rows if row["topology"] in run.works]
        sent, worker_s = _of_workers(run, known)
        length_s = group.span.until_s - group.span.from_s
        threads_s = sum(_thread_ms(run, row, costs) for row in known) / 1000
        threads_s += (costs.remote_emit_ms * sent.remote + costs.remote_kb_ms * _kilobytes(sent, costs)) / 1000
        rest_s = costs.machine_idle_cores * length_s + costs.idle_cores * worker_s
        others = min(cores * 0.9, (threads_s + rest_s) / length_s)

        def bound_s(cpu_s: float, number: int = group.number, free: float = cores - others) -> float:
            return max(number * cpu_s / free, cpu_s)

        cpu_s = used_s - threads_s - rest_s
        found.append(StartRow(group.number, group.restarted, group.elapsed_s, cpu_s, bound_s))
    return found


def start_times(rows: Sequence[StartRow], cpu_s: float) -> tuple[float | None, float | None]:
    """`start_wait_s` and `stop_s`, which pass before a start's CPU begins, by least squares; None where no row has it.

    A machine whose workers all begin anew says the sum of both only; one with new workers the wait alone.
    """
    again = np.array([float(row.restarted > 0) for row in rows])
    rest = np.array([row.elapsed_s - row.bound_s(cpu_s) for row in rows])
    wait_and_stop, _ = nnls(np.column_stack([np.ones(len(rows)), again]), rest)
    wait, stop = (float(value) for value in wait_and_stop)
    return (wait if not again.all() else None), (stop if again.any() and not again.all() else None)


# --- latency and noise ---


def _hops(runs: Sequence[RunSums], default: Costs) -> list[Estimate]:
    rows = [hop_rows(run) for run in runs]
    parts = [_hop_linear(each, default) for each in rows if each]
    if not parts:
        why = "no side of an event was free of queues: latency says nothing of the way"
        return [_kept(name, default, why) for name in ("hop_ms", "remote_hop_ms")]
    return _linear_estimates(parts, default, ("hop_ms", "remote_hop_ms"))


def _hop_linear(rows: Sequence[HopRow], default: Costs) -> Linear:
    """What matters most first: between workers."""
    names = ("remote_hop_ms", "hop_ms")
    x = np.array([[row.remote, row.local] for row in rows]).reshape(-1, 2)
    fixed = tuple(getattr(default, name) for name in names)
    return Linear(names, fixed, x, np.array([row.ms for row in rows]), LEAST_HOP_ROWS)


def _noise(runs: Sequence[RunSums], default: Costs) -> list[Estimate]:
    sums = [each for run in runs if (each := _noise_sums(run)) is not None]
    if not sums:
        return [_kept("noise", default, f"no executor was busy all the time for {LEAST_PAIRS} seconds")]

    def value(places: Sequence[int]) -> float:
        square = sum(sums[place][0] for place in places) / sum(sums[place][1] for place in places)
        return math.sqrt(max(0.0, square))

    low, high = jackknife(len(sums), value)
    return [Estimate("noise", value(range(len(sums))), default.noise, low, high, len(sums))]


def _noise_sums(run: RunSums) -> tuple[float, int] | None:
    """Sum of squared variations of speed, second by second, and of how many seconds."""
    total, pairs = 0.0, 0
    for row in run.speeds:
        work = run.works.get(row["topology"])
        component = _component(run, row["topology"], row["component"]) if work else None
        if component is None or component.kind == "spout" or not row["rates"]:
            continue
        rate = row["rates"] / row["pairs"]
        seen = row["square"] / row["pairs"] / rate**2
        # A second has `rate` tuples, each of another cost, and begins and ends within one.
        total += row["pairs"] * (seen - component.cost_cv2 / rate - ROUNDING / rate**2)
        pairs += row["pairs"]
    return (total, pairs) if pairs >= LEAST_PAIRS else None


def as_costs(estimates: Sequence[Estimate]) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(costs_of(estimates)).items()}
