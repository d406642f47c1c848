"""One run's simulated cluster in time: the world of machines and tuples, a Nimbus with the bridge, and the real policy
service in process, on one clock. Lines of workers and probes go to the service and into files at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from analysis.record import worker_files
from barograph.plan.experiment import Code
from barograph.policy_service import ServiceClient, ServiceRefused
from barograph.run.code_service import CodeService
from inventory.simulated import SimulatedOptions
from scheduler_plugins.driver.cluster import Supervisor
from scheduler_plugins.driver.nimbus import Nimbus, NimbusSettings
from scheduler_plugins.driver.rounds import ServiceInProcess, bridge_in
from scheduler_plugins.model import Topology
from scheduler_plugins.service.messages import MessageError
from scheduler_plugins.service.policy_call import (
    HANG_FILE,
    HANG_S,
    HangWatch,
    Outcome,
    Postponement,
    Round,
    TimedDecisions,
)
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.server import CALLS
from scheduler_plugins.service.state import ServiceState
from scheduler_plugins.simulator.lines import Line, MachineLines, WorkerLines
from scheduler_plugins.simulator.work import Costs, Load, MachineSize, SimulatedTopology
from scheduler_plugins.simulator.world import Assignment, Sample, World

BEGIN_S = 1_767_225_600.0  # 2026-01-01, 0:00 UTC: no record says when it was simulated


@dataclass
class SimulatedClock:
    """A clock of simulated time. `pace` is how many real seconds a second takes, `tick_s` how often actions of each
    second are done. `advance` lets the cluster's time pass, up to that time."""

    time_s: float = BEGIN_S
    pace: float = 0.0
    shift_s: float = 0.0
    tick_s: float = 1.0
    advance: Callable[[float], None] = lambda _until_s: None
    _each_second: list[Callable[[], None]] = field(default_factory=list)

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        end_s = self.time_s + seconds
        while self._each_second and end_s - self.time_s > self.tick_s:
            self._pass(self.tick_s)
            for action in self._each_second:
                action()
        self._pass(end_s - self.time_s)
        for action in self._each_second:
            action()

    def _pass(self, seconds: float) -> None:
        if self.pace:
            time.sleep(seconds * self.pace)
        self.time_s += seconds
        self.advance(self.unshifted())

    @contextmanager
    def each_second(self, action: Callable[[], None]) -> Iterator[None]:
        self._each_second.append(action)
        try:
            yield
        finally:
            self._each_second.remove(action)

    def restart(self) -> None:
        self.shift(-self.shift_s)

    def shift(self, seconds: float) -> None:
        self.time_s += seconds
        self.shift_s += seconds

    def unshifted(self) -> float:
        """Return the time as it would be without any shift."""
        return self.time_s - self.shift_s


class InProcessService(ServiceClient):
    """A client in process. `state` returns the service's state: a cluster in memory may have another one in each run,
    or another code's.
    """

    def __init__(self, state: Callable[[], ServiceState | CodeService]) -> None:
        self._state = state

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        state = self._state()
        if isinstance(state, CodeService):
            return state.call(path, body)
        answer = CALLS["GET" if body is None else "POST", path]
        try:
            return answer(state, json.dumps(body).encode(), {})
        except CallRefusal as refused:
            raise _refusal(path, refused.status, str(refused)) from refused
        except (MessageError, ValueError, KeyError, TypeError) as error:
            raise _refusal(path, 400, f"{type(error).__name__}: {error}") from error


def _refusal(path: str, status: int, why: str) -> ServiceRefused:
    return ServiceRefused(f"{path} of the policy service answered {status}: {json.dumps({'error': why})}")


MOST_TRIES, AGAIN_S = 600, 0.1


class PatientDecisions:
    """Run policies with the service's own limits, in time of the box. One without CPU time is run again: the load of
    this box must not affect the simulation."""

    def __init__(self, watch: HangWatch) -> None:
        self._timed = TimedDecisions(watch=watch)

    def decide(self, round: Round) -> Outcome:
        outcome = self._timed.decide(round)
        for _ in range(MOST_TRIES):
            if not isinstance(outcome, Postponement):
                break
            time.sleep(AGAIN_S)  # not to take the awaited policy's CPU
            outcome = self._timed.decide(round)
        return outcome  # an outcome postponed to the end counts for nobody, as in front of Nimbus


FIRST_PORT = 6700
MOST_UNWRITTEN = 20_000  # lines kept in memory
SEEDS = 1_000_003  # combines a run's seed and that of the testbed's options


class Simulation:
    """A run's simulation. `folder`: for all files, empty at the beginning. `now`: simulated epoch seconds. `code`: of
    the policy service that decides, None: that of the work tree."""

    def __init__(
        self,
        machines: Sequence[MachineSize],
        costs: Costs,
        options: SimulatedOptions,
        folder: Path,
        now: float,
        seed: int,
        code: Code | None = None,
    ) -> None:
        self.folder = folder
        self._files = SampleFiles(folder)
        self.watch = HangWatch(folder / HANG_FILE, HANG_S)  # a commit's service has its own process
        self.nimbus = Nimbus(NimbusSettings(monitor_s=options.round_s), start_s=now)
        self.state: ServiceState | CodeService
        if code is None:
            self.state = ServiceState(folder, self.nimbus.clock, options.sample_s, is_simulated=True)
            self.bridge = bridge_in(self.nimbus, ServiceInProcess(self.state, PatientDecisions(self.watch).decide))
        else:
            self.state = CodeService(code, folder, self.nimbus.clock, options.sample_s)
            self.bridge = bridge_in(self.nimbus, self.state)

        def due(topology_id: str, component: str, from_s: float, until_s: float) -> float:
            return self.state.due_seconds(self.world.topologies[topology_id].work.name, component, from_s, until_s)

        self.world = World(
            list(machines), costs, now, seed + SEEDS * options.seed, options.step_s, float(options.sample_s), due
        )
        self.silent: set[str] = set()  # machines whose samples do not reach the service
        self.absent: set[str] = set()  # given back to the testbed, or never added
        self.submitted = 0  # topologies
        self.supervisor_ids: Mapping[str, str] = {}  # by machine, from a recorded run; others are drawn
        self._id_seed = options.seed
        self._workers = WorkerLines(float(options.sample_s))
        self._machines = MachineLines(float(options.sample_s))

    def advance(self, until_s: float) -> None:
        """Let simulated time pass."""
        while True:
            t = min(until_s, max(self.nimbus.next_s, self.world.now))
            self.world.advance(t, self._take)
            self._apply(t)
            if t >= until_s:
                return

    def _apply(self, t: float) -> None:
        """Apply Nimbus' changes until now. Workers of a topology that it has forgotten end."""
        for change in self.nimbus.advance(t):
            if change.topology_id in self.nimbus.topology_ids():
                components = self.nimbus.topology(change.topology_id).components
                executors = {component.name: len(component.executors) for component in components}
                ranges = ((range(first, last + 1), slot) for (first, last), slot in change.after.items())
                placement = {task: slot for tasks, slot in ranges for task in tasks}
                self.world.assign(change.topology_id, Assignment(executors, placement))
        topology_ids = self.nimbus.topology_ids()
        for topology_id, deployment in list(self.world.topologies.items()):
            if topology_id not in topology_ids:
                self.world.kill(topology_id)
                continue
            is_paused = self.nimbus.status(topology_id) != "ACTIVE"
            if deployment.is_paused != is_paused:
                self.world.pause(topology_id, is_paused)

    # Output

    def _take(self, sample: Sample) -> None:
        self._note(self._workers.take(sample))
        machines = self.world.machines[: len(sample.machines.cpu_s)]  # a new machine has counted nothing
        cores = {each.name: each.cores * self.load(each.name).speed for each in machines if self.is_up(each.name)}
        lines = self._machines.take(sample, cores, [each.name for each in machines])
        self._files.add_machines(lines)
        self.state.take_machine_samples(line for line in lines if line["machine"] not in self.silent)

    def _note(self, lines: Sequence[Line]) -> None:
        self._files.add_workers(lines)
        self.state.take_samples([line for line in lines if line["machine"] not in self.silent])

    def close_lines(self) -> None:
        """Write the last lines of workers that have ended."""
        if not self.world.topologies:
            self._note(self._workers.end())

    def files_of(self, machine: str) -> Sequence[Path]:
        """Return the files on a machine's disk: paths in a record, which are those in `folder`."""
        return self._files.of(machine)

    # Machines and topologies

    def load(self, machine: str) -> Load:
        return self.world.load(machine)

    def is_up(self, machine: str) -> bool:
        return machine not in self.absent and self.load(machine).is_alive

    def register(self, machine: str) -> None:
        """Start its supervisor, which registers with Nimbus."""
        size = next(each for each in self.world.machines if each.name == machine)
        ports = tuple(range(FIRST_PORT, FIRST_PORT + size.slots))
        supervisor_id = self.supervisor_ids.get(machine) or drawn_id(self._id_seed, machine)
        self.nimbus.machine_up(Supervisor(machine, supervisor_id, ports))

    def is_registered(self, machine: str) -> bool:
        return any(each.name == machine and each.alive for each in self.nimbus.cluster().supervisors)

    def submit(self, topology: Topology, work: SimulatedTopology, *, has_traffic: bool) -> None:
        if has_traffic:
            self._workers.traced.add(topology.topology_id)
        self.world.submit(topology.topology_id, work)
        self.nimbus.submit(topology)
        self.submitted += 1

    def close(self) -> None:
        """Close the policy service, which nobody uses any more."""
        if isinstance(self.state, CodeService):
            self.state.close()


def drawn_id(seed: int, machine: str) -> str:
    """Return a supervisor's id, the same in all runs with the seed. Nimbus goes through machines in the order of these,
    which Storm draws on each machine: one that joins is rarely the last, so that most workers have others after a
    rebalance.
    """
    return str(UUID(int=Random(f"{seed} {machine}").getrandbits(128)))


class SampleFiles:
    """The files of workers and probes, written to disk as they grow: a run of two days does not fit into memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("workers", "machines"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._names: dict[tuple[str, int, int], str] = {}  # machine, port and process → file
        self._taken: set[str] = set()  # these files
        self._unwritten: dict[str, list[bytes]] = {}  # by path in a record
        self._lines = 0  # in `_unwritten`

    def add_workers(self, lines: Iterable[Line]) -> None:
        for line in lines:
            process = (line["machine"], line["port"], line["pid"])
            if process not in self._names:
                since_ms = round((line["t"] - line["dt_s"]) * 1000)  # its begin; later where such a file exists
                while (name := f"{line['machine']}-{line['port']}-{since_ms}{worker_files.SUFFIX}") in self._taken:
                    since_ms += 1
                self._taken.add(name)
                self._names[process] = name
                self._add(f"workers/{name}", worker_files.header() + worker_files.MARKER)
            self._add(f"workers/{self._names[process]}", worker_files.block(line) + worker_files.MARKER)

    def add_machines(self, lines: Iterable[Mapping[str, Any]]) -> None:
        for line in lines:
            text = json.dumps(line, separators=(",", ":")) + "\n"
            self._add(f"machines/{line['machine']}.jsonl", text.encode())

    def _add(self, path: str, part: bytes) -> None:
        self._unwritten.setdefault(path, []).append(part)
        self._lines += 1
        if self._lines >= MOST_UNWRITTEN:
            self._write()

    def _write(self) -> None:
        for path, parts in self._unwritten.items():
            with (self._folder / path).open("ab") as file:
                file.write(b"".join(parts))
        self._unwritten, self._lines = {}, 0

    def of(self, machine: str) -> Sequence[Path]:
        self._write()
        names = [Path("workers", name) for (owner, *_), name in self._names.items() if owner == machine]
        machine_file = Path("machines", f"{machine}.jsonl")
        return [*names, machine_file] if (self._folder / machine_file).exists() else names
