"""The latest worker and machine lines, and the rates over a window that an Observation is made of.

Pure: time comes in with the lines. Lines are the contract's (docs/contracts.md, "The worker line").
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SERIES_LENGTH_S = 900  # of the throughput series
INCOMPLETE_S = 4  # workers post every other second, so the newest seconds are not whole yet

Line = Mapping[str, Any]
_QUEUE = "queue of "


@dataclass
class TaskSums:
    """Sums over the window for one task."""

    seconds: float = 0.0
    emitted: float = 0.0
    executed: float = 0.0
    execute_ms: float = 0.0
    queue: float | None = None
    due: float | None = None
    behind_ms: float | None = None


@dataclass
class Samples:
    """Worker lines of the last `window_s` seconds and whole-run series by second, of one topology at a time."""

    window_s: float = 60.0
    topology_id: str | None = None
    _lines: dict[str, deque[Line]] = field(default_factory=lambda: defaultdict(deque))  # by slot
    _machine: dict[str, deque[Line]] = field(default_factory=lambda: defaultdict(deque))
    _series: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    _processes: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # by slot
    _spouts: dict[int, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))  # slots, processes of it
    restarts: list[dict[str, Any]] = field(default_factory=list)  # another process in a slot, or of a spout
    sinks: frozenset[str] = frozenset()

    def add_worker(self, line: Line) -> None:
        """Take a worker's line; raises KeyError, TypeError or ValueError for one that is not the contract's."""
        if line["topology"] != self.topology_id:
            return
        slot, now = f"{line['machine']}:{line['port']}", float(line["t"])
        self._note_process(slot, line)
        self._count(int(now), line)
        _append(self._lines[slot], line, now - self.window_s)

    def _note_process(self, slot: str, line: Line) -> None:
        """A worker's first line may name no spouts yet: these are noted when they are there, in whatever slot."""
        pid, known = int(line["pid"]), self._processes[slot]
        tasks = [int(task) for task in (line.get("spouts") or {}).get("task", ())]
        spouts = [task for task in tasks if self._spouts[task] and (slot, pid) not in self._spouts[task]]
        if spouts or (known and pid not in known):
            self.restarts.append({"t": float(line["t"]), "slot": slot, "spouts": spouts})
        known.add(pid)
        for task in tasks:
            self._spouts[task].add((slot, pid))

    def add_machine(self, line: Line) -> None:
        _append(self._machine[str(line["machine"])], line, float(line["t"]) - self.window_s)

    def _count(self, second: int, line: Line) -> None:
        tasks, spouts = line.get("tasks") or {}, line.get("spouts") or {}
        row = self._series[second]
        row["sinks"] += sum(
            n or 0
            for c, n in zip(tasks.get("component", ()), tasks.get("executed", ()), strict=True)
            if c in self.sinks
        )
        row["spouts"] += sum(n or 0 for n in spouts.get("emitted", ()))
        row["due"] += sum(n or 0 for n in spouts.get("due", ()))
        for component, waiting in zip(tasks.get("component", ()), tasks.get("queue", ()), strict=True):
            row[_QUEUE + component] += waiting or 0
        if len(self._series) > SERIES_LENGTH_S:
            del self._series[min(self._series)]

    def age_s(self, now: float, slots: Iterable[str]) -> float | None:
        """Age of the oldest of the newest lines of `slots`; None while one of them has not reported."""
        newest = [self._lines[s][-1]["t"] if self._lines.get(s) else None for s in slots]
        if not newest or None in newest:
            return None
        return max(0.0, now - min(float(t) for t in newest if t is not None))

    def reporting(self, now: float) -> int:
        return sum(1 for lines in self._lines.values() if lines and now - lines[-1]["t"] < 10)

    def series(self, now: float) -> dict[str, Any]:
        """Whole seconds, oldest first, without the last ones: tuples at sinks, at spouts, due at spouts; and waiting
        tuples by component."""
        last = int(now) - INCOMPLETE_S
        first = min(self._series, default=last + 1)
        seconds = range(max(first, last - SERIES_LENGTH_S), last + 1)
        rows = [self._series.get(second, {}) for second in seconds]
        columns = {key: [row.get(key, 0.0) for row in rows] for key in ("sinks", "spouts", "due")}
        waiting = sorted({key for row in rows for key in row if key.startswith(_QUEUE)})
        queues = {key.removeprefix(_QUEUE): [row.get(key, 0.0) for row in rows] for key in waiting}
        return {"t": [float(second) for second in seconds], **columns, "queues": queues}

    def by_task(self, now: float) -> dict[int, TaskSums]:
        """Task → sums over the window that ends now; tasks that moved count where they were too."""
        rates: dict[int, TaskSums] = defaultdict(TaskSums)
        for line in self._recent(now):
            _add_tasks(rates, line)
            _add_spouts(rates, line)
        return dict(rates)

    def streams(self, now: float) -> dict[tuple[int, str], float]:
        """(task, stream) → tuples emitted in the window."""
        emitted: dict[tuple[int, str], float] = defaultdict(float)
        for line in self._recent(now):
            group = line.get("streams") or {}
            for task, stream, n in zip(*(group.get(k, ()) for k in ("task", "stream", "emitted")), strict=True):
                emitted[int(task), str(stream)] += n or 0
        return dict(emitted)

    def latency_ms(self, now: float) -> float | None:
        groups = [line.get("sinks") or {} for line in self._recent(now)]
        n = sum(sum(g.get("n", ())) for g in groups)
        return sum(sum(g.get("sum_ms", ())) for g in groups) / n if n else None

    def traffic(self, now: float) -> dict[tuple[int, int], float]:
        """(task, task) → tuples in the window, empty unless the topology records traffic."""
        counts: dict[tuple[int, int], float] = defaultdict(float)
        for line in self._recent(now):
            group = line.get("traffic") or {}
            for source, target, n in zip(*(group.get(k, ()) for k in ("from", "to", "n")), strict=True):
                counts[int(source), int(target)] += n or 0
        return dict(counts)

    def cpu_load(self, machine: str) -> float | None:
        lines = [line for line in self._machine.get(machine, ()) if line.get("cpu_cores") is not None]
        seconds = sum(line["dt_s"] for line in lines)
        return sum(line["cpu_cores"] * line["dt_s"] for line in lines) / seconds if seconds else None

    def _recent(self, now: float) -> list[Line]:
        return [line for lines in self._lines.values() for line in lines if line["t"] > now - self.window_s]


def _append(lines: deque[Line], line: Line, oldest: float) -> None:
    lines.append(line)
    while lines and lines[0]["t"] <= oldest:
        lines.popleft()


def _add_tasks(rates: dict[int, TaskSums], line: Line) -> None:
    group = line.get("tasks") or {}
    columns = (group.get(k, ()) for k in ("task", "emitted", "executed", "execute_ms", "queue"))
    for task, emitted, executed, execute_ms, queue in zip(*columns, strict=True):
        total = rates[int(task)]
        total.seconds += line["dt_s"]
        total.emitted += emitted or 0
        total.executed += executed or 0
        total.execute_ms += execute_ms or 0
        total.queue = queue


def _add_spouts(rates: dict[int, TaskSums], line: Line) -> None:
    group = line.get("spouts") or {}
    for task, due, behind_ms in zip(*(group.get(k, ()) for k in ("task", "due", "behind_ms")), strict=True):
        total = rates[int(task)]
        total.due = (total.due or 0) + (due or 0)
        total.behind_ms = behind_ms
