"""Storm on acquired machines, through the playbooks; holds no decisions."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dags.checks import machine_requests
from dags.experiment import Experiment
from dags.places import cluster_dir
from dags.plan import PlannedRun
from dags.series import Series
from dags.software import storm_home
from dags.steps import machines as machines_of
from dags.steps import run_code, tenure
from dags.steps.box_facts import box_facts, versions
from dags.steps.ports import ClusterFacts, Collected
from dags.testbeds import testbed_of
from inventory.ansible_inventory import write
from inventory.machines import Machine, MachineType
from inventory.testbed import Faulting
from playbooks import cluster

log = logging.getLogger(__name__)
BANNER_S = 3.0


@dataclass(frozen=True)
class StormCluster:
    """The machines of one lease; `inventory` and `directory` as `playbooks.cluster` wants them."""

    series: Series
    directory: Path

    @classmethod
    def of(cls, series: Series) -> StormCluster:
        """The cluster on the machines that the series holds. Raises NoMachines."""
        tenure.machines_held(series.folder)
        lease = tenure.saved_lease(series.folder)
        assert lease is not None, "machines_held has found it"
        made = cls(series, cluster_dir(lease.lease_id))
        made._describe()
        return made

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Those that the series holds now: they come and go during a run."""
        return tenure.machines_held(self.series.folder)

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory.yml"

    @property
    def master(self) -> Machine:
        return self.machine("master")

    def machine(self, name: str) -> Machine:
        return next(machine for machine in self.machines if machine.name == name)

    @property
    def token_file(self) -> Path:
        return self.directory / "token"

    def deploy(self) -> None:
        home = storm_home(log.info)
        cluster.deploy(self.inventory, self.directory, home, {})
        run_code.deployed(self.directory, home)

    def reset(self, run: PlannedRun) -> None:
        if any(variant.code is not None for variant in self.series.experiment.variants):
            run_code.use(self.inventory, self.directory, run.variant.code)
        cluster.reset(self.inventory, self.directory, run.run_id)

    def submit(self, run: PlannedRun) -> None:
        flux = self.series.run_folder(run.run_id) / "topology.yaml"
        flux.write_text(render(self.series.experiment, run.seed), encoding="utf-8")
        cluster.submit(self.inventory, self.directory, run.run_id, flux)

    def join(self, machines: Sequence[str]) -> None:
        cluster.join(self.inventory, self.directory, self.series.series_id, machines=machines)

    def grow(self, machines: Sequence[str]) -> Mapping[str, float | None]:
        new = machines_of.grow(self.series, machines)
        self._describe()
        home = run_code.base_home(self.directory) or storm_home(log.info)
        cluster.extend(self.inventory, self.directory, machines, home)
        return {machine.name: machine.boot_s for machine in new}

    def leave(self, machines: Sequence[str]) -> None:
        cluster.leave(self.inventory, self.directory, machines)

    def give_back(self, machines: Sequence[str]) -> bool:
        given = machines_of.give_back(self.series, machines)
        self._describe()
        return given

    def crash(self, machine: str) -> None:
        self._faulting().crash(self.machine(machine))

    def restart(self, machine: str) -> None:
        self._faulting().restart(self.machine(machine))
        cluster.revive(self.inventory, self.directory, machine)

    def stop(self) -> None:
        cluster.kill(self.inventory, self.directory, self.series.series_id)

    def collect(self, folder: Path, machines: Sequence[str]) -> Collected:
        got = cluster.collect(self.inventory, self.directory, folder.name, folder, machines=machines)
        return Collected(got.missing, got.clock_offset_ms)

    def silent_machines(self) -> tuple[str, ...]:
        return tuple(machine.name for machine in self.machines if not _greets(machine))

    def recalled(self) -> tuple[str, ...]:
        return machines_of.recalled(self.series)

    def make_whole(self) -> bool:
        """Where machines cannot be replaced, one that is only silent may come back: the reset will say."""
        wanted = {"master", *self.series.experiment.acquired()}
        missing = wanted - {machine.name for machine in self.machines}
        lost = wanted & {*missing, *self.recalled()}
        if machines_of.can_replace(self.series):
            lost |= wanted & set(self.silent_machines())
        if lost and not machines_of.replace(self.series, lost):
            return False
        if lost:
            self._describe()
            self.deploy()
        return True

    def facts(self) -> ClusterFacts:
        """Of every worker that will take part: one that boots at its event is what was asked for."""
        starting = self.series.experiment.starting()
        asked = {request.name: request.type for request in machine_requests(self.series.experiment)[1:]}
        types = asked | {machine.name: machine.type for machine in self.machines if machine.name in asked}
        machines = {name: _facts(type, name not in starting) for name, type in types.items()}
        return ClusterFacts(machines, versions(), box_facts())

    def _describe(self) -> None:
        """The inventory of the machines that are there."""
        held = self.machines
        there = {machine.name for machine in held}
        mine = {
            group: [name for name in names if name in there] for group, names in groups(self.series.experiment).items()
        }
        write(held, mine, self.inventory)

    def _faulting(self) -> Faulting:
        testbed = testbed_of(self.series.experiment.testbed)
        assert isinstance(testbed, Faulting), "checked before anything was started"
        return testbed


def render(experiment: Experiment, seed: int) -> str:
    """The Flux YAML of a run: the experiment's parameters and the block's seed."""
    from topologies import catalogue

    chosen = experiment.topology
    parameters = dict(chosen.parameters)
    if "seed" in catalogue.read(chosen.name).parameters:
        parameters.setdefault("seed", seed)
    return catalogue.render(chosen.name, parameters, chosen.overrides)


def groups(experiment: Experiment) -> dict[str, list[str]]:
    """The Ansible groups; `joining` is a part of `workers`."""
    workers = list(experiment.workers())
    return {"master": ["master"], "workers": workers, "joining": workers[experiment.machines.before :]}


def _facts(given: MachineType, joins: bool) -> Mapping[str, object]:
    sizes = {"cores": given.cores, "memory_mb": given.memory_mb, "bandwidth_mbit": given.bandwidth_mbit}
    return {"type": given.name, **sizes, "slots": given.slots, "joins_at_scale": joins}


def _greets(machine: Machine) -> bool:
    """A machine that is frozen still accepts connections: only one that speaks is alive."""
    try:
        with socket.create_connection((machine.control_address, machine.ssh_port), timeout=BANNER_S) as connection:
            return connection.recv(4).startswith(b"SSH-")
    except OSError:
        return False
