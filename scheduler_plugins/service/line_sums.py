"""Sums over the lines of a moving window. There may be tens of thousands of numbers in one: each line is read once,
added once and removed once, and only those at the edges of the window are counted in part. Counts are whole numbers,
times whole microseconds: a removed line leaves no rounding error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]
Counts = tuple[tuple[Key, int], ...]


@dataclass(frozen=True, eq=False)
class CountedLine:
    """Counts of a worker's line in its interval (epoch seconds), by key."""

    begin_s: float
    t_s: float
    pid: int
    counts: Counts
    traffic: Counts  # tuples by (from task, to task)


@dataclass
class LineSums:
    """Sums over the lines that lie wholly in the window; `of`: the counts of a line to add up."""

    of: Callable[[CountedLine], Counts]
    _inside: dict[int, CountedLine] = field(default_factory=dict)  # by identity
    _sums: dict[Key, int] = field(default_factory=dict)
    _numbers: dict[Key, int] = field(default_factory=dict)  # number of lines of each sum

    def advance(self, lines: Iterable[tuple[CountedLine, float]]) -> Mapping[Key, float]:
        """Return sums of a window from all present lines, each with its share in the window."""
        pairs = list(lines)
        lines_inside = {id(line): line for line, share in pairs if share >= 1}
        for key in [key for key in self._inside if key not in lines_inside]:
            for name, n in self.of(self._inside.pop(key)):
                self._sums[name] -= n
                self._numbers[name] -= 1
                if not self._numbers[name]:  # a sum without lines is missing, not 0
                    del self._sums[name], self._numbers[name]
        for key, line in lines_inside.items():
            if key not in self._inside:
                self._inside[key] = line
                for name, n in self.of(line):
                    self._sums[name] = self._sums.get(name, 0) + n
                    self._numbers[name] = self._numbers.get(name, 0) + 1
        sums: dict[Key, float] = dict(self._sums)
        for line, share in pairs:
            if 0 < share < 1:
                for name, n in self.of(line):
                    sums[name] = sums.get(name, 0.0) + n * share
        return sums


def counted(line: Mapping[str, Any]) -> CountedLine:
    """Return the counts of a line. Raises KeyError, TypeError or ValueError for one that violates the contract."""
    t_s, counts = float(line["t"]), list(_task_counts(line))
    spouts, sinks = line.get("spouts") or {}, line.get("sinks") or {}
    for task, due in zip(*(spouts.get(k, ()) for k in ("task", "due")), strict=True):
        if due is not None:
            counts.append((("due", int(task)), int(due)))
    if sinks:
        counts.append((("latencies",), int(sum(sinks.get("n", ())))))
        counts.append((("latency_us",), round(1000 * sum(sinks.get("sum_ms", ())))))
    for group, key, number in (("streams", ("task", "stream"), "emitted"),
                               ("sources", ("task", "component", "stream"), "executed")):  # fmt: skip
        columns = line.get(group) or {}
        for *names, n in zip(*(columns.get(name, ()) for name in (*key, number)), strict=True):
            counts.append(((group, *names), int(n or 0)))
    pairs = line.get("traffic") or {}
    columns = (pairs.get(name, ()) for name in ("from", "to", "n"))
    traffic = tuple(((source, target), int(n)) for source, target, n in zip(*columns, strict=True) if n)
    return CountedLine(t_s - float(line["dt_s"]), t_s, int(line["pid"]), tuple(counts), traffic)


def _task_counts(line: Mapping[str, Any]) -> Iterable[tuple[Key, int]]:
    """Yield the counts of tasks. `timed`: executed tuples whose time is known."""
    group = line.get("tasks") or {}
    columns = [group.get(k, ()) for k in ("task", "emitted", "executed", "execute_ms")]
    nothing = [None] * len(columns[0])  # older lines lack these
    waited, cpu = (group.get(name) or nothing for name in ("backpressure_ms", "cpu_ms"))
    for number, emitted, executed, execute_ms, waited_ms, cpu_ms in zip(*columns, waited, cpu, strict=True):
        task = int(number)
        yield ("emitted", task), int(emitted or 0)
        yield ("executed", task), int(executed or 0)
        if execute_ms is not None:
            yield ("timed", task), int(executed or 0)
            yield ("execute_us", task), round(1000 * execute_ms)
        if waited_ms is not None:
            yield ("backpressure_us", task), round(1000 * waited_ms)
        if cpu_ms is not None:
            yield ("cpu_us", task), round(1000 * cpu_ms)
