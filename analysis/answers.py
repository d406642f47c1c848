"""What each run's policy answered at each scale event, from its decision log: executors before and after, and moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from analysis.event_ids import operation
from analysis.happened import Json, lines
from analysis.record import RunPaths
from scheduler_plugins.model import Topology
from scheduler_plugins.policies import etp, stela
from scheduler_plugins.wire import WireError, observation_from


@dataclass(frozen=True)
class Answer:
    """One decision. Component -> executors; `moved`: existing executors that were given another slot.

    `pressure`: input rate over processing rate of the congested ones, by Stela's test with its default parameters,
    on what the policy saw. `scheduler`: one of Storm's own, which dealt everything out anew by itself.
    """

    run_id: str
    variant: str
    event_id: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    moved: Mapping[str, int]
    pressure: Mapping[str, float]
    released: tuple[str, ...] = ()
    scheduler: str | None = None

    def outcome(self) -> tuple[Any, ...]:
        """Equal for answers that change the same number of executors in the same way."""
        parts = (self.before, self.after, self.moved)
        return (*(tuple(sorted(part.items())) for part in parts), self.released, self.scheduler)

    def cell(self, component: str) -> str:
        """What changes at one component, for a table."""
        before, after = self.before.get(component, 0), self.after.get(component, 0)
        if after != before:
            return f"{before} → {after}"
        if self.scheduler:
            return "anew"
        moved = self.moved.get(component, 0)
        return f"{moved} of {before} moved" if moved else "–"


def of_run(run: RunPaths, variant: str) -> list[Answer]:
    """The last word on each event; one that was repeated counts as one event."""
    answers: dict[str, Answer] = {}
    for line in lines(run.decisions):
        event = (line.get("observation") or {}).get("event")
        if event and _decides(line.get("decision") or {}):
            answer = _answer(run.run_id, variant, operation(event), line)
            if answer is not None:
                answers[answer.event_id] = answer
    return list(answers.values())


def _decides(decision: Json) -> bool:
    return bool(decision.get("settled") or any(decision.get(key) for key in ("executors", "placement", "rebalance")))


def _answer(run_id: str, variant: str, event_id: str, line: Json) -> Answer | None:
    try:
        topology = observation_from(line["observation"]).topologies[0]
    except (KeyError, IndexError, WireError):
        return None  # a log of an older version, or of no topology
    decision = line["decision"]
    before = {c.name: len(c.executors) for c in topology.components if c.kind != "system"}
    placement = (decision.get("placement") or {}).get(topology.topology_id) or {}
    return Answer(
        run_id, variant, event_id, before,
        before | ((decision.get("executors") or {}).get(topology.topology_id) or {}),
        _moved(topology, placement), pressure(topology), tuple(decision.get("release") or ()),
        decision.get("scheduler"),
    )  # fmt: skip


def _moved(topology: Topology, placement: Mapping[str, str]) -> dict[str, int]:
    moved = {
        c.name: sum(_moves(topology, placement, executor.first_task) for executor in c.executors)
        for c in topology.components
    }
    return {name: number for name, number in moved.items() if number}


def _moves(topology: Topology, placement: Mapping[str, str], task: int) -> bool:
    slot, now = placement.get(str(task)), topology.placement.get(task)
    return slot is not None and now is not None and slot != str(now)


def pressure(topology: Topology) -> dict[str, float]:
    """Congested components with their input over processing rate (SP II-C); infinite where nothing is processed."""
    rules = stela.Parameters()
    flow = etp.flow_of(topology, rules)
    found = {}
    for name, processed in flow.processing.items():
        arriving = sum(rate for (_, target), rate in flow.inflow.items() if target == name)
        if etp.is_congested(arriving, processed, name in flow.saturated, rules):
            found[name] = arriving / processed if processed > 0 else inf
    return found
