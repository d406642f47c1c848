"""Which workers started for what: a submission or a rebalance, on which machine, and how long after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.calibration.sums import Span
from analysis.record.small_tables import Row

LATEST_START_S = 120.0  # after what it is for
SETTLE_S = 5.0  # after its first line, until a worker costs no more than others: classes are loaded with first tuples
EARLY_S = 1.0  # that a line may seem to begin before what it is for: two machines' clocks
GOES_ON_S = 5.0  # a process with a line so shortly before was there


@dataclass(frozen=True)
class Order:
    """Workers are to start from `t_s` on: an assignment of a topology, by its id."""

    run_id: str
    topology: str
    t_s: float
    is_first: bool


@dataclass(frozen=True)
class StartGroup:
    """Workers that started on one machine for one order. `elapsed_s`: from the order until the last one's first line;
    `restarted`: of them, those in whose slot another process had to end first."""

    run_id: str
    machine: str
    order_s: float
    number: int
    restarted: int
    elapsed_s: float

    @property
    def span(self) -> Span:
        """From the order until all of them work: what they cost in it decides how long it is."""
        return Span(self.run_id, self.machine, self.order_s, self.order_s + self.elapsed_s)

    @property
    def unrest(self) -> Span:
        """In which the machine's CPU is not that of workers at rest."""
        return Span(self.run_id, self.machine, self.order_s, self.order_s + self.elapsed_s + SETTLE_S)


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
    return StartGroup(order.run_id, machine, order.t_s, len(started), restarted, max(elapsed_s, 0.0))


def _was_there(other: Row, process: Row, order: Order) -> bool:
    same_slot = all(other[name] == process[name] for name in ("run_id", "topology", "machine", "port"))
    return (
        same_slot
        and other["begun_s"] < order.t_s
        and other["last_s"] >= order.t_s - GOES_ON_S
        and other["pid"] != process["pid"]
    )


def overlaps(groups: Sequence[StartGroup]) -> Mapping[tuple[str, str], list[Span]]:
    """Spans in which workers start, by run and machine."""
    found: dict[tuple[str, str], list[Span]] = {}
    for group in groups:
        found.setdefault((group.run_id, group.machine), []).append(group.unrest)
    return found
