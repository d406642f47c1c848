"""Changes to placed topologies, from the decision to the round of their rebalance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler_plugins.model import Slot, Topology
from scheduler_plugins.service.messages import Answer, Change, PlacingScheduler


@dataclass(frozen=True)
class PlacementPlan:
    """A change to a placed topology, remembered from the decision to the scheduling round of the rebalance, in which
    Nimbus hides the topology's own assignment."""

    decision_id: str
    topology_id: str
    topology_name: str
    executors: Mapping[str, int]  # of the components whose number changes
    before: Mapping[int, Slot]  # of each task, once what had none is placed at once
    after: Mapping[int, Slot]  # of each task, as decided
    scheduler: PlacingScheduler | None = None  # that is to place instead of `after`
    wait_s: int = 0  # that Nimbus waits before the rebalance

    @staticmethod
    def of(answer: Answer, topology: Topology, change: Change) -> PlacementPlan:
        numbers = {component.name: len(component.executors) for component in topology.components}
        executors = {name: number for name, number in change.executors.items() if numbers[name] != number}
        before = {**_placed_at_once(topology, change.placement), **topology.placement}
        after = {**before, **change.placement}
        names = (str(answer.decision_id), topology.topology_id, topology.name)
        return PlacementPlan(*names, executors, before, after, None, answer.wait_s)

    @staticmethod
    def anew(answer: Answer, topology: Topology) -> PlacementPlan:
        """Return the plan in which the answer's scheduler places everything anew."""
        names = (str(answer.decision_id), topology.topology_id, topology.name)
        return PlacementPlan(*names, {}, topology.placement, {}, answer.scheduler, answer.wait_s)

    def changes_something(self, topology: Topology) -> bool:
        """True if Storm has something to rebalance: an executor's range or slot differs. An executor goes to the slot
        of its first task, whatever is said of the others."""
        firsts = [executor.first_task for component in topology.components for executor in component.executors]
        return bool(self.executors) or any(self.before.get(first) != self.after.get(first) for first in firsts)

    def leaves(self, slot: Slot) -> bool:
        """True if the topology was in that slot and nothing of it will be."""
        return self.scheduler is None and slot in self.before.values() and slot not in self.after.values()


def _placed_at_once(topology: Topology, slots: Mapping[int, Slot]) -> dict[int, Slot]:
    """Executors that had no slot have the one of their first task, all of their tasks with it."""
    return {
        task: slots[executor.first_task]
        for component in topology.components
        for executor in component.executors
        if executor.first_task in slots
        for task in range(executor.first_task, executor.last_task + 1)
    }


@dataclass
class PlanUnderWay:
    plan: PlacementPlan
    began_s: float
    restored: bool = False  # a Nimbus before this one began it, so that nobody knows how far it came
    requested: bool = False  # this Nimbus has been asked for its rebalance


class Plans:
    """The plans under way, at most one a topology. `kept`: what a Nimbus that takes over will find; a plan that has
    ended is there until the next round, when Storm has stored what the round before has placed."""

    def __init__(self, restored: Iterable[PlacementPlan], now_s: float) -> None:
        self._by_topology = {plan.topology_id: PlanUnderWay(plan, now_s, restored=True) for plan in restored}
        self.kept = self.all()

    def begin(self, plan: PlacementPlan, now_s: float) -> PlanUnderWay:
        entry = self._by_topology[plan.topology_id] = PlanUnderWay(plan, now_s)
        self.keep()
        return entry

    def keep(self) -> None:
        self.kept = self.all()

    def entries(self) -> tuple[PlanUnderWay, ...]:
        return tuple(entry for _, entry in sorted(self._by_topology.items()))

    def all(self) -> tuple[PlacementPlan, ...]:
        return tuple(entry.plan for entry in self.entries())

    def end(self, plan: PlacementPlan) -> bool:
        """False if the plan had ended already."""
        entry = self._by_topology.get(plan.topology_id)
        return entry is not None and entry.plan is plan and bool(self._by_topology.pop(plan.topology_id))
