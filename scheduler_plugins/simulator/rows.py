"""Rows of a layout as workers write them: a row a task, a task and stream, a task and where its tuples come from.

Rows of a table are ordered by worker, so that a worker's line has a slice of each column. `key` tells a row from all
others that ever were; what was counted and not said yet goes on under it when the layout changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from scheduler_plugins.service.latency_buckets import LONGEST_US, bounds_us, bucket_of
from scheduler_plugins.simulator.layout import Flags, Floats, Ints, Layout, join

GOLDEN = (5**0.5 - 1) / 2  # its multiples are spread evenly between whole numbers


@dataclass(frozen=True)
class Rows:
    """`share`: of what the executor does, that of this row. `begins[w]` to `begins[w + 1]`: rows of worker w; rows
    without a worker come first."""

    executor: Ints
    task: Ints
    share: Floats
    key: Ints
    worker: Ints
    of_task: Ints  # the row of the task in the table of tasks
    workers: int
    names: tuple[list[Any], ...] = ()  # further columns that never change

    @cached_property
    def begins(self) -> list[int]:
        found: list[int] = np.searchsorted(self.worker, np.arange(self.workers + 1)).tolist()
        return found

    @cached_property
    def task_column(self) -> list[int]:
        found: list[int] = self.task.tolist()
        return found

    @property
    def size(self) -> int:
        return len(self.executor)


@dataclass(frozen=True)
class Arrivals:
    """Which cell (an edge and an executor of its target) each target row of a layout's groups counts for, all levels
    one after the other, and the cell of each source row."""

    cell: Ints
    of_row: Ints
    cells: int


@dataclass(frozen=True)
class SourceRows:
    """A row a task and stream that comes to it; `names` of `rows` are the component that emits it, and the stream."""

    rows: Rows
    arrivals: Arrivals


@dataclass(frozen=True)
class LayoutRows:
    """All tables of a layout. `edge`: of each source row; `place`: of a task among those of its executor."""

    tasks: Rows
    place: Ints
    is_spout: Flags  # of each task row
    is_sink: Flags
    is_acked: Flags  # a bolt in a topology with ackers
    has_limit: Flags  # of its queue
    is_system: Flags  # an acker: of Storm's own components the only one that is counted, and only what it executes
    streams: Rows
    selectivity: Floats  # of each stream row
    sources: SourceRows
    traffic: Rows | None
    traffic_share: Floats


class RowBuilder:
    """`numbers`: of each topology, which stays the same whatever else runs; `traced`: those that count traffic."""

    def __init__(self, layout: Layout, workers: int, numbers: Mapping[str, int], traced: frozenset[str]) -> None:
        self._layout, self._workers, self._traced = layout, workers, traced
        self._numbered = np.array([numbers[each.topology_id] for each in layout.topologies], dtype=np.int64)
        self._executor = np.repeat(np.arange(layout.size, dtype=np.int64), layout.tasks)
        begins = np.cumsum(layout.tasks) - layout.tasks
        self._place = np.arange(len(self._executor), dtype=np.int64) - begins[self._executor]
        self._task = layout.first[self._executor] + self._place
        self._share = 1.0 / layout.tasks[self._executor]
        self._topology = self._numbered[layout.topology[self._executor]] if layout.size else self._executor
        self._component = layout.component[self._executor]
        self._order = np.lexsort((self._task, layout.worker[self._executor]))
        self._row_of = np.empty(len(self._order), dtype=np.int64)
        self._row_of[self._order] = np.arange(len(self._order))

    def build(self) -> LayoutRows:
        layout = self._layout
        names = [component.work.name for _, component in layout.components]
        component = [names[row] for row in self._component[self._order].tolist()]
        tasks = replace(
            self._rows(np.arange(len(self._task)), np.zeros(len(self._task), np.int64))[0], names=(component,)
        )
        streams, selectivity = self._streams()
        traffic, share = self._traffic() if self._traced else (None, np.zeros(0))
        acking = np.array([each.work.acking is not None for each in layout.topologies] + [False])
        is_bolt = ~layout.is_spout & ~layout.is_system
        return LayoutRows(
            tasks=tasks,
            place=self._place[self._order],
            is_spout=layout.is_spout[tasks.executor],
            is_sink=layout.sinks[tasks.executor],
            is_acked=acking[layout.topology[tasks.executor]] & is_bolt[tasks.executor],
            has_limit=np.isfinite(layout.limit[tasks.executor]),
            is_system=layout.is_system[tasks.executor],
            streams=streams,
            selectivity=selectivity,
            sources=self._sources(),
            traffic=traffic,
            traffic_share=share,
        )

    def _rows(self, at: Ints, number: Ints) -> tuple[Rows, Ints]:
        """Rows of the tasks `at`, and their order; `number` tells rows of one task apart."""
        worker = self._layout.worker[self._executor[at]]
        order = np.lexsort((number, self._task[at], worker))
        at, number, worker = at[order], number[order], worker[order]
        key = (self._topology[at] << 46) + (number << 30) + self._task[at]
        rows = Rows(self._executor[at], self._task[at], self._share[at], key, worker, self._row_of[at], self._workers)
        return rows, order

    def _streams(self) -> tuple[Rows, Floats]:
        own = [edge for edge in self._layout.edges if not edge.edge.is_system]
        streams = {(edge.source, edge.edge.stream): edge.edge.selectivity for edge in own}
        names = sorted({stream for _, stream in streams})
        mine = [np.flatnonzero(self._component == component) for component, _ in streams]
        number = _each([names.index(stream) for _, stream in streams], mine)
        rows, order = self._rows(join(mine), number)
        shares = np.repeat(np.array(list(streams.values()), dtype=np.float64), [len(part) for part in mine])
        return replace(rows, names=([names[n] for n in number[order].tolist()],)), shares[order]

    def _sources(self) -> SourceRows:
        """The number of a row is that of its edge within its topology."""
        edges = self._layout.edges
        own = [row for row, edge in enumerate(edges) if not edge.edge.is_system]
        mine = [np.flatnonzero(self._component == edges[row].target) for row in own]
        within = [sum(edges[other].topology == edges[row].topology for other in own[:n]) for n, row in enumerate(own)]
        rows, order = self._rows(join(mine), _each(within, mine))
        edge_of = _each(own, mine)[order]
        ends = [(self._layout.components[edge.source][1].work.name, edge.edge.stream) for edge in edges]
        named = [ends[row] for row in edge_of.tolist()]
        columns = ([component for component, _ in named], [stream for _, stream in named])
        return SourceRows(replace(rows, names=columns), self._arrival_of(rows, edge_of))

    def _arrival_of(self, rows: Rows, edge_of: Ints) -> Arrivals:
        """An edge and an executor of its target have a cell; what arrives is counted by group, one or more an edge."""
        layout = self._layout
        target = np.array([edge.target for edge in layout.edges], dtype=np.int64)
        sizes = np.diff(layout.begins)[target] if len(target) else target
        begins = np.cumsum(sizes) - sizes
        cells = [
            begins[edge] + level.target - layout.begins[target[edge]]
            for level in layout.groups
            for edge in [level.group_edge[level.target_group]]
        ]
        of_row = begins[edge_of] + rows.executor - layout.begins[target[edge_of]] if rows.size else edge_of
        return Arrivals(join(cells), of_row, int(sizes.sum()))

    def _traffic(self) -> tuple[Rows, Floats]:
        """A row a pair of tasks: `share` of what the source's executor executes goes from the one to the other."""
        layout = self._layout
        pairs: dict[tuple[int, int, int], float] = {}
        traced = {n for n, each in enumerate(layout.topologies) if each.topology_id in self._traced}
        for level in layout.groups:
            for group in range(level.number):
                edge = layout.edges[int(level.group_edge[group])]
                if edge.topology not in traced or edge.edge.is_system:
                    continue
                into = np.flatnonzero(level.target_group == group).tolist()
                for row in np.flatnonzero(level.source_group == group).tolist():
                    weights = level.target_weight[into] * edge.edge.selectivity
                    self._add_pairs(pairs, int(level.source[row]), level.target[into], weights)
        columns = [np.array([pair[n] for pair in pairs], dtype=np.int64) for n in range(3)]
        share = np.array(list(pairs.values()), dtype=np.float64)
        order = np.lexsort((columns[2], columns[1], layout.worker[columns[0]]))
        executor, at, to = (column[order] for column in columns)
        key = (self._numbered[layout.topology[executor]] << 52) + (at << 26) + to
        worker, nowhere = layout.worker[executor], np.zeros(len(at), dtype=np.int64)
        rows = Rows(executor, at, share[order], key, worker, nowhere, self._workers, (to.tolist(),))
        return rows, share[order]

    def _add_pairs(self, pairs: dict[tuple[int, int, int], float], source: int, targets: Ints, weights: Floats) -> None:
        for target, weight in zip(targets.tolist(), weights.tolist(), strict=True):
            mine, theirs = self._tasks_of(source), self._tasks_of(target)
            for one in mine:
                for other in theirs:
                    share = weight / (len(mine) * len(theirs))
                    pairs[source, one, other] = pairs.get((source, one, other), 0.0) + share

    def _tasks_of(self, executor: int) -> range:
        return range(int(self._layout.first[executor]), int(self._layout.last[executor]) + 1)


def _each(values: list[int], parts: list[Ints]) -> Ints:
    """The value of each part, for all of its rows."""
    return np.repeat(np.array(values, dtype=np.int64), [len(part) for part in parts])


@dataclass
class Sums:
    """What was counted of each row and is not said yet; parts of a tuple stay for later, so that nothing is lost."""

    rows: Rows
    values: Floats

    @classmethod
    def of(cls, rows: Rows, before: Sums | None = None, *, is_spread: bool = False) -> Sums:
        """`before`: of the layout before; a row of both goes on. `is_spread`: new rows begin with different parts of a
        tuple, from -0.5 to 0.5, so that tasks which do the same do not all count one more in the same line."""
        values = np.mod(rows.task * GOLDEN, 1.0) - 0.5 if is_spread else np.zeros(rows.size)
        if before is not None and before.rows.size and rows.size:
            order = np.argsort(before.rows.key)
            known = before.rows.key[order]
            place = np.minimum(np.searchsorted(known, rows.key), len(known) - 1)
            values = np.where(known[place] == rows.key, before.values[order[place]], values)
        return cls(rows, values)

    def whole(self, now: Flags) -> Ints:
        """Whole tuples of the rows that are written now; 0 of the others."""
        number = np.where(now, np.maximum(np.rint(self.values), 0.0), 0.0)
        self.values -= number
        return np.asarray(number, dtype=np.int64)

    def all(self, now: Flags) -> Floats:
        """The values of the rows that are written now, not rounded, which begin anew at 0; 0 of the others."""
        found = np.where(now, self.values, 0.0)
        self.values = np.where(now, 0.0, self.values)
        return np.asarray(found)

    def drop(self, rows: Flags) -> None:
        self.values = np.where(rows, 0.0, self.values)


MOST_QUANTILES = 256  # of one row; where there are more tuples several are at each
LEAST_VARIATION = 1e-6  # squared, below: all are the mean


@cache
def first_us() -> Floats:
    """The first microsecond of each bucket from 0 on."""
    return np.array([bounds_us(bucket)[0] for bucket in range(bucket_of(LONGEST_US) + 1)], dtype=np.float64)


def buckets_of(latency_us: Floats) -> Ints:
    """`latency_buckets.bucket_of` of whole numbers from 0 on."""
    return np.asarray(np.searchsorted(first_us(), latency_us, side="right") - 1, dtype=np.int64)


class Histograms:
    """Of rows with `n` tuples each (1 or more), their mean and variance in seconds: what a sink would have counted."""

    def __init__(self, n: Ints, mean_s: Floats, variance_s2: Floats) -> None:
        quantiles = np.minimum(n, MOST_QUANTILES)
        row = np.repeat(np.arange(len(n)), quantiles)
        begins = np.cumsum(quantiles) - quantiles
        place = np.arange(len(row)) - begins[row]
        others, parts = (n - 1)[row], np.maximum(quantiles - 1, 1)[row]  # the last one is a tuple of its own
        is_last = place == quantiles[row] - 1
        weight = np.where(is_last, 1, others // parts + (place < others % parts))
        before = np.cumsum(weight) - weight
        middle = (before - before[begins][row] + weight / 2) / n[row]
        share = np.where(is_last, 0.5 ** (1.0 / n[row]), middle)
        # Of a gamma distribution with mean 1 and this squared coefficient of variation (1 / shape).
        ninth = np.maximum((variance_s2 / np.maximum(mean_s, 1e-12) ** 2)[row], LEAST_VARIATION) / 9.0
        values = np.maximum(1.0 - ninth + ndtri(share) * np.sqrt(ninth), 0.0) ** 3
        total = np.bincount(row, values * weight, minlength=len(n))
        latency_us = np.rint(values * (mean_s * n * 1e6 / np.maximum(total, 1e-12))[row])
        self.sum_ms = np.round(mean_s * n * 1000.0, 3).tolist()
        self.max_ms = (latency_us[begins + quantiles - 1] / 1000.0).tolist()
        bucket = buckets_of(latency_us)
        # Quantiles ascend, so that equal buckets of a row stand together.
        first = np.ones(len(bucket), dtype=bool)
        first[1:] = (bucket[1:] != bucket[:-1]) | (row[1:] != row[:-1])
        starts = np.flatnonzero(first)
        self._buckets: list[int] = bucket[starts].tolist()
        self._counts: list[int] = np.add.reduceat(weight, starts).tolist() if len(starts) else []
        self._begins = np.searchsorted(row[starts], np.arange(len(n) + 1)).tolist()

    def buckets(self, row: int) -> list[int]:
        return self._buckets[self._begins[row] : self._begins[row + 1]]

    def counts(self, row: int) -> list[int]:
        return self._counts[self._begins[row] : self._begins[row + 1]]
