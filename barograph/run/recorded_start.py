"""Begin a simulated run with the placement of a recorded one, whatever its policy does at the start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barograph.plan.experiment import Experiment
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.run.simulation import SimulatedClock
from barograph.testbeds.checks import gives_whole_machines
from inventory.existing.testbed import ExistingTestbed
from inventory.machines import MachineType
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.model import (
    Decision,
    Memory,
    Observation,
    Policy,
    Slot,
    living_slots,
    topologies_to_place,
    unplaced_tasks,
)
from scheduler_plugins.service.state import ServiceState

REASON = "placed as in the recorded run"


@dataclass(frozen=True)
class RecordedStart:
    """`placement`: by the name in Storm, of topologies that existed at the start, task → slot, as soon as all tasks
    were placed. `supervisor_ids`: by machine; Nimbus goes through machines in their order. `types`: see
    `recorded_types`."""

    placement: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    supervisor_ids: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, MachineType] = field(default_factory=dict)


class StartedCluster(SimulatedCluster):
    """A simulated cluster in which a topology without placement gets the recorded one, whatever its policy decides."""

    def __init__(
        self, experiment: Experiment, testbed: SimulatedTestbed, clock: SimulatedClock, folder: Path,
        start: RecordedStart,
    ) -> None:  # fmt: skip
        super().__init__(experiment, testbed, clock, folder, supervisor_ids=start.supervisor_ids, types=start.types)
        self._start = start

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = super().call(path, body)
        state = self.simulation.state
        if path == "/configure" and isinstance(state, ServiceState):  # code of a variant is not simulated from a record
            state.policy = begun_as(state.policy, self._start)
        return answer


def begun_as(policy: Policy, start: RecordedStart) -> Policy:
    """Return the policy, but with the recorded first placement of every topology that `start` knows, where those slots
    are free. A topology that has lost its place, as by a crash, is the policy's."""
    names: set[str] = set()  # names of topologies that had a placement

    def decide(observation: Observation, memory: Memory) -> Decision:
        decision = policy(observation, memory)
        names.update(topology.name for topology in observation.topologies if topology.placement)
        used_slots = {slot for topology in observation.topologies for slot in topology.placement.values()}
        slots, placements = living_slots(observation.machines) - used_slots, {}
        for topology in topologies_to_place(observation):
            recorded, unplaced = start.placement.get(topology.name, {}), unplaced_tasks(topology)
            is_new = topology.name not in names and set(unplaced) == set(recorded)  # with other tasks it is another one
            placement = {task: Slot.parse(recorded[task]) for task in unplaced} if is_new else {}
            if placement and set(placement.values()) <= slots:
                slots -= set(placement.values())
                placements[topology.topology_id] = placement
        if not placements:
            return decision
        return Decision(placement=placements, memory=decision.memory, reason=REASON)

    return decide


def start_of(rounds: Sequence[Mapping[str, Any]], names: Collection[str], run: Mapping[str, Any]) -> RecordedStart:
    """Return the start in a decision log's lines: the placement of each topology of these names in the first round with
    all of its tasks placed, and the supervisors as Nimbus knew them; and the machines of the run's record."""
    placements: dict[str, dict[int, str]] = {}
    for line in rounds:
        for topology in line["observation"]["topologies"]:
            tasks = {task for component in topology["components"] for task in component["tasks"]}
            placement = {int(task): slot for task, slot in topology["placement"].items()}
            is_missing = topology["name"] in names and topology["name"] not in placements
            if is_missing and tasks and tasks <= set(placement):
                placements[topology["name"]] = placement
    return RecordedStart(placements, supervisor_ids(rounds), recorded_types(run))


def supervisor_ids(rounds: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return ids by machine, as Nimbus knew them, from a decision log's lines. Their order decides who gets which slot:
    it is drawn anew on every machine, and is no property of the compared variants."""
    ids: dict[str, str] = {}
    for line in rounds:
        machines = line.get("request", {}).get("machines", ())
        ids |= {each["name"]: each["supervisor_id"] for each in machines if each.get("supervisor_id")}
    return ids


def recorded_types(run: Mapping[str, Any]) -> dict[str, MachineType]:
    """Return types by machine, from a `run.json` on whole machines; else nothing, for machines are created as the
    experiment says. Bandwidth 0: unknown, for the machine existed before."""
    testbed = run.get("spec", {}).get("testbed", {}).get("name", "")
    if not gives_whole_machines(testbed):
        return {}
    is_measured = testbed != ExistingTestbed.name
    return {
        name: MachineType(
            facts["type"], facts["cores"], facts["memory_mb"], facts["bandwidth_mbit"] if is_measured else 0,
            facts["slots"],
        )
        for name, facts in run.get("machines", {}).items()
    }  # fmt: skip
