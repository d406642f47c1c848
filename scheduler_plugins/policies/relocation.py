"""Relocations: executors put into workers, and workers on machines, with the tasks that move and the saving (MP III-C,
IV-B).

Decisions where the paper is silent:

- executors between which and any other no tuple passed (ackers: their streams are not counted; silent ones) have no
  place in the graph. They are dealt evenly over the slots that the others use, and stay where that is even already
- `labels`: a partition's parts have numbers only. `matched` gives each part the machine that has most of its tasks, so
  that as few tasks as possible move; `in_order` is the papers' way: the first part to the first machine, and so on
- traffic between machines is what counts, before and after: a worker more on the same machine changes nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scheduler_plugins.model import Slot
from scheduler_plugins.policies.communication import Flags, Integers, Numbers
from scheduler_plugins.policies.pairwise import ROUNDING
from scheduler_plugins.policies.traffic_placement import NOWHERE, PORTS, ExecutorGraph

Labels = Literal["matched", "in_order"]


@dataclass(frozen=True, eq=False)
class Relocation:
    """The changes of a relocation. `before`, `after`: tuples/s between machines; `total`: between executors."""

    placement: Mapping[int, Slot]  # of tasks that move
    before: float
    after: float
    total: float
    tasks: int  # in all
    there: Integers  # the machine of each executor afterwards

    def saving_percent(self) -> float:
        """Return the saving of traffic between machines; below 0 if it grows, -100 from nothing."""
        grown = -100.0 if self.after > 0 else 0.0
        return 100 * (self.before - self.after) / self.before if self.before > 0 else grown

    def words(self) -> str:
        share_before, share_after = (f"{100 * rate / self.total:.1f} %" for rate in (self.before, self.after))
        rates = (
            f"tuples between machines {self.before:.0f} → {self.after:.0f}/s ({share_before} → {share_after} of all)"
        )
        moves = f"{len(self.placement)} of {self.tasks} tasks move"
        return f"{rates}, a saving of {self.saving_percent():.1f} %; {moves}"


def relocation(
    graph: ExecutorGraph, workers: Integers, nodes: Integers, labels: Labels,
    loads: Numbers | None = None, room: Numbers | None = None,
) -> Relocation:  # fmt: skip
    """Put executors into workers, and these on machines.

    `workers`: the number of each executor's worker; -1 for one to be dealt evenly. `nodes`: the number of each worker's
    machine, with at least as many slots as workers; with `labels` `matched` machines may be exchanged, except for those
    with less `room` than the `loads` of the workers.
    """
    loads = np.zeros(len(nodes)) if loads is None else loads
    room = np.full(len(graph.slots), np.inf) if room is None else room
    slots = _worker_slots(graph, workers, nodes, labels, loads, room)
    codes = np.array([graph.code(slot) for slot in slots])
    unassigned = np.flatnonzero(workers < 0)
    choice = workers.copy()
    choice[unassigned] = spread_evenly(_index_in(codes, graph.codes[unassigned]), len(slots))
    new_codes = codes[choice]
    placement: dict[int, Slot] = {}
    for vertex in np.flatnonzero(new_codes != graph.codes).tolist():
        executor, slot = graph.executors[vertex], slots[choice[vertex]]
        for task in range(executor.first_task, executor.last_task + 1):
            placement[task] = slot
    machines_after = new_codes // PORTS
    rates = (graph.crossing(), graph.pairs.crossing(machines_after), graph.pairs.total())
    return Relocation(placement, *rates, int(graph.tasks.sum()), machines_after)


def _index_in(values: Integers, wanted: Integers) -> Integers:
    """Return the index of each of `wanted` in `values`, which are all different; -1 where it is missing."""
    order = np.argsort(values)
    at = np.minimum(np.searchsorted(values[order], wanted), len(values) - 1)
    return np.where(values[order][at] == wanted, order[at], -1)


def _worker_slots(
    graph: ExecutorGraph, workers: Integers, nodes: Integers, labels: Labels, loads: Numbers, room: Numbers
) -> list[Slot]:
    """Return the slot of each worker."""
    node_numbers, node_of = np.unique(nodes, return_inverse=True)
    places = node_numbers
    if labels == "matched":  # [node, machine]: tasks that could stay; less than any sum where the node does not fit
        sizes, placeable = np.bincount(node_of), workers >= 0
        tasks = np.cumsum(
            _tasks_by_node_and_slot(graph, placeable, node_of[workers[placeable]], len(node_numbers)), axis=2
        )
        staying_tasks = np.stack(
            [tasks[node, :, min(size, tasks.shape[2]) - 1] for node, size in enumerate(sizes.tolist())]
        )
        needs = np.minimum(np.bincount(node_of, loads), room[node_numbers]) - ROUNDING  # else it fits nowhere
        fits = (np.array(list(map(len, graph.slots))) >= sizes[:, None]) & (room >= needs[:, None])
        places = best_places(np.where(fits, staying_tasks, -1.0 - graph.tasks.sum()))
    slots: list[Slot] = [NOWHERE] * len(nodes)
    for node, machine in enumerate(places.tolist()):
        mine = np.flatnonzero(node_of == node)
        machine_slots = graph.slots[machine][: len(mine)]
        for worker, slot in zip(
            mine.tolist(), _slots_in_machine(graph, workers, mine, machine_slots, labels), strict=True
        ):
            slots[worker] = slot
    return slots


def _tasks_by_node_and_slot(graph: ExecutorGraph, placeable: Flags, nodes: Integers, count: int) -> Numbers:
    """Return [node, machine, place of the slot among the machine's]: present tasks of the node."""
    width = max(map(len, graph.slots))
    codes = np.array([graph.code(slot) for slots in graph.slots for slot in slots])
    places = np.array([number * width + at for number, slots in enumerate(graph.slots) for at in range(len(slots))])
    indices = _index_in(codes, graph.codes[placeable])
    is_offered = indices >= 0
    keys = nodes[is_offered] * (len(graph.slots) * width) + places[indices[is_offered]]
    counts = np.bincount(keys, graph.tasks[placeable][is_offered], count * len(graph.slots) * width)
    return counts.astype(np.float64).reshape(count, len(graph.slots), width)


def _slots_in_machine(
    graph: ExecutorGraph, workers: Integers, mine: Integers, offered: Sequence[Slot], labels: Labels
) -> list[Slot]:
    """Return the slots of these workers, on one machine that offers as many."""
    if labels == "in_order" or len(mine) == 1:
        return sorted(offered)
    gains = np.array(
        [[graph.tasks[(workers == worker) & (graph.codes == graph.code(slot))].sum() for slot in offered]
         for worker in mine.tolist()], dtype=np.float64,
    )  # fmt: skip
    return [offered[place] for place in best_places(gains).tolist()]


def best_places(gains: Numbers) -> Integers:
    """Return the column of each row, no column twice, with the largest sum of `gains`; at least as many columns as
    rows.

    Of equal sums it takes the first one found. The Hungarian method with potentials and shortest augmenting paths
    (Kuhn; Munkres): rows × rows × columns steps. scipy has it too, but masters have no scipy.
    """
    rows, columns = gains.shape
    costs = gains.max(initial=0.0) - gains
    row_prices, column_prices = np.zeros(rows), np.zeros(columns)
    owners = np.full(columns, -1)  # the row of a column
    for row in range(rows):
        reach, previous = np.full(columns, np.inf), np.full(columns, -1)  # of the cheapest path to each column
        is_visited, visited_rows, at = np.zeros(columns, bool), [row], -1
        while at < 0 or owners[at] >= 0:
            row_visited = visited_rows[-1]
            costs_here = costs[row_visited] - row_prices[row_visited] - column_prices
            nearer = ~is_visited & (costs_here < reach)
            reach[nearer], previous[nearer] = costs_here[nearer], at
            at = int(np.argmin(np.where(is_visited, np.inf, reach)))
            step = reach[at]
            row_prices[visited_rows] += step
            column_prices[is_visited] -= step
            reach[~is_visited] -= step
            is_visited[at] = True
            visited_rows.append(int(owners[at]))
        while at >= 0:  # back to `row`
            owners[at] = row if previous[at] < 0 else owners[previous[at]]
            at = int(previous[at])
    places = np.empty(rows, np.int64)
    columns_taken = np.flatnonzero(owners >= 0)
    places[owners[columns_taken]] = columns_taken
    return places


def spread_evenly(present: Integers, count: int) -> Integers:
    """Return a place, 0 to count - 1, for each: no place has two more than another, and as many as possible stay.
    `present`: the place of each, -1 elsewhere."""
    counts = np.bincount(present[present >= 0], minlength=count)
    room = np.full(count, len(present) // count)
    room[np.argsort(-counts, kind="stable")[: len(present) % count]] += 1
    order = np.argsort(present, kind="stable")
    begins = np.searchsorted(present[order], np.arange(count))
    rank = np.empty(len(present), np.int64)  # among those at its place
    present_sorted = present[order]
    rank[order] = np.arange(len(present)) - np.where(present_sorted >= 0, begins[present_sorted], 0)
    stays = (present >= 0) & (rank < room[present])
    remainder = room - np.bincount(present[stays], minlength=count)
    places = present.copy()
    places[~stays] = np.repeat(np.arange(count), remainder)
    return places
