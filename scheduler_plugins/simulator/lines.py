"""What workers and probes of a simulated cluster write: the worker lines and machine lines of docs/contracts.md.

The world counts parts of tuples; lines have whole ones. What is left of a part stays for the next line of the same
task, wherever that is written, so that over a run nothing is lost or made. What a worker had counted that died, nobody
writes. A tuple's source machine is not known (null), nor memory; CPU of a worker's first second belongs to no interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any

import numpy as np

from scheduler_plugins.simulator.layout import Flags, Floats, Ints, Layout, sums
from scheduler_plugins.simulator.rows import Histograms, LayoutRows, RowBuilder, Rows, Sums
from scheduler_plugins.simulator.world import Sample, WorkerKey

Line = dict[str, Any]
FIRST_PID = 1001
CLOSE_S = 1e-6
OF_TASKS = (
    "transferred", "busy_ms", "cpu_ms", "blocked_ms", "due", "gap_due", "missed", "late", "latencies",
    "latency_s", "square_s2", "written_s", "executed_by_storm",
)  # fmt: skip
SPREAD = ("transferred", "due", "executed_by_storm")


@dataclass
class Process:
    """A worker from its start on. `resumes`: the schedules of its sources had begun before it."""

    pid: int
    begun_s: float
    last_s: float  # up to then its lines say what was counted
    lines: int = 0
    resumes: bool = True
    has_resumed: bool = False  # it has written since its sources emit


@dataclass
class _Counts:
    """Of one layout, since they were written; `backlog`: tuples that wait, by where they come from."""

    rows: LayoutRows
    tasks: dict[str, Sums]
    sources: Sums
    dropped: Sums  # as sources
    streams: Sums
    traffic: Sums | None
    backlog: Floats

    @classmethod
    def of(cls, rows: LayoutRows, before: _Counts | None) -> _Counts:
        def on(name: str) -> Sums | None:
            return None if before is None else before.tasks[name]

        waiting = None if before is None else Sums(before.rows.sources.rows, before.backlog)
        traffic = None if rows.traffic is None else Sums.of(rows.traffic, before.traffic if before else None)
        return cls(
            rows,
            {name: Sums.of(rows.tasks, on(name), is_spread=name in SPREAD) for name in OF_TASKS},
            Sums.of(rows.sources.rows, before.sources if before else None, is_spread=True),
            Sums.of(rows.sources.rows, before.dropped if before else None, is_spread=True),
            Sums.of(rows.streams, before.streams if before else None, is_spread=True),
            traffic,
            Sums.of(rows.sources.rows, waiting).values,
        )


@dataclass
class WorkerLines:
    """`sample_s` is the world's. `traced`: ids of topologies whose workers count tuples by pair of tasks."""

    sample_s: float
    traced: set[str] = field(default_factory=set)
    _layout: Layout | None = None
    _keys: tuple[WorkerKey, ...] = ()
    _counts: _Counts | None = None
    _end_s: float = 0.0
    _processes: dict[WorkerKey, Process] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)  # of topologies
    _begun: frozenset[str] = frozenset()
    _waiting: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of task rows, at the end
    _behind_ms: Floats = field(default_factory=lambda: np.zeros(0))
    _pids: Iterator[int] = field(default_factory=lambda: count(FIRST_PID))

    def take(self, sample: Sample) -> list[Line]:
        """Return what is written up to the end of this sample that was not written before: a line each worker at full
        multiples of `sample_s`, and the last one of each that ends."""
        lines = self.end(sample)
        if sample.layout is not self._layout:
            self._change(sample)
        counts, ready = self._counts, _ready(sample)
        assert counts is not None
        self._begin(sample, ready)
        _Count(sample, counts, self._active(sample)).all()
        self._note_queues(sample, counts.rows)
        self._begun, self._end_s = sample.has_begun, sample.end
        if is_full(sample.end, self.sample_s):
            lines += self._write(ready)
            self._forget_rest(ready)
        if sample.dead:
            self._forget_rest(np.array([key not in sample.dead for key in self._keys], dtype=bool))
        return lines

    def end(self, following: Sample | None = None) -> list[Line]:
        """The last lines of workers that are not in the sample that follows; None: of all."""
        still = {} if following is None else dict(zip(following.worker_keys, following.workers, strict=True))
        over = {
            key for key, process in self._processes.items() if key not in still or still[key].begun_s != process.begun_s
        }
        if not over:
            return []
        lines = self._write(np.array([key in over for key in self._keys], dtype=bool))
        for key in over:
            del self._processes[key]
        return lines

    def _change(self, sample: Sample) -> None:
        layout = sample.layout
        for placed in layout.topologies:
            self._numbers.setdefault(placed.topology_id, len(self._numbers))
        traced = frozenset(self.traced & {each.topology_id for each in layout.topologies})
        rows = RowBuilder(layout, len(sample.worker_keys), self._numbers, traced).build()
        self._counts = _Counts.of(rows, self._counts)
        self._layout, self._keys = layout, sample.worker_keys

    def _begin(self, sample: Sample, ready: Flags) -> None:
        """A process is there once its tasks are; one without any writes nothing."""
        for row, (key, worker) in enumerate(zip(sample.worker_keys, sample.workers, strict=True)):
            if key not in self._processes and ready[row]:
                begun = max(worker.ready_s, sample.begin)
                self._processes[key] = Process(next(self._pids), worker.begun_s, begun)
            process = self._processes.get(key)
            if process is not None and not worker.is_active:
                process.resumes = key[0] in sample.has_begun
            elif process is not None and worker.active_s > sample.begin - CLOSE_S and not process.has_resumed:
                process.resumes = key[0] in self._begun

    def _active(self, sample: Sample) -> Floats:
        """Of each worker the share of the sample in which its sources' schedules were its own."""
        length = max(sample.end - sample.begin, CLOSE_S)
        first = [key[0] not in self._begun for key in sample.worker_keys]
        found = np.array([(sample.end - worker.active_s) / length for worker in sample.workers] + [0.0])
        return np.where([*first, False], (found > 0).astype(float), np.clip(found, 0.0, 1.0))

    def _note_queues(self, sample: Sample, rows: LayoutRows) -> None:
        layout, queues, tasks = sample.layout, sample.queues, rows.tasks
        whole = np.rint(queues.waiting).astype(np.int64)
        number = layout.tasks[tasks.executor]
        of_all = whole[tasks.executor]
        self._waiting = of_all // number + (rows.place < of_all % number)
        age_ms = np.maximum(sample.end - queues.oldest[tasks.executor], 0.0) * 1000.0
        self._behind_ms = np.where(self._waiting > 0, age_ms, 0.0)
        self._workers = sample.workers

    def _forget_rest(self, writers: Flags) -> None:
        """What was counted in other workers than these; of sources it belongs to the gap that whoever goes on tells
        of."""
        counts = self._counts
        assert counts is not None
        for row in np.flatnonzero(~writers).tolist():
            self._processes.pop(self._keys[row], None)
        gone = ~_of_rows(counts.rows.tasks, writers)
        due = counts.tasks["due"]
        counts.tasks["gap_due"].values += np.where(gone, due.values, 0.0)
        for name, column in counts.tasks.items():
            if name not in ("gap_due", "missed", "written_s"):
                column.drop(gone)
        for each in (counts.sources, counts.dropped, counts.streams, counts.traffic):
            if each is not None:
                each.drop(~_of_rows(each.rows, writers))

    def _write(self, workers: Flags) -> list[Line]:
        """A line each of these workers that have counted since their last one."""
        assert self._counts is not None
        due = [
            row
            for row in np.flatnonzero(workers).tolist()
            if self._keys[row] in self._processes and self._processes[self._keys[row]].last_s < self._end_s - CLOSE_S
        ]
        if not due:
            return []
        now = np.zeros(len(self._keys), dtype=bool)
        now[due] = True
        active = np.array([worker.is_active for worker in self._workers] + [False])
        groups = _Groups(self._counts, now, active, self._waiting, self._behind_ms)
        return [self._line(row, groups) for row in due]

    def _line(self, row: int, groups: _Groups) -> Line:
        topology_id, slot = self._keys[row]
        process, worker = self._processes[topology_id, slot], self._workers[row]
        line: Line = {
            "v": 2, "t": round(self._end_s, 3), "dt_s": round(self._end_s - process.last_s, 3), "machine": slot.machine,
            "port": slot.port, "pid": process.pid, "topology": topology_id, "seq": process.lines,
        }  # fmt: skip
        line |= groups.of(row, is_first=process.lines == 0)
        if worker.is_active and not process.has_resumed:
            process.has_resumed = True
            if process.resumes and (gaps := groups.gaps(row, worker.active_s)):
                line["gaps"] = gaps
        groups.note_written(row, self._end_s)
        process.lines += 1
        process.last_s = self._end_s
        return line


def _ready(sample: Sample) -> Flags:
    found = np.zeros(len(sample.worker_keys) + 1, dtype=bool)
    found[sample.layout.worker[sample.ready]] = True
    return found[:-1]


def _of_rows(rows: Rows, workers: Flags) -> Flags:
    return np.asarray(np.append(workers, False)[rows.worker])


class _Count:
    """Adds a sample to the counts. `active`: of each worker, the share of the time in which its sources counted."""

    def __init__(self, sample: Sample, counts: _Counts, active: Floats) -> None:
        self._sample, self._counts, self._active = sample, counts, active

    def all(self) -> None:
        counters, tasks = self._sample.counters, self._counts.tasks
        layout = self._sample.layout
        rows = self._counts.rows.tasks
        for name, values in {
            "transferred": counters.executed * layout.transfers,
            "busy_ms": counters.busy_s * 1000.0,
            "cpu_ms": counters.cpu_s * 1000.0,
            "blocked_ms": counters.blocked_s * 1000.0,
            "missed": counters.missed,
            "late": counters.late,
            "latencies": counters.executed,
            "executed_by_storm": np.where(layout.is_system, counters.executed, 0.0),
            "latency_s": counters.latency_s,
            "square_s2": counters.square_s2,
        }.items():
            tasks[name].values += values[rows.executor] * rows.share
        due = counters.due[rows.executor] * rows.share
        counted = due * self._active[rows.worker]
        tasks["due"].values += counted
        tasks["gap_due"].values += due - counted
        streams = self._counts.rows.streams
        executed = counters.executed[streams.executor] * streams.share
        self._counts.streams.values += executed * self._counts.rows.selectivity
        self._sources()
        traffic = self._counts.traffic
        if traffic is not None:
            traffic.values += counters.executed[traffic.rows.executor] * self._counts.rows.traffic_share

    def _sources(self) -> None:
        """An executor takes what came first, from wherever: in the proportion of what waits and comes."""
        sample, counts = self._sample, self._counts
        rows, arrivals = counts.rows.sources.rows, counts.rows.sources.arrivals
        arrived = np.concatenate(sample.counters.arrived) if sample.counters.arrived else np.zeros(0)
        came = sums(arrivals.cell, arrived, arrivals.cells)[arrivals.of_row] * rows.share
        pool = counts.backlog + came
        size = sample.layout.size
        total, number = sums(rows.executor, pool, size), sums(rows.executor, np.ones(rows.size), size)
        safe = np.where(total > 0, total, 1.0)
        share = np.where(total[rows.executor] > 0, pool / safe[rows.executor], 1.0 / number[rows.executor])
        counts.sources.values += sample.counters.executed[rows.executor] * share
        counts.dropped.values += sample.counters.dropped[rows.executor] * share
        counts.backlog = sample.queues.waiting[rows.executor] * share


class _Groups:
    """Columns of all groups, for the workers `now`; a line has a slice of each."""

    def __init__(self, counts: _Counts, now: Flags, active: Flags, waiting: Ints, behind_ms: Floats) -> None:
        self._counts, rows = counts, counts.rows
        tasks = counts.tasks
        mine = _of_rows(rows.tasks, now)
        streams = counts.streams.whole(_of_rows(rows.streams, now))
        sources = counts.sources.whole(_of_rows(rows.sources.rows, now))
        dropped = counts.dropped.whole(_of_rows(rows.sources.rows, now))
        executed, dropped_of_task = (
            sums(rows.sources.rows.of_task, of_rows.astype(float), rows.tasks.size).astype(np.int64)
            for of_rows in (sources, dropped)
        )
        executed += tasks["executed_by_storm"].whole(mine & rows.is_system)
        emitted = sums(rows.streams.of_task, streams.astype(float), rows.tasks.size).astype(np.int64)
        busy_ms = tasks["busy_ms"].all(mine)
        queue = np.where(rows.is_spout, 0, waiting)
        cpu_ms, blocked_ms = (np.round(tasks[name].all(mine), 3).tolist() for name in ("cpu_ms", "blocked_ms"))
        self._tasks = {
            "task": rows.tasks.task_column,
            "component": rows.tasks.names[0],
            "emitted": emitted.tolist(),
            "transferred": tasks["transferred"].whole(mine).tolist(),
            "executed": executed.tolist(),
            "execute_ms": np.where(rows.is_spout, 0.0, np.round(busy_ms, 3)).tolist(),
            "process_ms": _known_values(rows.is_acked, np.round(busy_ms, 3)),
            "queue": queue.tolist(),
            "cpu_ms": cpu_ms,
            "backpressure_ms": blocked_ms,
            "dropped": _known_values(rows.has_limit, dropped_of_task),
        }
        self._streams = {"task": rows.streams.task_column, "stream": rows.streams.names[0], "emitted": streams.tolist()}
        of_task = np.maximum(executed, 1)[rows.sources.rows.of_task]
        source_ms = np.round(busy_ms[rows.sources.rows.of_task] * sources / of_task, 3)
        self._sources = {
            "task": rows.sources.rows.task_column,
            "component": rows.sources.rows.names[0],
            "stream": rows.sources.rows.names[1],
            "executed": sources.tolist(),
            "execute_ms": source_ms.tolist(),
            "dropped": _known_values(rows.has_limit[rows.sources.rows.of_task], dropped),
        }
        self._spout_columns(active, emitted, waiting, behind_ms, mine)
        self._sink_columns(executed, mine)
        traffic = counts.traffic
        self._pairs: list[int] = [] if traffic is None else traffic.whole(_of_rows(traffic.rows, now)).tolist()

    def _spout_columns(self, active: Flags, emitted: Ints, waiting: Ints, behind_ms: Floats, mine: Flags) -> None:
        rows, tasks = self._counts.rows, self._counts.tasks
        self._counts_now = mine & rows.is_spout & active[rows.tasks.worker]
        columns = {name: tasks[name].whole(self._counts_now) for name in ("due", "missed", "late")}
        columns |= {"behind": waiting, "behind_ms": np.round(behind_ms, 3)}
        self._spouts: dict[str, list[Any]] = {"task": rows.tasks.task_column, "emitted": emitted.tolist()}
        for name, values in columns.items():
            self._spouts[name] = _known_values(self._counts_now, values)
        self._spout_rows: dict[int, list[int]] = {}  # by worker
        workers = rows.tasks.worker[rows.is_spout].tolist()
        for row, worker in zip(np.flatnonzero(rows.is_spout).tolist(), workers, strict=True):
            self._spout_rows.setdefault(worker, []).append(row)

    def _sink_columns(self, executed: Ints, mine: Flags) -> None:
        rows, tasks = self._counts.rows, self._counts.tasks
        has = mine & rows.is_sink & (executed > 0)
        at = np.flatnonzero(has)
        tuples, latency, square = (tasks[name].all(has)[at] for name in ("latencies", "latency_s", "square_s2"))
        mean = latency / np.maximum(tuples, CLOSE_S)
        variance = np.maximum(square / np.maximum(tuples, CLOSE_S) - mean**2, 0.0)
        self._histograms = Histograms(executed[at], mean, variance)
        self._sink_tasks, self._sink_n = rows.tasks.task[at].tolist(), executed[at].tolist()
        worker = rows.tasks.worker[at]
        self._sink_begins: list[int] = np.searchsorted(worker, np.arange(rows.tasks.workers + 1)).tolist()

    def of(self, worker: int, *, is_first: bool) -> Line:
        rows = self._counts.rows
        groups: Line = {"tasks": _slice(self._tasks, rows.tasks, worker)}
        if is_first:
            groups["tasks"]["cpu_ms"] = [None] * len(groups["tasks"]["task"])
        for name, group, table in (
            ("streams", self._streams, rows.streams),
            ("sources", self._sources, rows.sources.rows),
        ):
            if table.begins[worker] < table.begins[worker + 1]:
                groups[name] = _slice(group, table, worker)
        begin, end = self._sink_begins[worker], self._sink_begins[worker + 1]
        if begin < end:
            histograms = self._histograms
            groups["sinks"] = {
                "task": self._sink_tasks[begin:end],
                "source_machine": [None] * (end - begin),
                "n": self._sink_n[begin:end],
                "sum_ms": histograms.sum_ms[begin:end],
                "max_ms": histograms.max_ms[begin:end],
                "buckets": [histograms.buckets(row) for row in range(begin, end)],
                "counts": [histograms.counts(row) for row in range(begin, end)],
            }
        if spouts := self._spout_rows.get(worker):
            groups["spouts"] = {name: [column[row] for row in spouts] for name, column in self._spouts.items()}
        if rows.traffic is not None:
            begins, columns = rows.traffic.begins, (rows.traffic.task_column, rows.traffic.names[0], self._pairs)
            sent = [row for row in range(begins[worker], begins[worker + 1]) if self._pairs[row]]
            if sent:
                named = zip(("from", "to", "n"), columns, strict=True)
                groups["traffic"] = {name: [column[row] for row in sent] for name, column in named}
        return groups

    def gaps(self, worker: int, until_s: float) -> Line | None:
        """Return what fell due while no process counted, of a worker that goes on with its sources."""
        tasks, rows = self._counts.tasks, self._spout_rows.get(worker, [])
        now = np.zeros(self._counts.rows.tasks.size, dtype=bool)
        now[rows] = True
        due = tasks["gap_due"].whole(now).tolist()
        from_s = tasks["written_s"].values.tolist()
        if not any(due):
            return None
        return {
            "task": [self._spouts["task"][row] for row in rows],
            "from_s": [from_s[row] or None for row in rows],
            "until_s": [until_s] * len(rows),
            "due": [due[row] for row in rows],
        }

    def note_written(self, worker: int, t: float) -> None:
        rows = self._spout_rows.get(worker, [])
        self._counts.tasks["written_s"].values[[row for row in rows if self._counts_now[row]]] = t


def _known_values(known: Flags, values: Ints | Floats) -> list[Any]:
    """Return the values, null where they are not known."""
    return [value if is_known else None for value, is_known in zip(values.tolist(), known.tolist(), strict=True)]


def _slice(columns: Mapping[str, Sequence[Any]], rows: Rows, worker: int) -> Line:
    begin, end = rows.begins[worker], rows.begins[worker + 1]
    return {name: list(column[begin:end]) for name, column in columns.items()}


@dataclass
class MachineLines:
    """As `WorkerLines`, of the probe of each machine."""

    sample_s: float
    _begin_s: float | None = None
    _sums: dict[str, list[float]] = field(default_factory=dict)  # by machine, as in MachineCounters

    def take(self, sample: Sample, cores: Mapping[str, float], names: Sequence[str]) -> list[Line]:
        """`cores` that each machine which is up may use; `names` of all machines, in the world's order."""
        counters = sample.machines
        columns = [getattr(counters, each.name).tolist() for each in fields(counters)]
        for name, *values in zip(names, *columns, strict=True):
            known = self._sums.setdefault(name, [0.0] * len(values))
            self._sums[name] = [before + value for before, value in zip(known, values, strict=True)]
        begin_s = sample.begin if self._begin_s is None else self._begin_s
        if not is_full(sample.end, self.sample_s) or sample.end - begin_s < CLOSE_S:
            self._begin_s = begin_s
            return []
        lines = [self._line(name, sample.end, sample.end - begin_s, cores[name]) for name in names if name in cores]
        self._begin_s, self._sums = sample.end, {}
        return lines

    def _line(self, name: str, t: float, length_s: float, cores: float) -> Line:
        """Memory, and what a cgroup or a hypervisor would say, is not known."""
        cpu_s, runnable_s, sent, received = self._sums[name]
        interfaces = {"name": ["ctl0", "exp0"], "rx_bytes": [None, round(received)], "tx_bytes": [None, round(sent)]}
        return {
            "v": 1, "t": round(t, 3), "dt_s": round(length_s, 3), "machine": name,
            "cpu_cores": round(cpu_s / length_s, 4), "cpu_quota_cores": cores, "throttled_ms": None,
            "steal_percent": None, "runnable": round(runnable_s / length_s, 4), "memory_bytes": None,
            "memory_limit_bytes": None, "worker_memory_bytes": None, "interfaces": interfaces,
        }  # fmt: skip


def is_full(t: float, sample_s: float) -> bool:
    """Return whether lines are taken at this time."""
    return abs(t - round(t / sample_s) * sample_s) < CLOSE_S
