"""Which workers started for what: a submission or a rebalance, on which machine, and how long after it; and which
machines joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.calibration.sums import Span
from analysis.record.small_tables import Row

LATEST_START_S = 120.0  # after what it is for
SETTLE_S = 5.0  # after its first line, until a worker costs no more than others: classes are loaded with first tuples
EARLY_S = 1.0  # that a line may seem to begin before what it is for: two machines' clocks
GOES_ON_S = 5.0  # a process with a line so shortly before was there
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
    or for an order of the same time and in the same way."""

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
        """From the order until all of them work: what they cost in it decides how long it is."""
        return Span(self.run_id, self.machine, self.order_s, self.end_s)

    @property
    def unrest(self) -> Span:
        """In which the machine's CPU is not that of workers at rest."""
        return Span(self.run_id, self.machine, self.order_s, self.end_s + SETTLE_S)


@dataclass(frozen=True)
class Join:
    """A machine on which a supervisor started, from then until it is at rest and `workers` that it was given work."""

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
    """`placements`: `(run_id, topology, placed_s)`, when a round placed each topology first, None where no round says
    so: then its submission counts. `topology_ids`: by run and name."""
    events = list(events)
    placed = {(row["run_id"], row["topology"]): row["placed_s"] for row in placements}
    decided = {(row["run_id"], row["decision_id"]): row["t_s"] for row in events if row["kind"] == "decision"}
    found = []
    for event in events:
        for topology in _concerned(event, topology_ids):
            key = (event["run_id"], topology)
            if event["kind"] == "topology_submitted":
                found.append(Order(*key, placed.get(key) or event["t_s"], True))
            elif event["kind"] == "applied" and event["ok"] and _was_asked_of_storm(event, decided):
                found.append(Order(*key, event["t_s"], False))
    return sorted(found, key=lambda order: (order.run_id, order.t_s))


def _was_asked_of_storm(event: Row, decided: Mapping[tuple[str, str], float]) -> bool:
    """A decision that moves nothing, such as one for another machine, is applied as soon as it is made."""
    decided_s = decided.get((event["run_id"], event["decision_id"]))
    return decided_s is None or bool(event["t_s"] > decided_s)


def _concerned(event: Row, topology_ids: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Of one topology a run's lines do not say its name."""
    named = [event["topology"]] if event["topology"] else list(event["topologies"] or ())
    for (run_id, name), topology in topology_ids.items():
        if run_id == event["run_id"] and (not named or name in named):
            yield topology


def start_groups(found_orders: Sequence[Order], processes: Sequence[Row]) -> list[StartGroup]:
    """Processes that nobody ordered, such as after a crash, are in none."""
    groups: dict[tuple[Order, str], list[Row]] = {}
    for process in processes:
        due = [
            order
            for order in found_orders
            if (order.run_id, order.topology) == (process["run_id"], process["topology"])
            and -EARLY_S <= process["begun_s"] - order.t_s <= LATEST_START_S
        ]
        if due:
            groups.setdefault((due[-1], process["machine"]), []).append(process)
    return [_group(order, machine, started, processes) for (order, machine), started in groups.items()]


def _group(order: Order, machine: str, started: Sequence[Row], processes: Sequence[Row]) -> StartGroup:
    restarted = sum(any(_was_there(other, process, order) for other in processes) for process in started)
    elapsed_s = max(process["begun_s"] for process in started) - order.t_s
    is_first = not any(
        all(other[name] == started[0][name] for name in ("run_id", "topology", "machine"))
        and other["begun_s"] < order.t_s - EARLY_S
        for other in processes
    )
    return StartGroup(order.run_id, machine, order.t_s, len(started), restarted, max(elapsed_s, 0.0), is_first)


def merge(groups: Iterable[StartGroup]) -> list[StartGroup]:
    """Groups of one machine that overlap, as where two topologies start at once, as one: what the machine used is that
    of all of them."""
    found: list[StartGroup] = []
    for group in sorted(groups, key=lambda group: (group.run_id, group.machine, group.order_s)):
        last = found[-1] if found else None
        if last is None or (last.run_id, last.machine) != (group.run_id, group.machine) or group.order_s >= last.end_s:
            found.append(group)
        else:
            found[-1] = _joined(last, group)
    return found


def _joined(a: StartGroup, b: StartGroup) -> StartGroup:
    alike = a.is_first == b.is_first and bool(a.restarted) == bool(b.restarted)
    return replace(
        a, number=a.number + b.number, restarted=a.restarted + b.restarted,
        elapsed_s=max(a.end_s, b.end_s) - a.order_s,
        is_at_once=a.is_at_once and alike and b.order_s - a.order_s <= EARLY_S,
    )  # fmt: skip


def joins(phases: Iterable[Row], events: Iterable[Row], groups: Sequence[StartGroup]) -> list[Join]:
    """Of machines that joined in a phase of that name: before it they had no supervisor."""
    begins = [(row["run_id"], row["start_s"]) for row in phases if row["phase"] == "join"]
    found = []
    for event in events:
        known = [start_s for run_id, start_s in begins if run_id == event["run_id"] and start_s <= event["t_s"]]
        if event["kind"] == "machines_joined" and known:
            found += [_join(event, machine, max(known), groups) for machine in event["machines"] or ()]
    return found


def _join(event: Row, machine: str, begin_s: float, groups: Sequence[StartGroup]) -> Join:
    mine = [group for group in groups if (group.run_id, group.machine) == (event["run_id"], machine)]
    first = min((group for group in mine if group.order_s >= begin_s), key=lambda group: group.order_s, default=None)
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
    """Spans of one run in which workers or a supervisor start, by machine."""
    found: dict[str, list[Span]] = {}
    for span in (*(group.unrest for group in groups), *(join.span for join in joined)):
        found.setdefault(span.machine, []).append(span)
    return found
