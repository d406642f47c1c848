"""Storm on machines that mount nothing and are not ours: delivered, run, extended by one, changed, and gone again."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from barograph.code.build import storm_home_of
from barograph.errors import ConfigurationError
from barograph.policy_service import HttpService
from barograph.run import storm_cluster
from barograph.software import storm_home
from inventory.existing.testbed import ExistingTestbed
from inventory.leases import registry
from inventory.local import lan
from inventory.machines import MACHINE_TYPES, Machine, MachineRequest
from inventory.remote.ansible_inventory import write_ansible_inventory
from playbooks import cluster
from playbooks.storm_home import assemble
from tests.support.existing.lab import USER, Lab, lab
from tests.support.repositories import Repository, resolve_ref
from tests.support.short_folder import short_folder
from topologies import catalogue

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]

# Delivering, unpacking and starting wait for the quota: as much as three of them can have on two cores.
CORES = 0.6
MASTER = replace(MACHINE_TYPES["master"], cores=CORES)
WORKER = replace(MACHINE_TYPES["type_1"], cores=CORES, memory_mb=768, slots=2)
WANTED = [MachineRequest("master", MASTER), MachineRequest("m1", WORKER)]
OURS = (
    "/etc/barograph", "/var/lib/barograph", "/var/log/barograph", "/var/lib/barograph-guard",
    "/etc/supervisor/conf.d/barograph.conf", "/opt/barograph/homes", "/opt/barograph/parcels",
)  # fmt: skip
LATER = [MachineRequest("m2", WORKER)]
NIMBUS = "org.apache.storm.daemon.nimbus.Nimbus"
STORM, HOMES = "/opt/barograph/storm", "/opt/barograph/homes"
THEIRS = """package theirs;
public class Theirs extends org.apache.storm.scheduler.EvenScheduler {}
"""


@dataclass
class Borrowed:
    """A cluster on machines of the lab."""

    there: Lab
    testbed: ExistingTestbed
    lease: registry.Lease
    machines: tuple[Machine, ...]
    home: Path
    directory: Path

    @property
    def inventory(self) -> Path:
        """Of the machines that are there now."""
        groups = {"master": ["master"], "workers": ["m1", "m2"], "joining": ["m2"]}
        return write_ansible_inventory(self.machines, groups, self.directory / "inventory.yaml")

    def deploy(self) -> int:
        cluster.certificate(self.inventory, self.directory)
        return cluster.deploy(self.inventory, self.directory, self.home).changed

    def pid(self, machine: str, program: str) -> str:
        return self.there.sh(machine, f"supervisorctl pid {program}").strip()

    def pids(self) -> dict[str, str]:
        programs = {"zookeeper": "master", "nimbus": "master", "policy-service": "master", "supervisor": "m1"}
        return {program: self.pid(machine, program) for program, machine in programs.items()}

    def homes(self) -> dict[str, str]:
        """What each machine runs."""
        return {name: self.there.sh(name, f"basename $(readlink {STORM})").strip() for name in ("master", "m1")}

    def measure(self, run_id: str, folder: Path) -> None:
        """A topology until a worker reports, and its end."""
        cluster.reset(self.inventory, self.directory, run_id)
        (folder / "topology.yaml").write_text(catalogue.render("star", {}, {"workers": 2}))
        cluster.submit(self.inventory, self.directory, run_id, folder / "topology.yaml")
        look = "cat /var/log/barograph/workers/*.avro"
        wait = f"for _ in $(seq 240); do {look} 2>/dev/null | grep -q . && break; sleep 1; done"
        assert "star-" in self.there.sh("m1", f"timeout 55 sh -c '{wait}'; {look} | grep -ao star-")
        cluster.kill(self.inventory, self.directory, run_id)


@pytest.fixture(scope="module")
def borrowed() -> Iterator[Borrowed]:
    with short_folder() as folder, pytest.MonkeyPatch.context() as patch:
        home = folder / "homes" / (built := storm_home(print)).name
        home.parent.mkdir()
        shutil.copytree(built, home)
        patch.setenv(lan.CONTROL[0], "10.219.0.0/24")
        patch.setenv(lan.EXPERIMENT[0], "10.220.0.0/24")
        patch.setenv("BAROGRAPH_STATE", str(folder / "state"))
        with lab(folder / "lab", [*WANTED, *LATER]) as there:
            testbed = there.testbed()
            lease = registry.take("borrower", "series", "existing", 3600, site=testbed.site())
            try:
                machines = testbed.acquire(lease, WANTED)
                yield Borrowed(there, testbed, lease, machines, home, folder / "cluster")
            finally:
                testbed.release(lease)
                registry.drop(lease)


def test_the_machines_are_what_they_are_and_ours_for_now(borrowed: Borrowed) -> None:
    assert [(m.name, m.type.cores, m.type.memory_mb, m.ssh_user) for m in borrowed.machines] == [
        ("master", CORES, MASTER.memory_mb, USER), ("m1", CORES, WORKER.memory_mb, USER),
    ]  # fmt: skip
    assert borrowed.lease.lease_id in borrowed.there.sh("m1", "cat /var/lib/barograph-guard/lease.json")
    assert borrowed.there.sh("m1", "pgrep -f [b]arograph-guard") != ""


@pytest.fixture(scope="module")
def delivered(borrowed: Borrowed) -> Borrowed:
    """With Storm on it: `deploy` returns when Nimbus has the supervisors."""
    assert borrowed.deploy() > 0
    return borrowed


def test_storm_is_delivered_and_runs(delivered: Borrowed) -> None:
    for name in ("master", "m1"):
        assert delivered.there.sh(name, "stat -c '%a %U' /etc/barograph/token").split() == ["640", "storm"]
        key = "setpriv --reuid storm --regid storm --init-groups cat /etc/barograph/service.key 2>&1"
        assert "ermission denied" in delivered.there.sh(name, key) or name != "master"
        assert "https://" in delivered.there.sh(name, "cat /etc/barograph/storm/storm.yaml")
        assert "10.220.0." in delivered.there.sh(name, "getent hosts master")
        assert delivered.there.sh(name, "pgrep -f [s]erve_forever") == ""
    archive = delivered.there.sh("m1", "ls /opt/barograph/storm/cds").split()
    assert "worker.jsa" in archive, "the machines have the very Java that made the class data"
    assert delivered.deploy() == 0


def test_a_worker_starts_from_the_delivered_home(delivered: Borrowed, tmp_path: Path) -> None:
    delivered.measure("r1", tmp_path)


def test_a_runs_own_code_is_delivered_to_nimbus_and_the_next_run_has_the_old(
    delivered: Borrowed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.code.git.barograph_home", lambda: tmp_path)
    theirs = Repository.at(tmp_path / "theirs")
    build = (
        f"mkdir classes && javac -cp '{storm_home(print)}/lib/*' -d classes Theirs.java"
        " && jar cf theirs.jar -C classes ."
    )
    theirs.commit({"Theirs.java": THEIRS, "build.sh": build})
    code = resolve_ref("main", str(theirs.folder))
    code = replace(code, build=("sh", "build.sh"), jar="theirs.jar", scheduler="theirs.Theirs")
    master = next(machine for machine in delivered.machines if machine.name == "master")
    service = HttpService(master.control_address, delivered.directory / "token")
    storm_cluster.note_deployment(delivered.directory, delivered.home)
    first, inode = delivered.pids(), f"stat -c %i {HOMES}/{delivered.home.name}"
    unpacked = delivered.there.sh("master", inode)

    storm_cluster.switch_code(delivered.inventory, delivered.directory, code)
    other = delivered.pids()
    assert {name for name in first if first[name] != other[name]} == {"nimbus"}
    own = storm_home_of(code, delivered.home, print).name
    assert delivered.homes() == {"master": own, "m1": delivered.home.name} and own != delivered.home.name
    assert delivered.there.sh("master", f"ls {STORM}/foreign").split() == ["theirs.jar"]
    service.configure("r2", "foreign", {"scheduler": code.scheduler}, 1, 60.0)
    delivered.measure("r2", tmp_path)

    storm_cluster.switch_code(delivered.inventory, delivered.directory, None)
    back = delivered.pids()
    assert {name for name in first if other[name] != back[name]} == {"nimbus"}
    assert set(delivered.homes().values()) == {delivered.home.name}
    assert delivered.there.sh("master", inode) == unpacked, "what the machine has is not sent again"
    service.configure("r3", "even", {}, 1, 60.0)


@contextmanager
def somebodys_nimbus(there: Lab, machine: str) -> Iterator[str]:
    """The number of a process that looks like Nimbus, of another user and on one of its ports."""
    listens = "import socket, time; s = socket.create_server(('0.0.0.0', 6627)); time.sleep(900)"
    command = f'python3 -c "{listens}" {NIMBUS}'
    pid = there.sh(
        machine, f"setsid setpriv --reuid nobody --clear-groups {command} >/dev/null 2>&1 </dev/null & echo $!"
    )
    there.sh(machine, "for _ in $(seq 50); do ss -Hltn | grep -q :6627 && break; sleep 0.1; done")
    try:
        yield pid.strip()
    finally:
        there.sh(machine, f"kill -9 {pid}")


def test_a_machine_that_runs_somebodys_storm_is_refused_and_what_runs_is_left(delivered: Borrowed) -> None:
    with somebodys_nimbus(delivered.there, "m2") as pid:
        said = rf"process {pid} of user nobody is somebody's {NIMBUS} \(ports 6627\); stop it, or name another machine"
        with pytest.raises(ConfigurationError, match=said):
            delivered.testbed.grow(delivered.lease, LATER)
        assert delivered.there.sh("m2", f"kill -0 {pid} && echo runs").strip() == "runs"
        assert delivered.there.sh("m2", "ls -d /var/lib/barograph-guard/lease.json 2>/dev/null") == ""


def test_a_machine_with_an_account_called_as_ours_is_refused(delivered: Borrowed) -> None:
    delivered.there.sh("m2", "useradd --create-home storm")
    try:
        with pytest.raises(ConfigurationError, match=r"user or group 'storm' \(number \d+, home /home/storm\) that"):
            delivered.testbed.grow(delivered.lease, LATER)
    finally:
        delivered.there.sh("m2", "userdel --remove storm")


def test_a_machine_comes_while_the_cluster_runs(delivered: Borrowed) -> None:
    before = {name: delivered.pid(name, program) for name, program in (("master", "nimbus"), ("m1", "supervisor"))}
    delivered.machines = (*delivered.machines, *delivered.testbed.grow(delivered.lease, LATER))
    extended = cluster.extend(delivered.inventory, delivered.directory, ["m2"], delivered.home)
    sent = [one.outcome for one in extended.tasks if one.task.endswith("Copy the Storm home to the master")]
    assert sent == ["skipped"], "the master has kept what it hands on"
    for name in ("master", "m1", "m2"):
        assert "10.220.0." in delivered.there.sh(name, "getent hosts m2")
    assert "STOPPED" in delivered.there.sh("m2", "supervisorctl status supervisor")
    cluster.join(delivered.inventory, delivered.directory, "r1")
    assert before == {"master": delivered.pid("master", "nimbus"), "m1": delivered.pid("m1", "supervisor")}


def test_a_home_without_class_data_replaces_it_and_the_daemons_restart(delivered: Borrowed) -> None:
    before = delivered.pid("m1", "supervisor")
    (jar,) = (delivered.home / "extlib-daemon").glob("*.jar")
    plain = delivered.home.with_name("plain")
    shutil.copytree(delivered.home, plain)
    shutil.rmtree(plain / "cds")
    (plain / "cds").mkdir()
    delivered.home = assemble.complete_home(plain, None, [jar], delivered.home.parent)
    assert delivered.deploy() > 0
    assert delivered.pid("m1", "supervisor") != before
    assert delivered.there.sh("m1", "ls /opt/barograph/storm/cds") == ""


def test_nothing_of_ours_is_left_and_all_of_others(delivered: Borrowed) -> None:
    assert "drop" in delivered.there.sh("m1", "nft list table inet barograph")
    theirs = "sh -c 'sleep 900; :' org.apache.storm.daemon.worker.Worker /opt/barograph/theirs"
    as_user, quiet = "setsid setpriv --reuid {0} --regid {0} --clear-groups", ">/dev/null 2>&1 </dev/null"
    begins = f"{as_user.format('www-data')} {theirs} {quiet} &"
    forks = f"{as_user.format('storm')} sh -c 'setsid sh -c \"exec sleep 901\" & touch /tmp/left' {quiet}"
    delivered.there.sh("m1", f"nft add table inet theirs; {begins} {forks}")
    assert delivered.there.sh("m1", "pgrep -f '[s]leep 901'") != "", "it has left its parent"
    delivered.testbed.release(delivered.lease)
    assert delivered.there.sh("m1", "pgrep -f '[o]rg.apache.storm.daemon.worker.Worker'") != ""
    assert delivered.there.sh("m1", "pgrep -f '[s]leep 901'; ls -d /tmp/left 2>/dev/null") == ""
    assert delivered.there.sh("m1", "nft list tables").splitlines() == ["table inet theirs"]
    for name in (machine.name for machine in delivered.machines):
        assert delivered.there.sh(name, f"ls -d {' '.join(OURS)} 2>/dev/null") == ""
        assert delivered.there.sh(name, "pgrep -x java") == ""
        assert delivered.there.sh(name, "cat /etc/hosts").splitlines() == ["127.0.0.1 localhost", f"127.0.1.1 {name}"]
