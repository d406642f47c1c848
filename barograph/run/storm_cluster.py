"""Storm on acquired machines, through the playbooks, and the code that schedules there: deploy installs the harness's
own, and between two runs it may be switched. Holds no decisions.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.record.files import read_json, read_json_or_none, write_json_atomic
from barograph.code.build import service_of, storm_home_of
from barograph.code.git import code_label
from barograph.errors import BarographError, ExperimentError, MachineLost, RunBroken
from barograph.machines import series_lease
from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import Disturbance, RunningWorker
from barograph.plan.experiment import Code, Experiment
from barograph.plan.topologies import TopologyChoice
from barograph.run.cluster import Cluster, ClusterFacts, Collection
from barograph.series.provenance import box_facts, versions
from barograph.series.run_record import read_run
from barograph.series.series import Series
from barograph.settings import cluster_dir
from barograph.software import libraries_folder, storm_home
from barograph.testbeds.checks import machine_requests, place_of, testbed_of
from inventory.machines import Machine, MachineType
from inventory.remote.ansible_inventory import write_ansible_inventory
from inventory.remote.ssh import answers_ssh, connect
from inventory.testbed import SupportsDisturbances, SupportsFaults
from playbooks import cluster
from playbooks.clock import ClockOffset
from playbooks.runner import StormRefused

log = logging.getLogger(__name__)
HOME_FILE = "home.json"  # in the cluster's folder: the deployed Storm home, whatever is built here later
CODE_FILE = "code.json"  # exists only while the master's code is known
SOFTWARE_FILE = "software.json"  # by machine, also of those that were given back
SOFTWARE = """. /etc/os-release; echo "$PRETTY_NAME"; uname -sr
dpkg-query -W -f '${Package} ${Version}\\n' 'openjdk-*-jre-headless' | grep ' .'"""
# The variant's code runs in none of these; Nimbus, where it does, is its own doing unless something killed it.
DAEMONS = ("supervisor", "zookeeper")
FAULTS = r"""
grep ' exited: ' /var/log/supervisor/supervisord.log | tail -n 20 | while read -r day time level _ name why; do
  [ "$(date -d "$day ${time%,*}" +%s)" -lt "$1" ] || echo "$name $why"
done
find /var/log/barograph/workers -name '*.avro' -newermt '-5 seconds' | wc -l"""
WORKER = r"^[^ ]*java .*org\.apache\.storm\.daemon\.worker\.Worker "  # a worker's process, by its command
WORKER_PORT = re.compile(r"-Dworker\.port=(\d+)")


def note_deployment(directory: Path, home: Path) -> None:
    """Record that the master has the harness's own code."""
    write_json_atomic(directory / HOME_FILE, {"home": str(home)})
    write_json_atomic(directory / CODE_FILE, _code_facts(home, None))


def base_home(directory: Path) -> Path | None:
    """Return the home that the cluster was deployed with; None before that."""
    document = read_json_or_none(directory / HOME_FILE)
    return Path(document["home"]) if document else None


def switch_code(inventory: Path, directory: Path, code: Code | None) -> None:
    """Let the run's code decide from now on; nothing is touched where it does already. None: the harness's own.

    Raises RunBroken where it does not start.
    """
    base = base_home(directory)
    assert base is not None, "a run before the cluster was deployed"
    home = storm_home_of(code, base, log.info) if code else base
    facts, record = _code_facts(home, code), directory / CODE_FILE
    if read_json_or_none(record) == facts:
        return
    record.unlink(missing_ok=True)
    try:
        cluster.switch(inventory, directory, home, service_of(code) if code else None)
    except StormRefused as error:
        raise RunBroken(f"{code_label(code) if code else 'the harness'}: {error}") from error
    write_json_atomic(record, facts)


def _code_facts(home: Path, code: Code | None) -> Mapping[str, Any]:
    """Return the facts of the code; a scheduler that is not ours is completely in its home."""
    return {"home": home.name, "service": code.commit if code and not code.scheduler else None}


BANNER_S = 3.0
SILENCE_LIMIT_S = 300.0  # a router that connects anew, a switch that starts
FIRST_PAUSE_S = 5.0  # twice as long each time


@dataclass(frozen=True)
class StormCluster:
    """The machines of one lease; `inventory` and `directory` as `playbooks.cluster` needs them."""

    series: Series
    directory: Path

    @classmethod
    def of(cls, series: Series) -> StormCluster:
        """The cluster on the machines that the series holds. Raises NoMachines."""
        series_lease.current_machines(series.folder)
        lease = series_lease.saved_lease(series.folder)
        assert lease is not None, "current_machines raises without a lease"
        storm = cls(series, cluster_dir(lease.lease_id))
        storm._describe()
        return storm

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Return the machines that the series holds now: they come and go during a run."""
        return series_lease.current_machines(self.series.folder)

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
        """Deploy. On this box nothing leaves it; elsewhere a token must not cross a network unencrypted. Raises
        ExperimentError where the machines are not those of earlier runs."""
        home = storm_home(log.info)
        if place_of(self.series.experiment.testbed) == "elsewhere":
            cluster.certificate(self.inventory, self.directory)
        if has_state(self.series.experiment):
            cluster.renew_redis_password(self.directory)
        cluster.deploy(self.inventory, self.directory, home, libraries=libraries_folder())
        note_deployment(self.directory, home)
        self._note_software()

    def _note_software(self) -> None:
        """Record what is on the machines. Raises ExperimentError where a machine of that name had something else in
        this series: an image or a package is newer, and the runs would not be comparable."""
        answers, file = self._ask(["sh", "-c", SOFTWARE]), self.directory / SOFTWARE_FILE
        images = {machine.name: machine.image for machine in self.machines}
        software = {name: ", ".join(filter(None, (images[name], *text.splitlines()))) for name, text in answers.items()}
        record = read_json_or_none(file) or {}
        runs = [read_run(self.series.run_folder(run_id)) or {} for run_id in sorted(self.series.complete())]
        for earlier in [record, *(run.get("software", {}) for run in runs)]:
            if others := [name for name, text in software.items() if earlier.get(name, text) != text]:
                name = others[0]
                raise ExperimentError(
                    f"{name} has {software[name]}; in earlier runs of {self.series.folder} it had {earlier[name]}, so"
                    " the missing runs would not be comparable: start a new series with --new (in a trigger form:"
                    " series: new); on EC2 name the image by its id (testbed.options.ec2.image: ami-…)"
                )
        write_json_atomic(file, {**record, **software})

    def _ask(self, argv: Sequence[str]) -> Mapping[str, str]:
        """Return the output of this command on each machine."""

        def one(machine: Machine) -> str:
            with connect(machine) as remote:
                return remote.run(argv).stdout

        machines = self.machines
        with ThreadPoolExecutor(len(machines)) as pool:
            return dict(zip((machine.name for machine in machines), pool.map(one, machines), strict=True))

    def reset(self, run: PlannedRun) -> None:
        if any(variant.code is not None for variant in self.series.experiment.variants):
            switch_code(self.inventory, self.directory, run.variant.code)
        for event in self.series.experiment.events:  # a harness that died may have left them
            for names, disturbance in event.disturbances:
                self.end_disturbance(names, disturbance)
        if self.series.experiment.machines.limits is not None:  # machines of a policy, and of an interrupted run
            of_the_start = {"master", *self.series.experiment.acquired()}
            if others := [machine.name for machine in self.machines if machine.name not in of_the_start]:
                self.give_back(others)
        self._note_software()  # of a machine that replaced another, too, whatever became of its deploy
        cluster.reset(self.inventory, self.directory, run.run_id)

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        name = f"topology-{topology.name}.yaml" if self.series.experiment.topologies else "topology.yaml"
        flux = self.series.run_folder(run.run_id) / name
        flux.write_text(render_topology(topology, run.seed), encoding="utf-8")
        cluster.submit(self.inventory, self.directory, run.run_id, flux)

    def kill(self, topology: str) -> None:
        cluster.kill(self.inventory, self.directory, self.series.series_id, topology)

    def join(self, machines: Sequence[str]) -> None:
        cluster.join(self.inventory, self.directory, self.series.series_id, machines=machines)

    def grow(self, machines: Sequence[str]) -> Mapping[str, float | None]:
        new = series_lease.grow(self.series, machines)
        try:
            self._describe()
            home = base_home(self.directory) or storm_home(log.info)
            cluster.extend(self.inventory, self.directory, machines, home)
            self._note_software()
        except BaseException:  # an interrupt too: the caller has none of them then
            give_back_quietly(self, machines)
            raise
        return {machine.name: machine.boot_s for machine in new}

    def leave(self, machines: Sequence[str]) -> None:
        cluster.leave(self.inventory, self.directory, machines)

    def give_back(self, machines: Sequence[str]) -> bool:
        is_partial = series_lease.give_back(self.series, machines)
        self._describe()
        return is_partial

    def crash(self, machine: str) -> None:
        testbed = testbed_of(self.series.experiment.testbed)
        assert isinstance(testbed, SupportsFaults), "checked before anything was started"
        testbed.crash(self.machine(machine))

    def restart(self, machine: str) -> None:
        testbed = testbed_of(self.series.experiment.testbed)
        assert isinstance(testbed, SupportsFaults), "checked before anything was started"
        testbed.restart(self.machine(machine))
        cluster.revive(self.inventory, self.directory, machine)

    def disturb(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        testbed = testbed_of(self.series.experiment.testbed)
        assert isinstance(testbed, SupportsDisturbances), "checked before anything was started"
        for name in machines:
            testbed.disturb(self.machine(name), disturbance, self._others(name, machines, disturbance))

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        names = [machine.name for machine in self.machines if machine.name in machines]
        testbed, errors = testbed_of(self.series.experiment.testbed), []
        assert isinstance(testbed, SupportsDisturbances), "checked before anything was started"
        for name in names:  # even if others fail
            try:
                others = self._others(name, names, disturbance)
                testbed.end_disturbance(self.machine(name), disturbance, others)
            except BarographError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _others(self, name: str, machines: Sequence[str], disturbance: Disturbance) -> list[Machine]:
        if disturbance.kind == "sample_loss":
            return [self.master]
        return [self.machine(other) for other in machines if other != name]

    @contextmanager
    def worker_on(self, machine: str) -> Iterator[RunningWorker]:
        with connect(self.machine(machine)) as remote:
            worker = lowest_worker(remote.run(["pgrep", "-a", "-f", WORKER]).stdout)
            if worker is None:
                raise ExperimentError(f"no worker runs on {machine}: name another machine for the worker_crash")
            port, pid = worker

            def kill() -> None:
                if remote.run(["kill", "-9", pid]).code != 0:
                    raise ExperimentError(f"the worker in {machine}:{port} ended by itself before it could be killed")

            yield RunningWorker(f"{machine}:{port}", kill)

    def stop(self) -> None:
        cluster.kill(self.inventory, self.directory, self.series.series_id)

    def collect(self, folder: Path, machines: Sequence[str]) -> Collection:
        return Collection(
            cluster.collect(self.inventory, self.directory, folder.name, folder, machines=machines).missing
        )

    def clock_offsets_ms(self, machines: Sequence[str], now: Callable[[], float]) -> Mapping[str, ClockOffset | None]:
        return cluster.clock_offsets_ms(self.inventory, machines, now)

    def silent_machines(self) -> tuple[str, ...]:
        machines = self.machines
        with ThreadPoolExecutor(len(machines)) as pool:
            answers = pool.map(lambda machine: answers_ssh(machine, BANNER_S), machines)
            return tuple(machine.name for machine, answer in zip(machines, answers, strict=True) if not answer)

    def machine_faults(self, since_s: float, reporting: int | None) -> Mapping[str, str]:
        faults, writing = {}, 0
        for name, answer in self._ask(["sh", "-c", FAULTS, "faults", f"{since_s:.0f}"]).items():
            *ended, fresh = (line.split() for line in answer.splitlines())
            writing += int(fresh[0])
            for program, *why in ended:
                if program in DAEMONS or (program == "nimbus" and why[:2] == ["(terminated", "by"]):
                    faults[name] = f"{program} ended {' '.join(why)}"
        if reporting is not None and writing > reporting:
            faults["master"] = f"samples of {reporting} workers arrive, and {writing} write them"
        return faults

    def recalled(self) -> tuple[str, ...]:
        return series_lease.recalled(self.series)

    def make_whole(self) -> bool:
        """Replace machines. Silent ones may come back: they are waited for where nothing replaces them, or where nobody
        answers, for then it is the network."""
        needed = {"master", *self.series.experiment.acquired()}
        present = needed & {machine.name for machine in self.machines}
        losses = needed - present | needed & set(self.recalled())
        end_s, pause_s = time.monotonic() + SILENCE_LIMIT_S, FIRST_PAUSE_S
        while silent := present & set(self.silent_machines()):
            if silent < present and series_lease.can_replace(self.series):
                break
            if time.monotonic() >= end_s:
                if silent < present:
                    break
                raise MachineLost(
                    f"no machine has answered ssh for {SILENCE_LIMIT_S / 60:.0f} min, the master neither: the network"
                    " of this box or of the testbed is down, or all machines are gone; see to it, then run again to"
                    " resume"
                )
            log.warning("series %s: waiting for %s", self.series.series_id, ", ".join(sorted(silent)))
            with suppress(BarographError):  # lets this box in where its address is another one now (EC2)
                series_lease.prolong(self.series, self.series.experiment.lease_minutes)
            time.sleep(pause_s)
            pause_s *= 2
        losses |= silent
        if losses and not series_lease.replace(self.series, losses):
            return False
        if losses:
            self._describe()
            self.deploy()
        return True

    def facts(self) -> ClusterFacts:
        """Return facts of every participating worker; one that boots at its event is as requested."""
        starting = self.series.experiment.starting()
        requests = {request.name: request.type for request in machine_requests(self.series.experiment)[1:]}
        types = requests | {machine.name: machine.type for machine in self.machines if machine.name != "master"}
        machines = {name: machine_facts(type, name not in starting) for name, type in types.items()}
        home = base_home(self.directory)  # the work tree may be another by now
        deployed = {"storm": read_json(home / "VERSION")["storm"]} if home else {}
        software = read_json_or_none(self.directory / SOFTWARE_FILE) or {}
        distinct = {"machines": "; ".join(sorted(set(software.values())))} if software else {}
        return ClusterFacts(machines, versions() | deployed | distinct, box_facts(), software)

    def _describe(self) -> None:
        """Write the inventory of the current machines."""
        machines = self.machines
        machine_names = {machine.name for machine in machines}
        groups = {
            group: [name for name in names if name in machine_names]
            for group, names in ansible_groups(self.series.experiment, machine_names - {"master"}).items()
        }
        write_ansible_inventory(machines, groups, self.inventory)


def give_back_quietly(cluster: Cluster, machines: Sequence[str]) -> None:
    """Give machines back; errors are only logged: they must not hide why they are given back."""
    try:
        cluster.give_back(machines)
    except Exception:
        log.exception("%s are not given back; the lease's end does it", ", ".join(machines))


def lowest_worker(listed: str) -> tuple[int, str] | None:
    """Return port and pid of the worker with the lowest port, from lines `PID COMMAND`; None where there is none."""
    lines = [line for line in listed.splitlines() if re.match(rf"\d+ {WORKER[1:]}", line)]
    return min(((int(port), line.split()[0]) for line in lines for port in WORKER_PORT.findall(line)[:1]), default=None)


def render_topology(chosen: TopologyChoice, seed: int) -> str:
    """Return the Flux YAML of a run's topology: its parameters and the block's seed."""
    from topologies import catalogue

    parameters = dict(chosen.parameters)
    if "seed" in catalogue.read(chosen.file).parameters:
        parameters.setdefault("seed", seed)
    return catalogue.render(chosen.file, parameters, chosen.overrides, chosen.name)


def has_state(experiment: Experiment) -> bool:
    """Return whether a topology of any variant keeps state, for which the cluster has Redis."""
    from topologies import catalogue

    choices = [choice for variant in experiment.variants for choice in experiment.topologies_of(variant)]
    return any(
        catalogue.STATE in {*catalogue.settings(each.file), *each.overrides.get("config", ())} for each in choices
    )


def ansible_groups(experiment: Experiment, present: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the Ansible groups; `joining` is a part of `workers`. `present`: also workers that no plan knows."""
    workers = list(dict.fromkeys((*experiment.workers(), *sorted(present))))
    return {"master": ["master"], "workers": workers, "joining": workers[experiment.machines.before :]}


def machine_facts(type: MachineType, joins: bool) -> Mapping[str, object]:
    sizes = {"cores": type.cores, "memory_mb": type.memory_mb, "bandwidth_mbit": type.bandwidth_mbit or None}
    return {"type": type.name, **sizes, "slots": type.slots, "joins_at_scale": joins}
