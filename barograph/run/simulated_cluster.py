"""A simulated cluster: the same runs, policies, policy service and records as on machines, in simulated time.

Machines, workers and tuples are `scheduler_plugins.simulator`'s, Nimbus and the bridge `scheduler_plugins.driver`'s,
the policy service is the real one in process. Times outside a measurement (a boot, a supervisor's start) are constants
here. docs/simulator.md says how far the numbers can be trusted. A run may begin with the placement of a recorded one.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from barograph.errors import ExperimentError, PolicyHung, RunBroken
from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import Disturbance, RunningWorker
from barograph.plan.experiment import Code, Experiment
from barograph.plan.simulation import simulated_topology
from barograph.plan.topologies import TopologyChoice
from barograph.pool import Answer, Death, run_isolated
from barograph.run.cluster import ClusterFacts, Collection, MachineSupply
from barograph.run.rate_courses import REFILL_S
from barograph.run.simulation import InProcessService, SimulatedClock, Simulation
from barograph.run.storm_cluster import give_back_quietly, machine_facts, render_topology
from barograph.testbeds.checks import gives_whole_machines, machine_requests
from inventory.existing.testbed import ExistingTestbed
from inventory.machines import MachineType
from inventory.simulated import SimulatedTestbed
from playbooks.clock import ClockOffset
from playbooks.cluster import NO_SAMPLES
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
from scheduler_plugins.service.policy_call import HANG_FILE, hang_of
from scheduler_plugins.service.state import ServiceState
from scheduler_plugins.simulator import model_sha256
from scheduler_plugins.simulator.work import MachineSize
from topologies.work import topology_work

CLUSTER = ".cluster"  # prefix of folders in that of a series: disks of simulated machines, removed with them
SUPERVISOR_S = 4.0  # from the start of a supervisor until Nimbus knows it
RESTART_S = 8.0  # for a crashed machine
FORGET_S = 2.0  # how often to check whether Nimbus has forgotten a machine
KILL_S = 1.0  # Storm waits before it ends a topology's workers
MOST_TICK_S = REFILL_S  # however rarely the harness looks, no less than that is sent ahead of courses of rates
SETTLE_S = 3.0  # until the last lines of workers are written


class SimulatedCluster(InProcessService):
    """A simulated Cluster and ServiceClient. `folder` is emptied at each reset.

    `supervisor_ids`: by machine, where they are known. Nimbus and policies go through machines in their order; Storm
    draws them anew on each machine. `types`: by machine, where they are others than the experiment's.
    """

    def __init__(
        self, experiment: Experiment, testbed: SimulatedTestbed, clock: SimulatedClock, folder: Path,
        supply: MachineSupply | None = None, supervisor_ids: Mapping[str, str] | None = None,
        types: Mapping[str, MachineType] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(lambda: self.simulation.state)
        self._experiment, self._testbed, self._clock, self._folder = experiment, testbed, clock, folder
        self._supply, self._supervisor_ids = supply, supervisor_ids or {}
        self._booted: set[str] = set()
        known_types = types or {}
        self._types = {each.name: known_types.get(each.name, each.type) for each in machine_requests(experiment)[1:]}
        self.simulation = self._begin(0, None)
        clock.advance = lambda until_s: self.simulation.advance(until_s)  # noqa: PLW0108 - of the run that is on then
        clock.tick_s = min(testbed.options.look_s, MOST_TICK_S)

    def _begin(self, seed: int, code: Code | None) -> Simulation:
        hang = hang_text(self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        (self._folder / HANG_FILE).write_text(hang, encoding="utf-8")
        sizes = [self._size(name) for name in self._experiment.acquired()]
        testbed, now = self._testbed, self._clock.unshifted()
        simulation = Simulation(sizes, testbed.costs, testbed.options, self._folder, now, seed, code)
        simulation.supervisor_ids = self._supervisor_ids
        for name in self._experiment.starting():
            simulation.register(name)
        self._booted.clear()
        return simulation

    def _size(self, name: str) -> MachineSize:
        type = self._type(name)
        return MachineSize(name, type.cores, type.bandwidth_mbit, type.slots)

    def _type(self, name: str) -> MachineType:
        """Return the machine's type; one that only a policy requests is like all others."""
        return self._types.get(name) or next(iter(self._types.values()))

    def deploy(self) -> None:
        """Do nothing: there is nothing to install."""

    def reset(self, run: PlannedRun) -> None:
        if self._booted:
            self.give_back(sorted(self._booted))
        self.simulation.close()
        self.simulation = self._begin(run.seed, run.variant.code)
        hang = self.simulation.watch.hang or {}
        if hang.get("run_id") == run.run_id:
            raise PolicyHung(run.variant.policy, hang["why"])
        self.simulation.watch.begin_run(run.run_id)

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        flux = render_topology(topology, run.seed)
        name = f"topology-{topology.name}.yaml" if self._experiment.topologies else "topology.yaml"
        (self._folder / name).write_text(flux, encoding="utf-8")
        topology_id = f"{topology.name}-{self.simulation.submitted + 1}-{int(self._clock.unshifted())}"
        shape, work = simulated_topology(flux, topology_id)
        self.simulation.submit(shape, work, has_traffic=topology_work(flux).has_traffic)

    def kill(self, topology: str) -> None:
        self.simulation.nimbus.kill(topology, KILL_S)
        self._clock.sleep(KILL_S + SETTLE_S)

    def join(self, machines: Sequence[str]) -> None:
        for name in machines:
            self.simulation.world.start_supervisor(name)
        self._clock.sleep(SUPERVISOR_S)
        for name in machines:
            self.simulation.register(name)

    def grow(self, machines: Sequence[str]) -> Mapping[str, float | None]:
        if self._supply is not None:
            self._supply.grow(machines)
        boot_s = self._testbed.options.boot_s
        try:
            self._clock.sleep(boot_s)
        except BaseException:
            give_back_quietly(self, machines)
            raise
        for name in machines:
            self.simulation.world.add_machine(self._size(name))
        self.simulation.absent.difference_update(machines)
        self._booted.update(machines)
        return dict.fromkeys(machines, boot_s)

    def leave(self, machines: Sequence[str]) -> None:
        for name in machines:
            self.simulation.nimbus.machine_down(name)
        while any(self.simulation.is_registered(name) for name in machines):
            self._clock.sleep(FORGET_S)

    def give_back(self, machines: Sequence[str]) -> bool:
        if self._supply is not None:
            self._supply.give_back(machines)
        self.simulation.absent.update(machines)
        self._booted.difference_update(machines)
        return True

    def crash(self, machine: str) -> None:
        self.simulation.world.crash(machine)
        self.simulation.nimbus.machine_down(machine)

    def restart(self, machine: str) -> None:
        self._clock.sleep(RESTART_S)
        self.simulation.world.restart(machine)
        self.simulation.register(machine)

    def disturb(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        for name in machines:
            load, amount = self.simulation.load(name), disturbance.amount or 0.0
            if disturbance.kind == "cpu_load":
                load.busy = amount
            elif disturbance.kind == "slow_cpu":
                load.speed = amount
            elif disturbance.kind == "lan_cut":
                load.is_cut = True
                self.simulation.nimbus.machine_down(name)
            elif disturbance.kind == "partition":
                load.unreached = frozenset(machines) - {name}
            elif disturbance.kind == "sample_loss":
                self.simulation.silent.add(name)
            else:
                raise ExperimentError(f"{disturbance.kind}: the simulator knows nothing of it")

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        for name in machines:
            load = self.simulation.load(name)
            if disturbance.kind == "cpu_load":
                load.busy = 0.0
            elif disturbance.kind == "slow_cpu":
                load.speed = 1.0
            elif disturbance.kind == "partition":
                load.unreached = frozenset()
            elif disturbance.kind == "sample_loss":
                self.simulation.silent.discard(name)
            elif disturbance.kind == "lan_cut" and load.is_cut:
                load.is_cut = False
                if load.is_alive and name not in self.simulation.absent:
                    self.simulation.register(name)

    @contextmanager
    def worker_on(self, machine: str) -> Iterator[RunningWorker]:
        world = self.simulation.world
        workers = sorted((slot, topology_id) for topology_id, slot in world.workers if slot.machine == machine)
        if not workers:
            raise ExperimentError(f"no worker runs on {machine}: name another machine for the worker_crash")
        slot, topology_id = workers[0]
        yield RunningWorker(str(slot), lambda: world.kill_worker(topology_id, slot))

    def stop(self) -> None:
        simulation = self.simulation
        for topology_id in simulation.nimbus.topology_ids():
            if simulation.nimbus.status(topology_id) != "KILLED":
                simulation.nimbus.kill(simulation.nimbus.topology(topology_id).name, KILL_S)
        if simulation.world.topologies:
            self._clock.sleep(KILL_S + SETTLE_S)
        simulation.close_lines()

    def collect(self, folder: Path, machines: Sequence[str]) -> Collection:
        for name in machines:
            for path in self.simulation.files_of(name):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._folder / path, folder / path)
        if "master" in machines:
            for flux in self._folder.glob("topology*.yaml"):
                shutil.copy(flux, folder)
            copy_regular(self.simulation.state.log_path, folder / "decisions.jsonl")
            logs = folder / "logs" / "master"
            logs.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps(event) + "\n" for event in self.simulation.bridge.events)
            (logs / "bridge.jsonl").write_text("".join(lines), encoding="utf-8")
            if self.simulation.watch.hang:  # reported in this record, so that the next attempt runs the policy again
                shutil.move(self._folder / HANG_FILE, logs)
        return Collection(() if (folder / "workers").exists() else (NO_SAMPLES,))

    def clock_offsets_ms(self, machines: Sequence[str], now: Callable[[], float]) -> Mapping[str, ClockOffset | None]:
        """Return the one offset of all clocks, from which the run's own may have been shifted."""
        ahead_ms = (now() - self._clock.unshifted()) * 1000
        return {name: ClockOffset(-ahead_ms, 0.0) for name in machines}

    def silent_machines(self) -> tuple[str, ...]:
        world = self.simulation.world
        return tuple(each.name for each in world.machines if not self.simulation.load(each.name).is_alive)

    def machine_faults(self, since_s: float, reporting: int | None) -> Mapping[str, str]:  # noqa: ARG002 - the contract's
        return {}

    def recalled(self) -> tuple[str, ...]:
        return self._supply.recalled() if self._supply is not None else ()

    def make_whole(self) -> bool:
        """Return True: the next run begins with machines of its own."""
        return True

    def facts(self) -> ClusterFacts:
        starting = self._experiment.starting()
        names = dict.fromkeys((*self._types, *sorted(self._booted)))
        machines = {name: machine_facts(self._type(name), name not in starting) for name in names}
        return ClusterFacts(machines, {"storm": "none: simulated"}, simulated_facts(self._testbed))


def hang_text(folder: Path) -> str:
    """Return the text about a policy that hung on the simulated cluster in this folder; empty if there is none."""
    try:
        text = (folder / HANG_FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return text if hang_of(text) else ""


def attempt_isolated(work: Callable[[], Answer], limit_s: float, folder: Path) -> Answer | Death:
    """Return the result of `work`, which attempts a run on the simulated cluster in this folder, in a process of its
    own. A policy that hung has ended with that process, and the run is attempted again: everything may have been
    stopped for as long. If it hung twice the last attempt finds the reason, and its record reports it."""
    answer = run_isolated(work, limit_s)
    if isinstance(answer, Death) and hang_text(folder):
        (folder / HANG_FILE).unlink()
        answer = run_isolated(work, limit_s)
    return run_isolated(work, limit_s) if isinstance(answer, Death) and hang_text(folder) else answer


def copy_regular(log: Path, copy: Path) -> None:
    """Copy a log; empty where there is none. A commit's service may put anything in its place: a link would be read
    with our rights, and a pipe would block."""
    try:
        file = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        copy.touch()
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RunBroken(f"the policy service has put a link in the place of its {log.name}") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise RunBroken(f"the policy service has put something else than a file in the place of its {log.name}")
        with open(file, "rb", closefd=False) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
    finally:
        os.close(file)


def simulated_facts(testbed: SimulatedTestbed) -> dict[str, object]:
    """Return the record's facts about the simulation."""
    options = testbed.options.model_dump(exclude={"costs"})
    return {"simulated": {**options, "model": model_sha256(), "costs": asdict(testbed.costs)}}


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


def start_of(rounds: Sequence[Mapping[str, Any]], names: Sequence[str], run: Mapping[str, Any]) -> RecordedStart:
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
