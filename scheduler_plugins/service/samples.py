"""The latest worker and machine lines, and their counts in a window, for an Observation.

Everything is counted in one window and divided by its one length, so that an edge and the components at its ends agree.
The window ends where the lines of every worker have arrived, the slowest one's too. It begins `window_s` before that,
or where the last worker began or resumed after a silence: a window measures the work of all workers. Pure: time comes
in with the lines. Lines follow the contract (docs/contracts.md, "The worker line").

`sample_s` is the usual length of a line, in whole seconds: 1 on machines, more where a long run is simulated. Limits of
late or missing lines follow from it (`limit_for`), and the series has a row for each `sample_s`.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from scheduler_plugins.service.emission_records import EmissionRecords
from scheduler_plugins.service.line_sums import CountedLine, LineSums, counted
from scheduler_plugins.service.run_snapshot import TupleCounts, WorkerRestart

LONGEST_LINE_S = 3600.0
AHEAD_S = 60.0  # a line from further ahead has a wrong clock; it would stay, as old lines go by newer ones' time
SERIES_LENGTH_S = 900  # of the throughput series; nobody reads further back, however long a run is
INCOMPLETE_S = 4  # workers post every other second, so the newest seconds are not complete yet
SAMPLE_LENGTHS_S = (1, 2, 5, 10)  # whole parts of the analysis' windows, which are as long as the longest

Line = Mapping[str, Any]
_QUEUE = "queue of "
_BEGIN_S, _T_S = attrgetter("begin_s"), attrgetter("t_s")  # of a counted line

# For lines of a second; `limit_for` converts them for longer ones.
FRESH_S = 10.0  # a worker whose newest line is older is silent; the harness sends no scale request then
SILENT_MACHINE_S = 15.0  # a probe posts every 5 s
GAP_S = 5.0  # may be missing of a worker in a window, as one or two lost posts: more is a silence
WINDOW_S = 60.0  # the longest window of rates, unless a policy's `window_s` says another
FEWEST_SHARE = 0.5  # share of that, or of a shorter one: rates of less work cannot be used for a decision


def limit_for(sample_s: float, of_a_second_s: float) -> float:
    """Return a limit on silence for lines of `sample_s`: a line comes as much later as it is longer."""
    return of_a_second_s + max(0.0, sample_s - 1.0)


@dataclass(frozen=True)
class Window:
    """The counted time (epoch seconds); `fault` says why its rates cannot be used for a decision."""

    since_s: float
    until_s: float
    fault: str = ""

    @property
    def seconds(self) -> float:
        return max(0.0, self.until_s - self.since_s)

    def share(self, line: CountedLine) -> float:
        """Return how much of the line's interval lies in the window, 0 to 1."""
        begin, end = line.begin_s, line.t_s
        if self.since_s <= begin < end <= self.until_s:
            return 1.0  # the usual case, in each round anew
        seconds = min(end, self.until_s) - max(begin, self.since_s)
        return max(0.0, seconds) / (end - begin) if end > begin else float(self.since_s < end <= self.until_s)


@dataclass(frozen=True)
class TaskSums:
    """Counts of one task in the window, and its newest state. `timed`: executed tuples whose time is known."""

    emitted: float = 0.0
    executed: float = 0.0
    timed: float = 0.0
    execute_ms: float = 0.0
    queue: float | None = None
    backpressure_ms: float | None = None
    due: float | None = None
    behind_ms: float | None = None
    cpu_ms: float | None = None


@dataclass(frozen=True)
class TaskState:
    """The end of the newest line that names a task (epoch seconds), and its values."""

    t_s: float
    queue: float | None
    behind_ms: float | None  # of a spout's task


@dataclass(frozen=True)
class WindowCounts:
    """Counts of a window: by task; tuples emitted by (task, stream); tuples executed by (task, component, stream) of
    origin; and the mean latency at sinks."""

    tasks: Mapping[int, TaskSums]
    streams: Mapping[tuple[int, str], float]
    sources: Mapping[tuple[int, str, str], float]
    latency_ms: float | None


@dataclass
class Samples:
    """Worker lines of the last `window_s` seconds and a series of the last `SERIES_LENGTH_S`, of one topology."""

    topology_id: str
    window_s: float = WINDOW_S
    sample_s: int = 1
    _begin_s: float | None = None  # of the first line
    _lines: dict[str, deque[CountedLine]] = field(default_factory=lambda: defaultdict(deque))  # by slot
    _newest: dict[int, TaskState] = field(default_factory=dict)  # by task, wherever it is
    # Per second, by the end of a row, a multiple of `sample_s`.
    _series: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    _processes: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # by slot
    _spouts: dict[int, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))  # slots, processes of it
    _joined_s: dict[str, float] = field(default_factory=dict)  # slot → since when the topology is in it
    _counts: LineSums = field(default_factory=lambda: LineSums(lambda line: line.counts))
    _traffic: LineSums = field(default_factory=lambda: LineSums(lambda line: line.traffic))
    restarts: list[WorkerRestart] = field(default_factory=list)  # another process in a slot, or of a spout
    emissions: EmissionRecords = field(default_factory=EmissionRecords)
    sinks: frozenset[str] = frozenset()
    measured: frozenset[str] = frozenset()  # the components whose tuples are the throughput

    def add_worker(self, line: Line) -> None:
        """Take a worker's line; raises KeyError, TypeError or ValueError for one that violates the contract."""
        slot, now = f"{line['machine']}:{line['port']}", float(line["t"])
        if not (math.isfinite(now) and 0 <= float(line["dt_s"]) <= LONGEST_LINE_S):
            raise ValueError(f"t is {now}, dt_s is {line['dt_s']}; allowed: 0 to {LONGEST_LINE_S:g} s")
        ends = (line.get("gaps") or {}).get("until_s", ())
        if any(not until_s <= now + AHEAD_S for until_s in ends):
            raise ValueError(f"a gap ends at {max(ends)}; allowed: {AHEAD_S:g} s after t, which is {now}")
        counted_line = counted(line)
        self._note_process(slot, line)
        self._note_state(line, now)
        self._count(line)
        self._count_gaps(line)
        self.emissions.add(line)
        self._begin_s = counted_line.begin_s if self._begin_s is None else min(self._begin_s, counted_line.begin_s)
        lines, oldest_s = self._lines[slot], now - self.window_s - self._fresh_s
        lines.append(counted_line)
        while lines and lines[0].t_s <= oldest_s:
            lines.popleft()

    @property
    def _fresh_s(self) -> float:
        return limit_for(self.sample_s, FRESH_S)

    def _note_state(self, line: Line, t: float) -> None:
        tasks, spouts = line.get("tasks") or {}, line.get("spouts") or {}
        behind = dict(zip(spouts.get("task", ()), spouts.get("behind_ms", ()), strict=True))
        queues = dict(zip(tasks.get("task", ()), tasks.get("queue", ()), strict=True))
        for task in {**queues, **behind}:
            state = self._newest.get(int(task))
            if state is None or state.t_s <= t:
                self._newest[int(task)] = TaskState(t, queues.get(task), behind.get(task))

    def _note_process(self, slot: str, line: Line) -> None:
        """Record a worker's process. Its first line may lack its spouts: they are recorded when they appear, in any
        slot."""
        pid, pids = int(line["pid"]), self._processes[slot]
        tasks = [int(task) for task in (line.get("spouts") or {}).get("task", ())]
        spouts = [task for task in tasks if self._spouts[task] and (slot, pid) not in self._spouts[task]]
        if spouts or (pids and pid not in pids):
            self.restarts.append(WorkerRestart(float(line["t"]), slot, tuple(spouts)))
        pids.add(pid)
        for task in tasks:
            self._spouts[task].add((slot, pid))

    def _count(self, line: Line) -> None:
        """Count a line. One of several seconds, by a throttled sampler, counts evenly in each of them."""
        tasks, spouts = line.get("tasks") or {}, line.get("spouts") or {}
        emitted = dict(zip(spouts.get("task", ()), spouts.get("emitted", ()), strict=True))
        executed = [*zip(*(tasks.get(key, ()) for key in ("task", "component", "executed")), strict=True)]
        counts = {
            "throughput": sum(emitted.get(t, n) or 0 for t, component, n in executed if component in self.measured),
            "sinks": sum(n or 0 for _, component, n in executed if component in self.sinks),
            "due": sum(n or 0 for n in spouts.get("due", ())),
        }
        last_second, length, queues = int(line["t"]), max(1, round(line["dt_s"])), _waiting(tasks, spouts)
        for end, seconds in self._row_seconds(last_second, length):
            row, share = self._series[end], seconds / self.sample_s
            for name, n in counts.items():
                row[name] += n / length * share
            for component, waiting in queues:
                row[_QUEUE + component] += waiting * share
        self._shorten_series()

    def _row_seconds(self, last: int, length: int) -> Iterator[tuple[int, int]]:
        """Yield ends of the rows with these whole seconds, `length` of them up to `last`, and the number in each."""
        first = last - length + 1
        end = -(-first // self.sample_s) * self.sample_s
        while first <= last:
            until = min(last, end)
            yield end, until - first + 1
            first, end = until + 1, end + self.sample_s

    def _count_gaps(self, line: Line) -> None:
        """Count tuples that fell due while a spout had no process, evenly in the seconds of that time."""
        gaps = line.get("gaps") or {}
        for from_s, until_s, due in zip(*(gaps.get(k, ()) for k in ("from_s", "until_s", "due")), strict=True):
            if due is not None:
                last_second, length = int(until_s), max(1, round(until_s - from_s))
                for end, seconds in self._row_seconds(last_second, min(length, SERIES_LENGTH_S)):
                    self._series[end]["due"] += due / length * seconds / self.sample_s
        self._shorten_series()

    def _shorten_series(self) -> None:
        while len(self._series) > SERIES_LENGTH_S // self.sample_s:
            del self._series[min(self._series)]

    def join_slot(self, slot: str, now: float) -> None:
        """Record that the topology is in this slot from now on: lines of an earlier worker there do not count."""
        self._joined_s[slot] = now

    def age_s(self, now: float, slots: Collection[str]) -> float | None:
        """Return the age of the oldest of the newest lines of `slots`; None while one of them has not reported."""
        ends = {slot: lines[-1].t_s for slot in slots if (lines := self._lines.get(slot))}
        times = [t for slot, t in ends.items() if t >= self._joined_s.get(slot, t)]
        return max(0.0, now - min(times)) if times and len(times) == len(set(slots)) else None

    def reporting(self, now: float) -> int:
        return sum(1 for lines in self._lines.values() if lines and now - lines[-1].t_s < self._fresh_s)

    def series(self, now: float) -> TupleCounts:
        """Return rows of `sample_s` by their ends, oldest first, without incomplete ones: throughput, tuples executed
        at sinks and due at spouts, a second; and waiting tuples by component."""
        last_end = (int(now) - INCOMPLETE_S) // self.sample_s * self.sample_s
        first_end = min(self._series, default=last_end + 1)
        seconds = range(max(first_end, last_end - SERIES_LENGTH_S), last_end + 1, self.sample_s)
        rows = [self._series.get(second, {}) for second in seconds]
        names = ("throughput", "sinks", "due")
        throughput, sinks, due = (tuple(row.get(name, 0.0) for row in rows) for name in names)
        keys = sorted(key for key in set[str]().union(*rows) if key.startswith(_QUEUE))
        queues = {key.removeprefix(_QUEUE): tuple(row.get(key, 0.0) for row in rows) for key in keys}
        return TupleCounts(tuple(map(float, seconds)), throughput, sinks, due, queues, self.sample_s)

    def window(self, now: float, slots: Collection[str]) -> Window:
        """Return the window of rates while the topology is in these slots."""
        newest: dict[str, float | None]
        newest = {slot: max(map(_T_S, self._lines.get(slot, ())), default=None) for slot in slots}
        overdue_slots = {slot: t for slot, t in newest.items() if t is None or t < now - self._fresh_s}
        until = min([float(int(now) - INCOMPLETE_S), *(t for t in newest.values() if t and not overdue_slots)])
        earliest = until - self.window_s if self._begin_s is None else max(until - self.window_s, self._begin_s)
        fault = "" if slots else "nothing is placed"
        for slot, t in overdue_slots.items():
            fault = f"{slot} has not reported " + ("yet" if t is None else f"for {now - t:.0f} s")
        gap_s = limit_for(self.sample_s, GAP_S)
        begins = {slot: _last_begin(self._lines[slot], until, gap_s) for slot in slots if slot not in overdue_slots}
        latest = max(begins, key=begins.__getitem__, default="")
        since = max(earliest, begins.get(latest, earliest))
        needed_s = FEWEST_SHARE * min(self.window_s, WINDOW_S)
        if not fault and until - since < needed_s:
            began = f"{latest} began, or spoke again," if since > earliest else "the topology began"
            fault = f"{began} {until - since:.0f} s ago; rates need {needed_s:g} s of work"
        return Window(earliest if fault else since, until, fault)

    def counts(self, window: Window) -> WindowCounts:
        """Return all counts in the window, wherever the tasks were."""
        sums = self._counts.advance((line, window.share(line)) for line in self._all_lines())
        groups: dict[str, dict[Any, float]] = {"streams": {}, "sources": {}}
        for key, n in sums.items():
            if key[0] in groups:
                groups[key[0]][key[1:]] = n
        oldest_s = max((state.t_s for state in self._newest.values()), default=0.0) - self.window_s - self._fresh_s
        tasks = {task: _task_sums(task, state, sums) for task, state in self._newest.items() if state.t_s > oldest_s}
        latencies, latency_us = (sums.get((name,), 0.0) for name in ("latencies", "latency_us"))
        mean_ms = latency_us / latencies / 1000 if latencies else None
        return WindowCounts(tasks, groups["streams"], groups["sources"], mean_ms)

    def traffic(self, window: Window) -> Mapping[tuple[int, int], float]:
        """Return (task, task) → tuples in the window, empty unless the topology records traffic."""
        lines = ((line, window.share(line)) for line in self._all_lines() if line.traffic)
        sums: Mapping[Any, float] = self._traffic.advance(lines)
        return sums

    def _all_lines(self) -> Iterator[CountedLine]:
        return chain.from_iterable(self._lines.values())


@dataclass
class MachineSamples:
    """Machine lines of the last `window_s` seconds."""

    window_s: float = WINDOW_S
    cores: dict[str, float] = field(default_factory=dict)  # that a machine may use, by its newest line
    sample_s: int = 1
    _lines: dict[str, deque[Line]] = field(default_factory=lambda: defaultdict(deque))

    def add(self, line: Line) -> None:
        """Take a machine's line; raises KeyError, TypeError or ValueError for one that violates the contract."""
        machine, cores = str(line["machine"]), line.get("cpu_quota_cores")
        if cores is not None and not 0 < float(cores) < math.inf:
            raise ValueError(f"cpu_quota_cores is {cores}; allowed: above 0")
        if cores is not None:
            self.cores[machine] = float(cores)
        lines, oldest_s = self._lines[machine], float(line["t"]) - self.window_s
        lines.append(line)
        while lines and lines[0]["t"] <= oldest_s:
            lines.popleft()

    def cpu_load(self, machine: str, now: float) -> float | None:
        """Return cores in use, mean over the window; None of a machine that has been silent for a while."""
        return self._mean("cpu_cores", machine, now)

    def runnable(self, machine: str, now: float) -> float | None:
        """Return threads that run or wait for a CPU, likewise: the mean over the readings in the window."""
        return self._mean("runnable", machine, now)

    def _mean(self, name: str, machine: str, now: float) -> float | None:
        machine_lines, newest_s = self._lines.get(machine, ()), now - limit_for(self.sample_s, SILENT_MACHINE_S)
        if not any(line["t"] >= newest_s for line in machine_lines):
            return None
        lines = [line for line in machine_lines if line.get(name) is not None and line["t"] > now - self.window_s]
        seconds = sum(line["dt_s"] for line in lines)
        return sum(line[name] * line["dt_s"] for line in lines) / seconds if seconds else None


def _waiting(tasks: Mapping[str, Any], spouts: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return (component, tuples) waiting in a task's queue, or due at a spout and not emitted."""
    components = dict(zip(tasks.get("task", ()), tasks.get("component", ()), strict=True))
    queues = zip(tasks.get("component", ()), tasks.get("queue", ()), strict=True)
    behind = zip(spouts.get("task", ()), spouts.get("behind", ()), strict=False)  # older lines lack the second
    at_spouts = ((components[task], waiting) for task, waiting in behind if task in components)
    return [(component, waiting or 0) for component, waiting in (*queues, *at_spouts)]


def _task_sums(task: int, state: TaskState, sums: Mapping[Any, float]) -> TaskSums:
    waited_us, cpu_us = sums.get(("backpressure_us", task)), sums.get(("cpu_us", task))
    return TaskSums(
        emitted=sums.get(("emitted", task), 0.0),
        executed=sums.get(("executed", task), 0.0),
        timed=sums.get(("timed", task), 0.0),
        execute_ms=sums.get(("execute_us", task), 0.0) / 1000,
        queue=state.queue,
        backpressure_ms=None if waited_us is None else waited_us / 1000,
        due=sums.get(("due", task)),
        behind_ms=state.behind_ms,
        cpu_ms=None if cpu_us is None else cpu_us / 1000,
    )


def _last_begin(lines: Iterable[CountedLine], until: float, gap_s: float) -> float:
    """Return since when one process has reported up to `until`, with at most `gap_s` missing in all."""
    begin, missing_s, pid = until, 0.0, None
    for line in sorted(lines, key=_BEGIN_S, reverse=True):
        if line.begin_s < until:
            missing_s += max(0.0, begin - line.t_s)
            if missing_s > gap_s or pid not in (None, line.pid):
                break
            begin, pid = line.begin_s, line.pid
    return begin
