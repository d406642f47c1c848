"""What runs, as arrays: a row an executor, ordered by level and component, so that a step goes through them once.

An edge is a set of *groups*: all that a group's sources emit is shared among its targets by weight. A shuffle is one
group; `local_or_shuffle` has one for each worker with targets of its own, and one for the other sources; a ring and
routes have one for each source. So every grouping is sums and products, and the cost of a step grows with executors and
not with pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedComponent, SimulatedTopology

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
UNPLACED = -1
TINY = 1e-9  # tuples or seconds that are none; keeps a quotient finite


def sums(rows: Ints, values: Floats, size: int) -> Floats:
    """Return, of `size` rows, the sum of the values whose row it is."""
    return np.asarray(np.bincount(rows, values, minlength=size), dtype=np.float64)


def sums_of_each(rows: Ints, values: Floats, size: int) -> Floats:
    """As `sums`, of each line of `values`."""
    lines = len(values)
    cells = (np.arange(lines)[:, None] * size + rows).ravel()
    return sums(cells, values.ravel(), lines * size).reshape(lines, size)


@dataclass(frozen=True)
class PlacedComponent:
    """Executors of a component: the first and the last task of each, ascending, and its worker's row or UNPLACED."""

    work: SimulatedComponent
    first: Ints
    last: Ints
    worker: Ints


@dataclass(frozen=True)
class PlacedTopology:
    """A topology and where it is: `components` by name, all of `work`'s, of which executors may be unplaced."""

    topology_id: str
    work: SimulatedTopology
    components: Mapping[str, PlacedComponent]


@dataclass(frozen=True)
class Groups:
    """The edges whose sources are in one level. A row of `source_*` is an executor in a group, by executor; one of
    `target_*` an executor of a group, by group. `places`: pairs of a group and a machine on which it has targets.
    """

    source: Ints  # executor
    source_group: Ints
    source_selectivity: Floats
    source_remote: Floats  # of what it delivers, the share to other workers
    source_place: Ints  # row of places where it would send to itself, UNPLACED: nowhere
    source_begins: Ints  # first row of each executor that is a source
    source_executors: Ints  # those executors
    target: Ints  # executor
    target_group: Ints
    target_weight: Floats
    group_begins: Ints  # first row of each group
    group_edge: Ints
    group_is_own: Flags  # of a component's own stream, not of Storm's
    group_bytes: Floats  # of a tuple outside its worker
    place_group: Ints
    place_machine: Ints
    place_weight: Floats

    @property
    def number(self) -> int:
        return len(self.group_edge)

    @cached_property
    def span(self) -> slice:
        """Of executors, from the first target to the last."""
        return slice(int(self.target.min()), int(self.target.max()) + 1) if len(self.target) else slice(0, 0)

    @cached_property
    def _place(self) -> Ints | None:
        """Of each target row in `span`; None where they are the same, one after the other."""
        place = self.target - self.span.start
        is_plain = len(place) == self.span.stop - self.span.start and bool((np.diff(place) == 1).all())
        return None if is_plain else place

    @cached_property
    def _is_plain(self) -> bool:
        """Return whether each source has one row, and they are one after the other."""
        return len(self.source) == len(self.source_executors) and bool((np.diff(self.source) == 1).all())

    def of_sources(self, values: Floats, begin: int) -> Floats:
        """Return, of each source row, its executor's value; `begin`: the executor of the first value."""
        if self._is_plain:
            first = int(self.source[0]) - begin
            return values[first : first + len(self.source)]
        return np.asarray(values[self.source - begin])

    def total(self, of_rows: Floats) -> Floats:
        """Return, of each group, the sum over its source rows."""
        return np.array([of_rows.sum()]) if self.number == 1 else sums(self.source_group, of_rows, self.number)

    def of_source_groups(self, values: Floats) -> Floats:
        """Return, of each source row, its group's value; one value for all where there is one group."""
        return values if self.number == 1 else np.asarray(values[self.source_group])

    def of_target_groups(self, values: Floats) -> Floats:
        """Of each target row, as above."""
        return values if self.number == 1 else np.asarray(values[self.target_group])

    def of_targets(self, values: Floats) -> Floats:
        """Return, of each target row, its executor's value of those in `span`."""
        return values if self._place is None else np.asarray(values[self._place])

    def at_targets(self, values: Floats) -> Floats:
        """Return, of the executors in `span`, the sum of the values of their target rows."""
        return values if self._place is None else sums(self._place, values, self.span.stop - self.span.start)


@dataclass(frozen=True)
class EdgeRow:
    """One edge of one topology, and the components at its ends by row."""

    topology: int
    edge: EdgeWork
    source: int
    target: int


ComponentRows = Sequence[tuple[int, int, PlacedComponent]]
"""Level, topology's row, component."""


@dataclass(frozen=True)
class Layout:
    """Rows of executors; `begins[c]` to `begins[c + 1]` are component c's, `levels[l]` to `levels[l + 1]` level l's."""

    topologies: tuple[PlacedTopology, ...]
    components: tuple[tuple[int, PlacedComponent], ...]  # topology's row, component
    edges: tuple[EdgeRow, ...]
    begins: Ints
    levels: Ints
    component: Ints
    topology: Ints
    worker: Ints
    machine: Ints
    first: Ints
    last: Ints
    sleep_s: Floats
    thread_s: Floats  # CPU of the executor's own thread, a tuple
    receive_s: Floats  # of it what Storm takes before the component
    transfer_s: Floats  # CPU of the worker's other threads, a tuple
    cv2: Floats
    buffer: Floats
    limit: Floats
    is_spout: Flags
    is_system: Flags
    spin_s: Floats  # how it looks for tuples, as in `Waits`
    idle_sleep_s: Floats
    transfers: Floats  # deliveries to tasks per tuple executed, on streams that are not Storm's own
    cross: Floats  # deliveries of all streams to other machines
    cross_bytes: Floats
    groups: tuple[Groups, ...]  # a level
    machines: int
    costs: Costs

    @property
    def size(self) -> int:
        return len(self.component)

    def hop_s(self, groups: Groups) -> Floats:
        """Return, of each source row of these groups, how long a tuple is under way on average."""
        near, far = self.costs.hop_ms / 1000.0, self.costs.remote_hop_ms / 1000.0
        return np.asarray(near + (far - near) * groups.source_remote)

    def slices(self) -> Iterator[slice]:
        """Of each level's executors, sources first."""
        for begin, end in zip(self.levels[:-1], self.levels[1:], strict=True):
            yield slice(int(begin), int(end))

    @cached_property
    def tasks(self) -> Ints:
        """Return, of each executor, how many it has."""
        return self.last - self.first + 1

    @cached_property
    def is_uneven(self) -> bool:
        """Return whether tuples of a component cost differently."""
        return bool(self.cv2.any())

    @cached_property
    def has_sinks(self) -> tuple[bool, ...]:
        """Of each level."""
        return tuple(bool(self.sinks[part].any()) for part in self.slices())

    @cached_property
    def has_waits(self) -> bool:
        """Return whether an executor sleeps while there is nothing to do."""
        return bool(self.idle_sleep_s.any())

    @cached_property
    def look_cores(self) -> Floats:
        """Return the CPU that each executor takes to look for tuples, one after each sleep, while there are none."""
        sleep_s = np.where(self.idle_sleep_s > 0.0, self.idle_sleep_s, np.inf)
        return np.asarray(np.minimum(self.costs.poll_ms / 1000.0 / sleep_s, 1.0))

    @cached_property
    def looking(self) -> Ints:
        """Return executors that take CPU for it."""
        return np.flatnonzero((self.machine >= 0) & (self.look_cores > 0.0))

    @cached_property
    def sinks(self) -> Flags:
        """Executors of bolts from which no stream leads on, beside Storm's own: one that happens to pass nothing is no
        sink."""
        leads_on = np.zeros(len(self.components), dtype=bool)
        leads_on[[edge.source for edge in self.edges if not edge.edge.is_system]] = True
        return np.asarray(~leads_on[self.component] & ~self.is_spout & ~self.is_system)

    @cached_property
    def keys(self) -> Ints:
        """Return what tells an executor from all others that ever were: its topology and its tasks."""
        return (self.topology << 44) + (self.first << 22) + self.last


def layout_of(topologies: Sequence[PlacedTopology], worker_machine: Ints, machines: int, costs: Costs) -> Layout:
    """`worker_machine`: the machine's row of each worker's row."""
    rows = _rows(topologies)
    sizes = np.array([len(component.first) for _, _, component in rows], dtype=np.int64)
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    depth = 1 + max((level for level, *_ in rows), default=-1)
    levels = np.array([begins[sum(level < n for level, *_ in rows)] for n in range(depth + 1)], dtype=np.int64)
    worker = join([component.worker for *_, component in rows])
    machine = np.where(worker >= 0, worker_machine[worker] if len(worker_machine) else UNPLACED, UNPLACED)
    place = {(number, component.work.name): row for row, (_, number, component) in enumerate(rows)}
    edges = tuple(
        EdgeRow(number, edge, place[number, edge.source], place[number, edge.target])
        for number, placed in enumerate(topologies)
        for edge in placed.work.edges
    )
    component = np.repeat(np.arange(len(rows), dtype=np.int64), sizes)
    level_of = np.array([level for level, *_ in rows], dtype=np.int64)
    first, last = join([c.first for *_, c in rows]), join([c.last for *_, c in rows])
    builders = [_LevelBuilder(begins, first, last, worker, machine, machines) for _ in range(depth)]
    for row, edge in enumerate(edges):
        builders[level_of[edge.source]].add(row, edge, rows[edge.target][2].work, costs)
    groups = tuple(builder.groups() for builder in builders)
    works = [component.work for *_, component in rows]
    of = [(topologies[number].work, component.work.kind) for _, number, component in rows]
    waits = [whole.spout_waits if kind == "spout" else whole.bolt_waits for whole, kind in of]
    slack_s = costs.sleep_slack_ms / 1000.0
    emitted = _emissions(len(component), groups, machine)
    kilobytes = emitted.remote_bytes / 1000.0
    transfer_ms = costs.remote_emit_ms * emitted.remote + costs.remote_kb_ms * kilobytes
    receives = [c.work.kind != "spout" or topologies[number].work.acking is not None for _, number, c in rows]
    receive_ms = _spread(receives, sizes) * costs.receive_ms
    storm_ms = receive_ms + costs.local_emit_ms * emitted.deliveries
    return Layout(
        topologies=tuple(topologies),
        components=tuple((number, component) for _, number, component in rows),
        edges=edges,
        begins=begins,
        levels=levels,
        component=component,
        topology=_spread([number for _, number, _ in rows], sizes).astype(np.int64),
        worker=worker,
        machine=machine,
        first=first,
        last=last,
        sleep_s=_spread([_longer(work.sleep_ms / 1000.0, slack_s) for work in works], sizes),
        thread_s=_spread([work.cpu_ms / 1000.0 for work in works], sizes) + storm_ms / 1000.0,
        receive_s=receive_ms / 1000.0,
        transfer_s=transfer_ms / 1000.0,
        cv2=_spread([work.cost_cv2 for work in works], sizes),
        buffer=_spread([work.buffer for work in works], sizes),
        limit=_spread([work.limit for work in works], sizes),
        is_spout=_spread([work.kind == "spout" for work in works], sizes).astype(bool),
        is_system=_spread([work.kind == "system" for work in works], sizes).astype(bool),
        spin_s=_spread([each.spin_s for each in waits], sizes),
        idle_sleep_s=_spread([_longer(each.sleep_s, slack_s) for each in waits], sizes),
        transfers=emitted.transfers,
        cross=emitted.cross,
        cross_bytes=emitted.cross_bytes,
        groups=groups,
        machines=machines,
        costs=costs,
    )


def _rows(topologies: Sequence[PlacedTopology]) -> ComponentRows:
    """Of all components, by level, and within a level as the topologies have them."""
    rows = [
        (placed.work.levels()[name], number, placed.components[name])
        for number, placed in enumerate(topologies)
        for name in placed.components
    ]
    return sorted(rows, key=lambda row: row[0])


def _longer(sleep_s: float, slack_s: float) -> float:
    """Return what a sleep takes; who does not sleep at all is not late either."""
    return sleep_s + slack_s if sleep_s else 0.0


def join(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _spread(values: Sequence[float], sizes: Ints) -> Floats:
    return np.repeat(np.array(values, dtype=np.float64), sizes)


class _LevelBuilder:
    """Collects the groups of one level's edges."""

    def __init__(self, begins: Ints, first: Ints, last: Ints, worker: Ints, machine: Ints, machines: int) -> None:
        self._begins, self._first, self._last = begins, first, last
        self._worker, self._machine, self._machines = worker, machine, machines
        self._sources: list[tuple[Ints, Ints, Floats]] = []
        self._targets: list[tuple[Ints, Ints, Floats]] = []
        self._group_edge: list[Ints] = []
        self._group_is_own: list[Flags] = []
        self._group_bytes: list[Floats] = []
        self._number = 0

    def add(self, row: int, edge: EdgeRow, target: SimulatedComponent, costs: Costs) -> None:
        sources, targets = self._rows(edge.source), self._rows(edge.target)
        weights = _weights(edge.edge, target, self._first[targets], self._last[targets])
        if edge.edge.routes:
            split = _routed(edge.edge, sources, targets, self._first, self._last)
        elif edge.edge.grouping == "ring":
            split = _ring(sources, targets, self._first, self._last)
        elif edge.edge.grouping == "local_or_shuffle":
            split = _local(sources, targets, weights, self._worker)
        else:
            split = (np.zeros(len(sources), dtype=np.int64), targets, np.zeros(len(targets), dtype=np.int64), weights)
        source_group, fed, target_group, weight = split
        number = 1 + int(max(source_group.max(initial=-1), target_group.max(initial=-1)))
        selectivity = np.full(len(sources), edge.edge.selectivity)
        self._sources.append((sources, source_group + self._number, selectivity))
        self._targets.append((fed, target_group + self._number, weight))
        self._group_edge.append(np.full(number, row, dtype=np.int64))
        self._group_is_own.append(np.full(number, not edge.edge.is_system))
        self._group_bytes.append(np.full(number, edge.edge.tuple_bytes + costs.frame_bytes))
        self._number += number

    def _rows(self, component: int) -> Ints:
        return np.arange(self._begins[component], self._begins[component + 1], dtype=np.int64)

    def groups(self) -> Groups:
        source, source_group, selectivity = _columns(self._sources)
        target, target_group, weight = _columns(self._targets)
        order = np.argsort(source, kind="stable")
        source, source_group, selectivity = source[order], source_group[order], selectivity[order]
        order = np.argsort(target_group, kind="stable")
        target, target_group, weight = target[order], target_group[order], weight[order]
        executors, begins = np.unique(source, return_index=True)
        there = self._machine[target] >= 0
        keys = target_group[there] * self._machines + self._machine[target[there]]
        places, place = np.unique(keys, return_inverse=True)
        here = source_group * self._machines + self._machine[source]
        own = np.searchsorted(places, here)
        known = (own < len(places)) & (self._machine[source] >= 0)
        known[known] = places[own[known]] == here[known]
        total = sums(target_group, weight, self._number)[source_group]
        in_worker = _weight_at((target_group, target, weight), (source_group, source), self._worker)
        return Groups(
            source=source,
            source_group=source_group,
            source_selectivity=selectivity,
            source_remote=1.0 - in_worker / np.maximum(total, 1e-300),
            source_place=np.where(known, own, UNPLACED),
            source_begins=begins.astype(np.int64),
            source_executors=executors,
            target=target,
            target_group=target_group,
            target_weight=weight,
            group_begins=np.searchsorted(target_group, np.arange(self._number)),
            group_edge=join(self._group_edge),
            group_is_own=np.concatenate(self._group_is_own) if self._group_is_own else np.zeros(0, dtype=bool),
            group_bytes=np.concatenate(self._group_bytes) if self._group_bytes else np.zeros(0),
            place_group=places // max(1, self._machines),
            place_machine=places % max(1, self._machines),
            place_weight=sums(place, weight[there], len(places)),
        )


def _columns(parts: Sequence[tuple[Ints, Ints, Floats]]) -> tuple[Ints, Ints, Floats]:
    values = np.concatenate([part[2] for part in parts]) if parts else np.zeros(0)
    return join([part[0] for part in parts]), join([part[1] for part in parts]), values


def _weights(edge: EdgeWork, target: SimulatedComponent, first: Ints, last: Ints) -> Floats:
    """The share of a group's tuples that each executor of the target gets; of `all`, how many copies."""
    tasks = (last - first + 1).astype(np.float64)
    if edge.grouping == "all":
        return tasks
    if edge.grouping == "global":
        return np.asarray(np.where(np.arange(len(tasks)) == 0, 1.0, 0.0))
    if not edge.weights:
        return np.asarray(tasks / tasks.sum())
    each = np.array(edge.weights, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(each / each.sum())])
    place = np.searchsorted(np.array(target.tasks, dtype=np.int64), first)
    return np.asarray(sums[place + (last - first + 1)] - sums[place])


Split = tuple[Ints, Ints, Ints, Floats]  # group of each source; target, group and weight of each row


def _local(sources: Ints, targets: Ints, weights: Floats, worker: Ints) -> Split:
    """Group 0 are the sources without a target in their worker; then one for each worker that has targets."""
    workers, group = np.unique(worker[targets], return_inverse=True)
    place = np.searchsorted(workers, worker[sources])
    there = place < len(workers)
    there[there] = workers[place[there]] == worker[sources[there]]
    there &= worker[sources] >= 0
    inside = weights / sums(group, weights, len(workers))[group]
    return (
        np.where(there, place + 1, 0),
        np.concatenate([targets, targets]),
        np.concatenate([np.zeros(len(targets), dtype=np.int64), group + 1]),
        np.concatenate([weights, inside]),
    )


def _ring(sources: Ints, targets: Ints, first: Ints, last: Ints) -> Split:
    """Each source executor is a group; its task i feeds the target's task i + 1, and the last one the first."""
    from_source = _by_task(sources, first, last)
    from_target = _by_task(targets, first, last)
    of_source = np.arange(len(from_source))
    to = from_target[(of_source + 1) % len(from_target)]
    group = from_source - sources[0]
    share = 1.0 / (last[from_source] - first[from_source] + 1)
    return np.arange(len(sources), dtype=np.int64), to, group, share


def _routed(edge: EdgeWork, sources: Ints, targets: Ints, first: Ints, last: Ints) -> Split:
    """Each source executor is a group. Its tasks are taken to send alike much."""
    from_source, from_target = _by_task(sources, first, last), _by_task(targets, first, last)
    rows = [(source, *way) for source, route in enumerate(edge.routes) for way in route]
    source, place = (np.array([row[n] for row in rows], dtype=np.int64) for n in range(2))
    group = from_source[source] - sources[0]
    share = np.array([row[2] for row in rows], dtype=np.float64)
    share /= sums(group, share, len(sources))[group]
    return np.arange(len(sources), dtype=np.int64), from_target[place], group, share


def _by_task(executors: Ints, first: Ints, last: Ints) -> Ints:
    """The executor of each task, in the order of tasks."""
    return np.repeat(executors, last[executors] - first[executors] + 1)


@dataclass(frozen=True)
class _Emissions:
    transfers: Floats
    deliveries: Floats
    remote: Floats
    cross: Floats
    cross_bytes: Floats
    remote_bytes: Floats


def _emissions(size: int, groups: Sequence[Groups], machine: Ints) -> _Emissions:
    """Return, of each executor, per tuple that it executes: `transfers` on components' own streams, the others on
    all."""
    transfers, deliveries, remote, cross, cross_bytes, remote_bytes = (np.zeros(size) for _ in range(6))
    for level in groups:
        if not level.number:
            continue
        total = sums(level.target_group, level.target_weight, level.number)[level.source_group]
        targets = (level.target_group, level.target, level.target_weight)
        in_machine = _weight_at(targets, (level.source_group, level.source), machine)
        sent = level.source_selectivity * total
        away = sent * level.source_remote
        far = level.source_selectivity * (total - in_machine)
        is_own = level.group_is_own[level.source_group]
        tuple_bytes = level.group_bytes[level.source_group]
        for column, values in (
            (transfers, sent * is_own),
            (deliveries, sent),
            (remote, away),
            (cross, far),
            (cross_bytes, far * tuple_bytes),
            (remote_bytes, away * tuple_bytes),
        ):
            np.add(column, sums(level.source, values, size), out=column)
    return _Emissions(transfers, deliveries, remote, cross, cross_bytes, remote_bytes)


def _weight_at(targets: tuple[Ints, Ints, Floats], sources: tuple[Ints, Ints], place: Ints) -> Floats:
    """Of each source (its group, itself): the weight of its group's targets (group, executor, weight) that are where it
    is itself."""
    (target_group, target, weight), (source_group, source) = targets, sources
    span = int(place.max(initial=0)) + 2
    known, at = np.unique(target_group * span + place[target] + 1, return_inverse=True)
    weights = sums(at, weight, len(known))
    wanted = source_group * span + place[source] + 1
    found = np.searchsorted(known, wanted)
    there = found < len(known)
    there[there] = known[found[there]] == wanted[there]
    there &= place[source] >= 0
    return np.asarray(np.where(there, weights[np.minimum(found, len(known) - 1)] if len(known) else 0.0, 0.0))
