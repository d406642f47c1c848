"""The policy of the fake cluster, whichever the run names: what it answers to the policy service is set by faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_plugins.model import Decision, Memory, Observation, ScaleEvent, Slot, topologies_to_place, unplaced_tasks
from tests.support.fakes.records import SINK

ACT_S = 2  # where it acts by itself, Storm waits for so long
NEVER = float("inf")
Places = dict[str, dict[int, Slot]]  # by topology id and task


@dataclass
class FakePolicy:
    """`ports`: by the topology's name, that of its workers."""

    faults: dict[str, Any]
    ports: Mapping[str, int]
    wait_s: int = 0  # before a rebalance, as the policy's parameters ask for
    hold_s: float = NEVER  # when the hold began
    _asked: int = 0

    def decide(self, seen: Observation, memory: Memory) -> Decision:
        """Spouts are on the first machine and sinks on the second; for an event sinks go to another one."""
        if first := self._first_places(seen):
            return Decision(placement=first, memory=memory, reason="first places")
        if seen.event is not None:
            return self._answer(seen.event, seen, memory)
        return self._act(seen, memory) if seen.may_act else Decision(memory=memory)

    def _here(self, seen: Observation) -> list[str]:
        return [machine.name for machine in seen.machines if machine.alive]

    def _first_places(self, seen: Observation) -> Places:
        """With the fault `unplaced` topologies of these names find no slot."""
        here, without = self._here(seen), self.faults.get("unplaced", ())
        return {
            each.topology_id: {t: Slot(here[(t - 1) % len(here)], self.ports[each.name]) for t in unplaced_tasks(each)}
            for each in topologies_to_place(seen)
            if here and each.name not in without
        }

    def _answer(self, event: ScaleEvent, seen: Observation, memory: Memory) -> Decision:
        """The faults `held` and `never_decides`: it waits. Machines with the highest numbers may leave."""
        if self.faults.get("never_decides") or "held" in self.faults:
            return Decision(memory=memory, reason=self.faults.get("held", ""))
        here = self._here(seen)
        staying, leaving = here[: len(here) - event.leave], tuple(here[len(here) - event.leave :])
        placement, reason = self._moved(seen, staying, self._dies_deciding()), self.faults.get("reason", "dealt again")
        return Decision({}, placement, leaving, memory=memory, reason=reason, settled=True, wait_s=self.wait_s)

    def _dies_deciding(self) -> str | None:
        """The fault is a list: who dies while the next request is decided, None for nobody."""
        dying: str | None = (self.faults.get("dies_deciding") or [None]).pop(0)
        if dying is not None:
            self.faults["dead"] = (*self.faults.get("dead", ()), dying)
        return dying

    def _moved(self, seen: Observation, staying: Sequence[str], dying: str | None = None) -> Places:
        """Sinks, and what is on none of these machines, go to the next one; to a free slot of the one that dies."""
        moved: Places = {}
        for topology in seen.topologies:
            port = self.ports[topology.name] + (len(self.ports) if dying else 0)
            for task, slot in topology.placement.items():
                if task == SINK or slot.machine not in staying:
                    after = staying.index(slot.machine) + 1 if slot.machine in staying else 0
                    target = dying or staying[after % len(staying)]
                    moved.setdefault(topology.topology_id, {})[task] = Slot(target, port)
        return moved

    def _act(self, seen: Observation, memory: Memory) -> Decision:
        """In a hold. With the fault `acts` it moves something each time. `asks`: after how many seconds it asks for how
        many machines, or lets which go."""
        here = self._here(seen)
        if self.faults.get("acts"):
            return Decision(placement=self._moved(seen, here), memory=memory, reason="moves on", wait_s=ACT_S)
        after_s, wanted = [*self.faults.get("asks", ()), (NEVER, 0)][self._asked]
        if seen.time_s < self.hold_s + after_s:
            return Decision(memory=memory)
        self._asked += 1
        if isinstance(wanted, int):
            return Decision(acquire=wanted, memory=memory, reason=f"asks for {wanted}")
        placement = self._moved(seen, [name for name in here if name not in wanted])
        return Decision({}, placement, wanted, memory=memory, reason=f"asks for {wanted}", wait_s=ACT_S)
