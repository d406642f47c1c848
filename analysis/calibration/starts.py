"""Starts of workers and joins of machines: for which submission or rebalance, on which machine, and how long after
it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.record.small_tables import Row

LATEST_START_S = 120.0  # after its order
SETTLE_S = 5.0  # after its first line, until a worker costs no more than others: classes are loaded with first tuples
EARLY_S = 1.0  # that a line may seem to begin before its order: two machines' clocks
GOES_ON_S = 5.0  # a process with a line so shortly before existed
JOINS_S = 15.0  # until a supervisor that has started is at rest


@dataclass(frozen=True)
class Span:
    """A stretch of time on a machine of a run, in epoch seconds."""

    run_id: str
    machine: str
    from_s: float
    until_s: float

    def touches(self, from_s: float, until_s: float) -> bool:
        return self.from_s < until_s and from_s < self.until_s


@dataclass(frozen=True)
class Order:
    """Workers are to start from `t_s` on: an assignment of a topology, by its id."""

    run_id: str
    topology: str
    t_s: float


@dataclass(frozen=True)
class StartGroup:
    """Workers that started on one machine for one order, or for several whose starts overlap. `elapsed_s`: from the
    first order until the last one's first line; `restarted`: of them, those in whose slot another process had to end
    first. `is_first`: the machine had no worker of the topology before. `is_at_once`: nothing else started meanwhile,
    except for an order of the same time and in the same way."""

    run_id: str
    machine: str
    order_s: float
    number: int
    restarted: int
    elapsed_s: float
    is_first: bool = False
    is_at_once: bool = True

    @property
    def end_s(self) -> float:
        return self.order_s + self.elapsed_s

    @property
    def span(self) -> Span:
        """Return the time from the order until all of them work: their cost in it decides how long it is."""
        return Span(self.run_id, self.machine, self.order_s, self.end_s)


@dataclass(frozen=True)
class Join:
    """A machine on which a supervisor started, from then until it is at rest and its `workers` have started."""

    run_id: str
    machine: str
    begin_s: float
    until_s: float
    workers: int

    @property
    def span(self) -> Span:
        return Span(self.run_id, self.machine, self.begin_s, self.until_s)


def orders(
    events: Iterable[Row], placements: Iterable[Row], topology_ids: Mapping[tuple[str, str], str]
) -> list[Order]:
    """Return the orders. `placements`: `(run_id, topology, placed_s)`, when a round placed each topology first, None if
    no round is on record: then its submission counts. `topology_ids`: by run and name."""
    events = list(events)
    placement_times = {(row["run_id"], row["topology"]): row["placed_s"] for row in placements}
    decision_times = {(row["run_id"], row["decision_id"]): row["t_s"] for row in events if row["kind"] == "decision"}
    result = []
    for event in events:
        run_id, t_s = event["run_id"], event["t_s"]
        decided_s = decision_times.get((run_id, event["decision_id"]))
        # A decision that moves nothing, or is for another machine, is applied at once: Storm does not act.
        is_applied = event["kind"] == "applied" and event["ok"] and (decided_s is None or t_s > decided_s)
        if event["kind"] != "topology_submitted" and not is_applied:
            continue
        # Lines of a run with only one topology do not name it.
        names = [event["topology"]] if event["topology"] else list(event["topologies"] or ())
        for (of_run, name), topology in topology_ids.items():
            if of_run == run_id and (not names or name in names):
                placed_s = None if is_applied else placement_times.get((run_id, topology))
                result.append(Order(run_id, topology, placed_s or t_s))
    return sorted(result, key=lambda order: (order.run_id, order.t_s))


def start_groups(orders: Sequence[Order], processes: Sequence[Row]) -> list[StartGroup]:
    """Group processes by their orders; those without an order, such as after a crash, are left out."""
    by_order: dict[tuple[Order, str], list[Row]] = defaultdict(list)
    for process in processes:
        candidates = [
            order
            for order in orders
            if (order.run_id, order.topology) == (process["run_id"], process["topology"])
            and -EARLY_S <= process["begun_s"] - order.t_s <= LATEST_START_S
        ]
        if candidates:
            by_order[candidates[-1], process["machine"]].append(process)
    groups = []
    for (order, machine), started in by_order.items():
        same_machine = [
            row
            for row in processes
            if (row["run_id"], row["topology"], row["machine"]) == (order.run_id, order.topology, machine)
        ]
        earlier = [row for row in same_machine if row["begun_s"] < order.t_s]
        restarted = sum(
            any(
                row["port"] == process["port"] and row["pid"] != process["pid"]
                and row["last_s"] >= order.t_s - GOES_ON_S
                for row in earlier
            )
            for process in started
        )  # fmt: skip
        elapsed_s = max(process["begun_s"] for process in started) - order.t_s
        is_first = not any(row["begun_s"] < order.t_s - EARLY_S for row in earlier)
        sizes = (len(started), restarted, max(elapsed_s, 0.0))
        groups.append(StartGroup(order.run_id, machine, order.t_s, *sizes, is_first))
    return groups


def merge(groups: Iterable[StartGroup]) -> list[StartGroup]:
    """Merge groups of one machine that overlap, as when two topologies start at once: the machine's use is that of all
    of them."""
    merged: list[StartGroup] = []
    for group in sorted(groups, key=lambda group: (group.run_id, group.machine, group.order_s)):
        last = merged[-1] if merged else None
        if last is None or (last.run_id, last.machine) != (group.run_id, group.machine) or group.order_s >= last.end_s:
            merged.append(group)
            continue
        is_alike = last.is_first == group.is_first and bool(last.restarted) == bool(group.restarted)
        merged[-1] = replace(
            last, number=last.number + group.number, restarted=last.restarted + group.restarted,
            elapsed_s=max(last.end_s, group.end_s) - last.order_s,
            is_at_once=last.is_at_once and is_alike and group.order_s - last.order_s <= EARLY_S,
        )  # fmt: skip
    return merged


def joins(phases: Iterable[Row], events: Iterable[Row], groups: Sequence[StartGroup]) -> list[Join]:
    """Return the joins of machines in a phase of that name: before it they had no supervisor."""
    begins = [(row["run_id"], row["start_s"]) for row in phases if row["phase"] == "join"]
    result = []
    for event in events:
        run_id, t_s = event["run_id"], event["t_s"]
        start_times = [start_s for of_run, start_s in begins if of_run == run_id and start_s <= t_s]
        if event["kind"] != "machines_joined" or not start_times:
            continue
        begin_s = max(start_times)
        rest_s = max(t_s, begin_s + JOINS_S)
        for machine in event["machines"] or ():
            later = [g for g in groups if (g.run_id, g.machine) == (run_id, machine) and g.order_s >= begin_s]
            first = min(later, key=lambda group: group.order_s, default=None)
            if first is None or first.order_s > rest_s:
                result.append(Join(run_id, machine, begin_s, rest_s, 0))
            else:
                result.append(Join(run_id, machine, begin_s, max(rest_s, first.end_s), first.number))
    return result


def overlaps(groups: Sequence[StartGroup], joins: Sequence[Join]) -> Mapping[str, list[Span]]:
    """Return by machine the spans of one run in which its CPU is not that of workers at rest: workers or a supervisor
    start."""
    spans: dict[str, list[Span]] = defaultdict(list)
    for group in groups:
        spans[group.machine].append(replace(group.span, until_s=group.end_s + SETTLE_S))
    for join in joins:
        spans[join.machine].append(join.span)
    return spans
