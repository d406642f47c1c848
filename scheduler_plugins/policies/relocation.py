"""Executors put into workers, and workers on machines: which tasks move for it, and what it saves (MP III-C, IV-B).

What the paper leaves open is decided here:

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
from scheduler_plugins.policies.executor_graph import NOWHERE, PORTS, ExecutorGraph
from scheduler_plugins.policies.pairwise import ROUNDING

Labels = Literal["matched", "in_order"]


@dataclass(frozen=True, eq=False)
class Relocation:
    """What changes if it is carried out. `before`, `after`: tuples/s between machines; `total`: between executors."""

    placement: Mapping[int, Slot]  # of tasks that move
    before: float
    after: float
    total: float
    tasks: int  # in all
    there: Integers  # the machine of each executor once it is carried out

    def saving_percent(self) -> float:
        """Of what passes between machines now; below 0 if that grows, from nothing by 100."""
        grown = -100.0 if self.after > 0 else 0.0
        return 100 * (self.before - self.after) / self.before if self.before > 0 else grown

    def words(self) -> str:
        now, then = (f"{100 * rate / self.total:.1f} %" for rate in (self.before, self.after))
        rates = f"tuples between machines {self.before:.0f} → {self.after:.0f}/s ({now} → {then} of all)"
        moved = f"{len(self.placement)} of {self.tasks} tasks move"
        return f"{rates}, a saving of {self.saving_percent():.1f} %; {moved}"


def relocation(
    graph: ExecutorGraph, workers: Integers, nodes: Integers, labels: Labels,
    loads: Numbers | None = None, room: Numbers | None = None,
) -> Relocation:  # fmt: skip
    """Executors put into workers, and these on machines.

    `workers`: the number of each executor's worker; -1 for one that is to be dealt evenly. `nodes`: the number of each
    worker's machine, with at least as many slots as workers; with `labels` `matched` machines may be exchanged, but for
    those that have less `room` than the `loads` of the workers take.
    """
    loads = np.zeros(len(nodes)) if loads is None else loads
    room = np.full(len(graph.slots), np.inf) if room is None else room
    slots = _worker_slots(graph, workers, nodes, labels, loads, room)
    codes = np.array([graph.code(slot) for slot in slots])
    dealt = np.flatnonzero(workers < 0)
    chosen = workers.copy()
    chosen[dealt] = spread_evenly(_index_in(codes, graph.codes[dealt]), len(slots))
    after = codes[chosen]
    placement: dict[int, Slot] = {}
    for vertex in np.flatnonzero(after != graph.codes).tolist():
        executor, slot = graph.executors[vertex], slots[chosen[vertex]]
        for task in range(executor.first_task, executor.last_task + 1):
            placement[task] = slot
    there = after // PORTS
    rates = (graph.crossing(), graph.pairs.crossing(there), graph.pairs.total())
    return Relocation(placement, *rates, int(graph.tasks.sum()), there)


def _index_in(values: Integers, wanted: Integers) -> Integers:
    """Where each of `wanted` is in `values`, which are all different; -1 where it is not."""
    order = np.argsort(values)
    at = np.minimum(np.searchsorted(values[order], wanted), len(values) - 1)
    return np.where(values[order][at] == wanted, order[at], -1)


def _worker_slots(
    graph: ExecutorGraph, workers: Integers, nodes: Integers, labels: Labels, loads: Numbers, room: Numbers
) -> list[Slot]:
    """Of each worker."""
    used, node_of = np.unique(nodes, return_inverse=True)
    places = used
    if labels == "matched":  # [node, machine]: tasks that could stay; less than any sum where the node does not fit
        sizes, placeable = np.bincount(node_of), workers >= 0
        tasks = np.cumsum(_tasks_by_node_and_slot(graph, placeable, node_of[workers[placeable]], len(used)), axis=2)
        kept = np.stack([tasks[node, :, min(size, tasks.shape[2]) - 1] for node, size in enumerate(sizes.tolist())])
        needs = np.minimum(np.bincount(node_of, loads), room[used]) - ROUNDING  # more than there is fits nowhere
        fits = (np.array(list(map(len, graph.slots))) >= sizes[:, None]) & (room >= needs[:, None])
        places = best_places(np.where(fits, kept, -1.0 - graph.tasks.sum()))
    slots: list[Slot] = [NOWHERE] * len(nodes)
    for node, machine in enumerate(places.tolist()):
        mine = np.flatnonzero(node_of == node)
        offered = graph.slots[machine][: len(mine)]
        for worker, slot in zip(mine.tolist(), _slots_in_machine(graph, workers, mine, offered, labels), strict=True):
            slots[worker] = slot
    return slots


def _tasks_by_node_and_slot(graph: ExecutorGraph, placeable: Flags, nodes: Integers, count: int) -> Numbers:
    """[node, machine, place of the slot among the machine's]: tasks of the node that are there now."""
    most = max(map(len, graph.slots))
    codes = np.array([graph.code(slot) for slots in graph.slots for slot in slots])
    places = np.array([number * most + at for number, slots in enumerate(graph.slots) for at in range(len(slots))])
    there = _index_in(codes, graph.codes[placeable])
    known = there >= 0
    keys = nodes[known] * (len(graph.slots) * most) + places[there[known]]
    counts = np.bincount(keys, graph.tasks[placeable][known], count * len(graph.slots) * most)
    return counts.astype(np.float64).reshape(count, len(graph.slots), most)


def _slots_in_machine(
    graph: ExecutorGraph, workers: Integers, mine: Integers, offered: Sequence[Slot], labels: Labels
) -> list[Slot]:
    """Of these workers, on one machine that offers as many slots."""
    if labels == "in_order" or len(mine) == 1:
        return sorted(offered)
    gains = np.array(
        [[graph.tasks[(workers == worker) & (graph.codes == graph.code(slot))].sum() for slot in offered]
         for worker in mine.tolist()], dtype=np.float64,
    )  # fmt: skip
    return [offered[place] for place in best_places(gains).tolist()]


def best_places(gains: Numbers) -> Integers:
    """The column of each row, no column twice, with the largest sum of `gains`; at least as many columns as rows.

    Of equal sums the one that it finds first. The Hungarian method with potentials and shortest augmenting paths (Kuhn;
    Munkres): rows × rows × columns steps. scipy has it too, and no master has scipy.
    """
    rows, columns = gains.shape
    costs = gains.max(initial=0.0) - gains
    row_prices, column_prices = np.zeros(rows), np.zeros(columns)
    owners = np.full(columns, -1)  # the row of a column
    for row in range(rows):
        reach, before = np.full(columns, np.inf), np.full(columns, -1)  # of the cheapest path to each column
        seen, visited_rows, at = np.zeros(columns, bool), [row], -1
        while at < 0 or owners[at] >= 0:
            last = visited_rows[-1]
            costs_here = costs[last] - row_prices[last] - column_prices
            nearer = ~seen & (costs_here < reach)
            reach[nearer], before[nearer] = costs_here[nearer], at
            at = int(np.argmin(np.where(seen, np.inf, reach)))
            step = reach[at]
            row_prices[visited_rows] += step
            column_prices[seen] -= step
            reach[~seen] -= step
            seen[at] = True
            visited_rows.append(int(owners[at]))
        while at >= 0:  # back to `row`
            owners[at] = row if before[at] < 0 else owners[before[at]]
            at = int(before[at])
    places = np.empty(rows, np.int64)
    taken = np.flatnonzero(owners >= 0)
    places[owners[taken]] = taken
    return places


def spread_evenly(present: Integers, count: int) -> Integers:
    """A place, 0 to count - 1, for each: no place has two more than another, and as many as possible stay where they
    are. `present`: where each is, -1 elsewhere."""
    there = np.bincount(present[present >= 0], minlength=count)
    room = np.full(count, len(present) // count)
    room[np.argsort(-there, kind="stable")[: len(present) % count]] += 1
    order = np.argsort(present, kind="stable")
    begins = np.searchsorted(present[order], np.arange(count))
    rank = np.empty(len(present), np.int64)  # among those at its place
    here = present[order]
    rank[order] = np.arange(len(present)) - np.where(here >= 0, begins[here], 0)
    stays = (present >= 0) & (rank < room[present])
    left = room - np.bincount(present[stays], minlength=count)
    places = present.copy()
    places[~stays] = np.repeat(np.arange(count), left)
    return places
