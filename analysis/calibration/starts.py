"""Starts of workers and joins of machines: for which submission or rebalance, on which machine, and how long after
it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.calibration.sums import Span
from analysis.record.small_tables import Row

LATEST_START_S = 120.0  # after its order
SETTLE_S = 5.0  # after its first line, until a worker costs no more than others: classes are loaded with first tuples
EARLY_S = 1.0  # that a line may seem to begin before its order: two machines' clocks
GOES_ON_S = 5.0  # a process with a line so shortly before existed
JOINS_S = 15.0  # until a supervisor that has started is at rest


@dataclass(frozen=True)
class Order:
    """Workers are to start from `t_s` on: an assignment of a topology, by its id."""

    run_id: str
    topology: str
    t_s: float
    is_first: bool


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

    @property
    def unrest(self) -> Span:
        """Return the time in which the machine's CPU is not that of workers at rest."""
        return Span(self.run_id, self.machine, self.order_s, self.end_s + SETTLE_S)


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
        for topology in _concerned(event, topology_ids):
            key = (event["run_id"], topology)
            if event["kind"] == "topology_submitted":
                result.append(Order(*key, placement_times.get(key) or event["t_s"], True))
            elif event["kind"] == "applied" and event["ok"] and _was_asked_of_storm(event, decision_times):
                result.append(Order(*key, event["t_s"], False))
    return sorted(result, key=lambda order: (order.run_id, order.t_s))


def _was_asked_of_storm(event: Row, decided: Mapping[tuple[str, str], float]) -> bool:
    """Return whether Storm had to act: a decision that moves nothing, or is for another machine, is applied at once."""
    decided_s = decided.get((event["run_id"], event["decision_id"]))
    return decided_s is None or bool(event["t_s"] > decided_s)


def _concerned(event: Row, topology_ids: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yield the topologies of an event; lines of a run with only one do not name it."""
    names = [event["topology"]] if event["topology"] else list(event["topologies"] or ())
    for (run_id, name), topology in topology_ids.items():
        if run_id == event["run_id"] and (not names or name in names):
            yield topology


def start_groups(found_orders: Sequence[Order], processes: Sequence[Row]) -> list[StartGroup]:
    """Group processes by their orders; those without an order, such as after a crash, are left out."""
    groups: dict[tuple[Order, str], list[Row]] = {}
    for process in processes:
        candidates = [
            order
            for order in found_orders
            if (order.run_id, order.topology) == (process["run_id"], process["topology"])
            and -EARLY_S <= process["begun_s"] - order.t_s <= LATEST_START_S
        ]
        if candidates:
            groups.setdefault((candidates[-1], process["machine"]), []).append(process)
    return [_group(order, machine, group_processes, processes) for (order, machine), group_processes in groups.items()]


def _group(order: Order, machine: str, started: Sequence[Row], processes: Sequence[Row]) -> StartGroup:
    count = sum(any(_was_there(other, process, order) for other in processes) for process in started)
    elapsed_s = max(process["begun_s"] for process in started) - order.t_s
    is_first = not any(
        all(other[name] == started[0][name] for name in ("run_id", "topology", "machine"))
        and other["begun_s"] < order.t_s - EARLY_S
        for other in processes
    )
    return StartGroup(order.run_id, machine, order.t_s, len(started), count, max(elapsed_s, 0.0), is_first)


def merge(groups: Iterable[StartGroup]) -> list[StartGroup]:
    """Merge groups of one machine that overlap, as when two topologies start at once: the machine's use is that of all
    of them."""
    merged: list[StartGroup] = []
    for group in sorted(groups, key=lambda group: (group.run_id, group.machine, group.order_s)):
        last = merged[-1] if merged else None
        if last is None or (last.run_id, last.machine) != (group.run_id, group.machine) or group.order_s >= last.end_s:
            merged.append(group)
        else:
            merged[-1] = _joined(last, group)
    return merged


def _joined(a: StartGroup, b: StartGroup) -> StartGroup:
    is_alike = a.is_first == b.is_first and bool(a.restarted) == bool(b.restarted)
    return replace(
        a, number=a.number + b.number, restarted=a.restarted + b.restarted,
        elapsed_s=max(a.end_s, b.end_s) - a.order_s,
        is_at_once=a.is_at_once and is_alike and b.order_s - a.order_s <= EARLY_S,
    )  # fmt: skip


def joins(phases: Iterable[Row], events: Iterable[Row], groups: Sequence[StartGroup]) -> list[Join]:
    """Return the joins of machines in a phase of that name: before it they had no supervisor."""
    begins = [(row["run_id"], row["start_s"]) for row in phases if row["phase"] == "join"]
    result = []
    for event in events:
        start_times = [start_s for run_id, start_s in begins if run_id == event["run_id"] and start_s <= event["t_s"]]
        if event["kind"] == "machines_joined" and start_times:
            result += [_join(event, machine, max(start_times), groups) for machine in event["machines"] or ()]
    return result


def _join(event: Row, machine: str, begin_s: float, groups: Sequence[StartGroup]) -> Join:
    machine_groups = [group for group in groups if (group.run_id, group.machine) == (event["run_id"], machine)]
    first = min(
        (group for group in machine_groups if group.order_s >= begin_s), key=lambda group: group.order_s, default=None
    )
    rest_s = max(event["t_s"], begin_s + JOINS_S)
    if first is None or first.order_s > rest_s:
        return Join(event["run_id"], machine, begin_s, rest_s, 0)
    return Join(event["run_id"], machine, begin_s, max(rest_s, first.end_s), first.number)


def _was_there(other: Row, process: Row, order: Order) -> bool:
    same_slot = all(other[name] == process[name] for name in ("run_id", "topology", "machine", "port"))
    return (
        same_slot
        and other["begun_s"] < order.t_s
        and other["last_s"] >= order.t_s - GOES_ON_S
        and other["pid"] != process["pid"]
    )


def overlaps(groups: Sequence[StartGroup], joined: Sequence[Join]) -> Mapping[str, list[Span]]:
    """Return by machine the spans of one run in which workers or a supervisor start."""
    spans: dict[str, list[Span]] = {}
    for span in (*(group.unrest for group in groups), *(join.span for join in joined)):
        spans.setdefault(span.machine, []).append(span)
    return spans
