"""State of one topology in the policy service: its samples, the slots of its tasks, and its lost tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler_plugins.model import SINKS, Slot, Topology
from scheduler_plugins.service.run_snapshot import LostTasks, Move, TopologyStatus, WorkerRestart
from scheduler_plugins.service.samples import Samples


@dataclass
class TopologyState:
    """A topology of the run, from the first scheduling round that has it on."""

    topology_id: str
    name: str
    samples: Samples
    placed_among: tuple[str, ...]  # machines that Nimbus knew when it first had the topology to place
    is_running: bool = True  # Nimbus had it in the newest round
    rebalancing: bool = False
    slots: tuple[str, ...] = ()
    tasks_total: int = 0
    spout_tasks: frozenset[int] = frozenset()
    unplaced_why: str | None = None  # the reason of Storm's own scheduler for executors without a slot
    lost: list[LostTasks] = field(default_factory=list)  # tasks that lost their slot without a request
    moves: list[Move] = field(default_factory=list)  # slots whose tasks changed without a rebalance
    _placement: Mapping[int, Slot] = field(default_factory=dict)  # task → slot, in the round before
    _round_s: float = 0.0  # when that was

    @classmethod
    def first(
        cls, topology: Topology, window_s: float, machines: tuple[str, ...], sample_s: int = 1, throughput: str = SINKS
    ) -> TopologyState:
        """Return the state of a topology that is new in a request; `machines`: living ones; `throughput`: where it is
        measured (`Topology.measured`)."""
        sinks, measured = frozenset(topology.sinks()), topology.measured(throughput)
        samples = Samples(topology.topology_id, window_s, sample_s, sinks=sinks, measured=measured)
        return cls(topology.topology_id, topology.name, samples, machines)

    def record(self, topology: Topology, now: float) -> None:
        """Take the newest request. In a rebalance tasks are without a slot for a moment; that is no loss."""
        placement, old_placement = topology.placement, self._placement
        self.is_running, self.rebalancing = True, topology.rebalancing
        self.tasks_total = sum(len(component.tasks) for component in topology.components)
        spouts = (component for component in topology.components if component.kind == "spout")
        self.spout_tasks = frozenset(task for component in spouts for task in component.tasks)
        self.unplaced_why = topology.unplaced_why
        if old_placement and not self.rebalancing and placement != old_placement:
            lost_slots = [slot for task, slot in old_placement.items() if task not in placement]
            if lost_slots:
                machines = tuple(sorted({slot.machine for slot in lost_slots}))
                self.lost.append(LostTasks(now, len(lost_slots), machines, self.name))
            slot_names = {str(slot) for _, slot in placement.items() ^ old_placement.items()}
            self.moves.append(Move(self._round_s, tuple(sorted(slot_names))))
        self._round_s = now
        old_slots, self._placement = set(self.slots), placement
        self.slots = tuple(sorted(map(str, set(placement.values()))))
        for slot in self.slots:
            if slot not in old_slots:
                self.samples.join_slot(slot, now)

    def end(self) -> None:
        """End the topology, which Nimbus has no more; its series stays."""
        self.is_running, self.rebalancing = False, False
        self._placement, self.slots, self.tasks_total, self.unplaced_why = {}, (), 0, None

    def snapshot(self, now: float, unplaceable: bool) -> TopologyStatus:
        return TopologyStatus(
            name=self.name,
            series=self.samples.series(now),
            running=self.is_running,
            rebalancing=self.rebalancing,
            tasks_placed=len(self._placement),
            tasks_total=self.tasks_total,
            placed_among=self.placed_among,
            unplaceable=unplaceable,
            unplaced_why=self.unplaced_why,
            samples_age_s=self.samples.age_s(now, self.slots),
            window_fault=self.samples.window(now, self.slots).fault,
            workers_reporting=self.samples.reporting(now),
        )

    def restarts(self) -> list[WorkerRestart]:
        return [replace(restart, topology=self.name) for restart in self.samples.restarts]
