"""The playbooks on real emulated machines: one cluster, in the order in which an experiment uses it."""

import hashlib
import json
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml

from barograph.policy_service import recovery_obstacle, scale_outcome
from playbooks import cluster
from playbooks.runner import MachineUnreachable, PlayFailed, StormRefused
from playbooks.storm_home import assemble
from scheduler_plugins.service.run_snapshot import RunSnapshot
from tests.integration.cluster_site import CORES, WORKERS, Site, seen, service
from tests.support import planted, worker_lines
from tests.support.stranger import everywhere, listening, places, stranger
from topologies import catalogue

pytestmark = pytest.mark.integration


def workers_of(site: Site, machine: str) -> list[str]:
    return site.run(machine, "pgrep", "-f", "[o]rg.apache.storm.daemon.worker.Worker").split()


def eventually(seen: Callable[[], bool], seconds: float = 120.0) -> bool:
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def submit(site: Site, folder: Path, text: str) -> None:
    (folder / "topology.yaml").write_text(text)
    cluster.submit(site.inventory, site.directory, "r1", folder / "topology.yaml")


def star() -> str:
    return catalogue.render("star", {}, {"workers": 4})


def works(state: RunSnapshot) -> bool:
    return state.all_placed() and state.workers_reporting == 4 and len(offered(state)) == 5


def offered(state: RunSnapshot) -> list[float]:
    """Return the tuples that were due in each of five seconds of the running topology, of which every worker has sent
    its samples; one that was killed before is still in the state."""
    return [n for each in state.topologies if each.running for n in each.series.due[-8:-3] if n]


def are_alike(rates: list[float]) -> bool:
    """A worker may have just begun, or told of a second in two parts."""
    return len(rates) == 5 and max(rates) < 1.2 * min(rates)


def test_a_second_deploy_changes_nothing(site: Site) -> None:
    assert site.deploy() == 0
    assert "STOPPED" in site.run("m3", "supervisorctl", "status", "supervisor")


def test_the_token_is_the_daemons_alone_and_nowhere_else(site: Site) -> None:
    assert site.run("m1", "stat", "-c", "%a %U", "/etc/barograph/token").split() == ["640", "storm"]
    token = cluster.token(site.directory)
    assert site.run("m1", "cat", "/etc/barograph/token") == token
    assert list((site.directory / "artifacts").rglob("stdout"))
    found = planted.leaks(secrets_of(site), site.directory)
    assert found == [
        f"{site.directory}/harness_token holds the harness's token", f"{site.directory}/token holds the token"
    ]  # fmt: skip
    for name in site.machines:
        said = site.run(
            name, "grep", "-rlaF", cluster.token(site.directory, cluster.HARNESS_TOKEN_NAME), "/etc", "/var"
        )
        assert said == "", "it is on no machine"


def secrets_of(site: Site) -> dict[str, str]:
    """What the cluster and its user have that must not be anywhere else."""
    keys = {str(machine.ssh_key): machine.ssh_key for machine in site.machines.values() if machine.ssh_key}
    lines = {name: line for key in keys.values() for name, line in planted.private_key_lines(key).items()}
    tokens = {
        "the token": cluster.token(site.directory),
        "the harness's token": cluster.token(site.directory, cluster.HARNESS_TOKEN_NAME),
    }
    return {**planted.VALUES, **lines, **tokens}


def test_what_runs_as_storm_writes_nothing_that_is_recorded_about_it(site: Site) -> None:
    log = "/var/log/barograph"
    for machine, file in (
        ("master", "decisions.jsonl"),
        ("master", "machines/master.jsonl"),
        ("m1", "machines/m1.jsonl"),
    ):
        for act in (
            f"echo x >> {log}/{file}",
            f"rm -f {log}/{file}",
            f"mv {log}/{file} {log}/workers/",
            f"rm -rf {log}/machines",
        ):
            said = site.run(
                machine, "sh", "-c", f"setpriv --reuid storm --regid storm --init-groups sh -c '{act}' 2>&1; echo $?"
            )
            assert "denied" in said or "not permitted" in said, act
    programs = {
        name: site.run("master", "stat", "-c", "%U", f"/proc/{site.pid('master', name)}").strip()
        for name in ("nimbus", "policy-service", "probe")
    }
    assert programs == {"nimbus": "storm", "policy-service": "barograph", "probe": "barograph"}


def test_a_topology_that_storm_refuses_is_the_system_under_test(site: Site, tmp_path: Path) -> None:
    with pytest.raises(StormRefused, match="NoSuchSpout"):
        submit(site, tmp_path, star().replace("barograph.topologies.SourceSpout", "barograph.topologies.NoSuchSpout"))


def test_a_run_from_reset_to_record(site: Site, tmp_path: Path) -> None:
    cluster.reset(site.inventory, site.directory, "r1")
    submit(site, tmp_path, star())
    assert eventually(lambda: bool(site.run("m1", "sh", "-c", "cat /var/log/barograph/workers/*.avro | base64")))
    cluster.join(site.inventory, site.directory, "r1")
    collected = cluster.collect(site.inventory, site.directory, "r1", tmp_path / "run")
    assert collected.missing == ()
    offsets = cluster.clock_offsets_ms(site.inventory, list(site.machines), time.time)
    assert offsets.keys() == site.machines.keys()
    assert all(offset is not None and abs(offset.ms) < 50 for offset in offsets.values())
    lines = [json.loads(line) for line in (tmp_path / "run" / "machines" / "m1.jsonl").read_text().splitlines()]
    assert {line["machine"] for line in lines} == {"m1"}
    assert lines[-1]["cpu_quota_cores"] == CORES
    assert 0.0 < max(line["cpu_cores"] for line in lines) < 2 * CORES
    assert lines[-1]["interfaces"]["name"] == ["ctl0", "exp0"]
    assert None not in lines[-1]["interfaces"]["rx_bytes"]
    assert {line["machine"] for line in worker_lines.of_run(tmp_path / "run", "m1")} == {"m1"}
    logs = tmp_path / "run" / "logs"
    assert (logs / "master" / "nimbus.log").stat().st_size > 0
    assert list((logs / "m1" / "workers-artifacts").glob("star-*/67*/worker.log"))
    assert planted.leaks(secrets_of(site), tmp_path / "run") == []


@pytest.fixture
def star_runs(site: Site, tmp_path: Path) -> None:
    """The run of the test before this one goes on, or one begins here: once more where Nimbus has lost sight of m1 just
    as it places the topology, which a run too would notice and repeat."""
    for _ in range(3):
        if eventually(lambda: bool(workers_of(site, "m1")), 1):
            return
        cluster.reset(site.inventory, site.directory, "r1")
        submit(site, tmp_path, star())
        if eventually(lambda: bool(workers_of(site, "m1")), 60):
            return
        cluster.kill(site.inventory, site.directory, "r1")
    raise AssertionError("m1 has no worker of three submissions")


# Shorter: test_cluster_contract.py, on Storm as well.
@pytest.mark.long
def test_spouts_offer_half_more_of_the_run_that_goes_on(site: Site, star_runs: None) -> None:
    before = median(offered(seen(site, lambda state: are_alike(offered(state)), 120)))
    service(site).input_rate(1.5)
    seen(site, lambda state: are_alike(offered(state)) and 1.4 < median(offered(state)) / before < 1.6, 120)


def test_strangers_on_the_lans_reach_ssh_and_the_policy_service_only(site: Site, star_runs: None) -> None:
    assert eventually(lambda: bool(workers_of(site, "m1")))
    addresses = {name: (one.control_address, one.experiment_address) for name, one in site.machines.items()}
    sockets = {name: list(listening(site.run(name, "ss", "-Hltun"))) for name in site.machines}
    assert {port for _, port in sockets["master"]} >= {22, 2181, 6627, 8700}
    assert {port for _, port in sockets["m1"]} >= {22, 6628, 6700}
    # Storm's servers cannot be told an address; all else is on the machine's own, or on loopback.
    open_to_all = {port for found in sockets.values() for address, port in found if everywhere(address)}
    assert open_to_all <= {22, 6627, 6628, *range(6700, 6764)}
    bound = {address for found in sockets.values() for address, _ in found if not everywhere(address)}
    assert bound <= {"127.0.0.1", "::1", *(one for own in addresses.values() for one in own)}
    master = site.machines["master"].control_address
    ssh = {f"{one}:22" for own in addresses.values() for one in own}
    with stranger(site.directory.parent) as somebody:
        assert set(somebody.reached(places(addresses, sockets))) == {*ssh, f"{master}:8700"}
    assert works(seen(site, works, 120)), "the machines themselves reach each other"


def test_a_firewall_that_somebody_flushed_ends_the_run_that_begins(site: Site) -> None:
    site.run("m1", "nft", "flush", "ruleset")
    with pytest.raises(PlayFailed, match=r"(?s)m1.*the firewall was gone.*the run does not count") as exposed:
        cluster.reset(site.inventory, site.directory, "r1")
    assert exposed.value.blame == "configuration"
    assert "drop" in site.run("m1", "nft", "list", "table", "inet", "barograph"), "it is closed again at once"
    cluster.reset(site.inventory, site.directory, "r1")


def test_rules_that_a_boot_has_lost_are_loaded_before_storm(site: Site) -> None:
    table = ("nft", "list", "table", "inet", "barograph")
    assert "drop" in site.run("m1", *table)
    site.run("m1", "nft", "delete", "table", "inet", "barograph")
    assert "drop" not in site.run("m1", *table)
    site.testbed.crash(site.machines["m1"])
    site.testbed.restart(site.machines["m1"])
    assert eventually(lambda: "drop" in site.run("m1", *table), 20)
    cluster.forget_connection(yaml.safe_load(site.inventory.read_text())["all"]["hosts"]["m1"])


def test_a_reset_leaves_nothing_of_the_run(site: Site, star_runs: None, tmp_path: Path) -> None:
    cluster.reset(site.inventory, site.directory, "r2")
    assert [workers_of(site, name) for name in WORKERS] == [[], [], []]
    assert "STOPPED" in site.run("m3", "supervisorctl", "status", "supervisor")
    left = site.run("m1", "find", "/var/log/barograph/workers", "/var/log/barograph/workers-artifacts", "-type", "f")
    assert left == ""
    collected = cluster.collect(site.inventory, site.directory, "r2", tmp_path)
    assert "workers/*.avro" in collected.missing
    assert not list((tmp_path / "workers").glob("*"))


# Shorter: a scale-out and a machine that leaves in test_cluster_contract.py.
@pytest.mark.long
def test_the_machine_that_a_policy_lets_go_leaves_and_the_next_reset_has_it_again(site: Site, tmp_path: Path) -> None:
    cluster.join(site.inventory, site.directory, "r3")
    service(site).configure("r3", "stela", {}, 1, 60.0)
    submit(site, tmp_path, star())
    seen(site, works, 120)
    service(site).scale("e1", "scale_in", (), 1)
    applied = scale_outcome(seen(site, lambda state: scale_outcome(state, "e1") is not None, 90), "e1")
    assert applied is not None
    (left,) = applied.release
    cluster.leave(site.inventory, site.directory, [left])
    left_s = time.time()
    assert "STOPPED" in site.run(left, "supervisorctl", "status", "supervisor")
    assert workers_of(site, left) == []
    with pytest.raises(StormRefused, match=f"Nimbus has {left}"):
        awaited(site, "present", left, seconds=4)
    seen(site, lambda state: recovery_obstacle(state, left_s) is None, 120)  # the others have what was on it
    cluster.reset(site.inventory, site.directory, "r3")
    awaited(site, "exactly", "m1,m2")


PLANS = "/var/lib/barograph/storm/bridge-plans.json"


def executors_by_slot(request: dict[str, Any]) -> dict[str, set[tuple[int, ...]]]:
    (topology,) = request["topologies"]
    slots: dict[str, set[tuple[int, ...]]] = {}
    for component in topology["components"]:
        for executor in component["executors"]:
            slots.setdefault(topology["placement"][str(executor[0])], set()).add(tuple(executor))
    return slots


def pids_by_slot(site: Site) -> dict[str, str]:
    """Storm's command line of a worker ends with its port and its id."""
    lines = {name: site.run(name, "pgrep", "-af", "[o]rg.apache.storm.daemon.worker.Worker") for name in WORKERS}
    return {f"{name}:{line.split()[-2]}": line.split()[0] for name in WORKERS for line in lines[name].splitlines()}


def last_request(site: Site) -> dict[str, Any]:
    line = site.run("master", "tail", "-n", "1", "/var/log/barograph/decisions.jsonl")
    request: dict[str, Any] = json.loads(line)["request"]
    return request


# Shorter: the cases of rounds, in Java and in Python.
@pytest.mark.long
def test_a_nimbus_that_is_killed_between_decision_and_placement_moves_nobody_else(site: Site, tmp_path: Path) -> None:
    cluster.reset(site.inventory, site.directory, "r3b")
    service(site).configure("r3b", "stela", {}, 1, 60.0)
    submit(site, tmp_path, star())
    begun = seen(site, works, 120)
    assert (begun.worker_restarts, begun.lost_tasks) == ((), ()), "nothing happened that nobody asked for"
    cluster.join(site.inventory, site.directory, "r3b")
    before, workers = executors_by_slot(last_request(site)), pids_by_slot(site)
    killed = site.pid("master", "nimbus")
    # On the master itself: the plan is on its disk some milliseconds before Nimbus is asked for the rebalance.
    ambush = f"until grep -q decisionId {PLANS} 2>/dev/null; do sleep 0.005; done; kill -9 {killed}"
    site.run("master", "sh", "-c", f"setsid timeout 120 sh -c '{ambush}' >/dev/null 2>&1 &")
    seen(site, lambda state: "m3" in state.machines, 60)
    service(site).scale("e1", "scale_out", ("m3",), 0)
    outcome = scale_outcome(seen(site, lambda state: scale_outcome(state, "e1") is not None, 90), "e1")
    assert outcome is not None and outcome.failed is None, outcome
    assert site.pid("master", "nimbus") not in (0, killed), "Nimbus was killed, and is another one"
    over = seen(site, lambda state: state.all_placed() and recovery_obstacle(state, outcome.last_t or 0.0) is None, 120)
    assert over.lost_tasks == ()
    after = executors_by_slot(last_request(site))
    assert any(slot.startswith("m3:") for slot in after), after
    stayed = {
        executor: slot for slot, mine in before.items() for executor in mine if executor in set().union(*after.values())
    }
    assert stayed and all(executor in after.get(slot, ()) for executor, slot in stayed.items()), (
        "nothing was dealt again"
    )
    # Which slots these are is for the decision: it may split an executor of every one.
    left_alone = [slot for slot in before if before[slot] == after.get(slot)]
    now = pids_by_slot(site)
    assert {slot: now.get(slot) for slot in left_alone} == {slot: workers[slot] for slot in left_alone}
    restarted = {restart.slot for restart in over.worker_restarts}
    assert not restarted & set(left_alone)
    asked = {slot for decision in over.decisions for slot in decision.slots or ()}
    assert restarted <= asked, "a decision says where workers restart for it"
    cluster.reset(site.inventory, site.directory, "r3c")
    awaited(site, "exactly", "m1,m2")
    assert eventually(lambda: site.run("master", "cat", PLANS).strip() == "[]", 30)


# Shorter: lost tasks in the cases of rounds; a machine without power in test_cluster_contract.py.
@pytest.mark.long
def test_tasks_of_a_supervisor_that_dies_as_its_topology_starts_are_lost(site: Site, tmp_path: Path) -> None:
    cluster.reset(site.inventory, site.directory, "r3d")
    service(site).configure("r3d", "stela", {}, 1, 60.0)
    submit(site, tmp_path, star())
    placed = seen(site, lambda state: state.tasks_total > 0 and state.all_placed(), 60)
    site.run("m2", "sh", "-c", "kill -9 $(supervisorctl pid supervisor); supervisorctl stop supervisor")
    assert set(placed.topologies[0].placed_among or ()) == {"m1", "m2"} and placed.lost_tasks == ()
    lost = seen(site, lambda state: bool(state.lost_tasks), 240).lost_tasks
    assert lost[0].machines == ("m2",)


def test_a_joined_machine_that_crashes_works_again(site: Site) -> None:
    cluster.join(site.inventory, site.directory, "r4", machines=["m3"])
    site.testbed.crash(site.machines["m3"])
    awaited(site, "gone", "m3")
    site.testbed.restart(site.machines["m3"])
    # Nobody has told it to: it remembers that it had joined.
    awaited(site, "present", "m3")
    cluster.revive(site.inventory, site.directory, "m3")
    before = site.run("m3", "wc", "-l", "/var/log/barograph/machines/m3.jsonl")
    assert eventually(lambda: site.run("m3", "wc", "-l", "/var/log/barograph/machines/m3.jsonl") != before, 10)
    cluster.reset(site.inventory, site.directory, "r5")
    awaited(site, "exactly", "m1,m2")


def test_a_machine_that_left_stays_out_when_it_boots(site: Site) -> None:
    cluster.leave(site.inventory, site.directory, ["m2"])
    site.testbed.crash(site.machines["m2"])
    site.testbed.restart(site.machines["m2"])
    assert "STOPPED" in site.run("m2", "supervisorctl", "status", "supervisor")
    cluster.forget_connection(yaml.safe_load(site.inventory.read_text())["all"]["hosts"]["m2"])
    cluster.reset(site.inventory, site.directory, "r6")
    awaited(site, "exactly", "m1,m2")


def test_a_changed_bridge_reaches_machines_that_are_up(site: Site, tmp_path: Path) -> None:
    (jar,) = (site.home / "extlib-daemon").glob("*.jar")
    changed = Path(shutil.copy(jar, tmp_path))
    with zipfile.ZipFile(changed, "a") as opened:
        opened.writestr("changed", "yes")
    nimbus = site.pid("master", "nimbus")
    home = assemble.derive_home(site.home, bridge=changed)
    try:
        assert cluster.deploy(site.inventory, site.directory, home).changed > 0
        assert site.pid("master", "nimbus") != nimbus
        arguments = site.run("master", "sh", "-c", "cat /proc/$(supervisorctl pid nimbus)/cmdline")
        assert jar.name in arguments
        digest = hashlib.sha256(changed.read_bytes()).hexdigest()
        assert digest in site.run("master", "sha256sum", f"/opt/barograph/storm/extlib-daemon/{jar.name}")
    finally:
        site.deploy()
        shutil.rmtree(home)
    assert site.deploy() == 0


def awaited(site: Site, how: str, machines: str, seconds: int = 40) -> None:
    """As the playbooks wait for Nimbus, but not for long; StormRefused if it is not so."""
    script = (Path(cluster.__file__).parent / "roles" / "nimbus" / "files" / "nimbus.py").read_text()
    with site.connect(site.machines["master"]) as remote:
        result = remote.run(["python3", "-c", script, how, machines, str(seconds)])
    if result.code != 0:
        raise StormRefused(result.stderr)


def test_a_killed_supervisor_comes_back(site: Site) -> None:
    """Late: when the killed one's ZooKeeper session ends, Nimbus loses the machine once more, for a moment."""
    before = site.pid("m1", "supervisor")
    site.run("m1", "kill", "-9", str(before))
    assert eventually(lambda: site.pid("m1", "supervisor") not in (0, before), 15)


def test_a_worker_of_somebody_else_outlives_reset_and_stop(site: Site) -> None:
    """The same class and the same user, but not of this cluster."""
    as_storm = "setsid setpriv --reuid storm --regid storm --clear-groups"
    waits = "sh -c 'sleep 900; :' org.apache.storm.daemon.worker.Worker"
    site.run("m1", "sh", "-c", f"{as_storm} {waits} </dev/null >/dev/null 2>&1 &")
    eventually(lambda: bool(workers_of(site, "m1")), 10)
    (before,) = workers_of(site, "m1")
    cluster.reset(site.inventory, site.directory, "r7")
    assert workers_of(site, "m1") == [before]
    cluster.stop(site.inventory, site.directory)
    assert workers_of(site, "m1") == [before]
    site.run("m1", "kill", "-9", before)
    site.deploy()


def test_stop_leaves_no_daemon(site: Site) -> None:
    assert cluster.stop(site.inventory, site.directory).changed == 1 + len(WORKERS)
    assert cluster.stop(site.inventory, site.directory).changed == 0
    assert [site.run(name, "pgrep", "-x", "java") for name in site.machines] == [""] * len(site.machines)


def test_a_machine_that_is_gone_is_infrastructure(site: Site, tmp_path: Path) -> None:
    given = yaml.safe_load(site.inventory.read_text())
    given["all"]["hosts"]["m2"] |= {"ansible_host": "127.0.0.1", "ansible_port": 1}
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(given))
    with pytest.raises(MachineUnreachable, match="m2"):
        cluster.stop(tmp_path / "inventory.yaml", site.directory)
