"""What a deploy would put on a machine of every type, rendered by Ansible itself on this box."""

import configparser
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

import playbooks
from inventory.machines import MACHINE_TYPES, Machine, MachineType, scale_type
from inventory.remote.ansible_inventory import write_ansible_inventory
from playbooks import cluster
from playbooks.storm_home.commands import EXECUTORS_PER_SLOT, resource_defaults
from tests.support.on_machine import load

ROLES = Path(playbooks.__file__).parent / "roles"
RENDER = """\
- name: Render
  hosts: all
  connection: local
  gather_facts: false
  vars_files: {files}
  tasks:
    - name: Keep the plan
      ansible.builtin.copy:
        content: "{{{{ machine_plan | to_json }}}}"
        dest: "{to}/{{{{ inventory_hostname }}}}.json"
        mode: "0600"
"""
WORKER_TYPES = [kind for kind in MACHINE_TYPES.values() if kind.slots] + [scale_type(MACHINE_TYPES["type_1"], 0.25)]


def machine(name: str, kind: MachineType, number: int) -> Machine:
    nowhere = Path("/nowhere/key")
    control, experiment = f"192.0.2.{number}", f"198.51.100.{number}"
    return Machine(name, kind, control, experiment, control, "root", 22, nowhere, nowhere)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Machine name → plan for apply.py; the last worker is joining."""
    return rendered(tmp_path_factory.mktemp("render"), "")


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def tls_plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """On machines that are not on this box."""
    return rendered(tmp_path_factory.mktemp("render"), CERTIFICATE)


@pytest.fixture(scope="module")
def redis_plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Where a topology has state."""
    return rendered(tmp_path_factory.mktemp("render"), "", redis_file="/nowhere/redis")


def rendered(folder: Path, certificate: str, redis_file: str = "") -> dict[str, dict[str, Any]]:
    machines = [machine("master", MACHINE_TYPES["master"], 10)]
    machines += [machine(f"m{number}", kind, 10 + number) for number, kind in enumerate(WORKER_TYPES, start=1)]
    workers = [one.name for one in machines[1:]]
    groups = {"master": ["master"], "workers": workers, "joining": workers[-1:]}
    inventory = write_ansible_inventory(machines, groups, folder / "inventory.yaml")
    files = sorted(str(file) for kind in ("defaults", "vars") for file in ROLES.glob(f"*/{kind}/main.yml"))
    (folder / "render.yml").write_text(RENDER.format(files=json.dumps(files), to=folder))
    (folder / "roles").symlink_to(ROLES)
    names = ("storm_version", "storm_libraries", "token_digest", "delivery_digest", "harness_sha256")
    digests = {name: name for name in names}
    (folder / "variables.json").write_text(
        json.dumps(
            {
                **digests,
                "service_certificate": certificate,
                "redis_file": redis_file,
                "commands": cluster.commands_by_machine(inventory),
                "declared": asdict(cluster.declared_resources(inventory)),
            }
        )
    )
    done = subprocess.run(
        [
            Path(sys.executable).parent / "ansible-playbook", "-i", inventory, "-e", f"@{folder}/variables.json",
            "-e", f"ansible_python_interpreter={sys.executable}", folder / "render.yml",
        ],
        capture_output=True, text=True, env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORKS": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {one.name: json.loads((folder / f"{one.name}.json").read_text()) for one in machines}


def storm_yaml(plan: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file_of(plan, "/etc/barograph/storm/storm.yaml"))
    return content


def file_of(plan: dict[str, Any], path: str) -> str:
    return next(str(file["content"]) for file in plan["files"] if file["path"] == path)


def programs(plan: dict[str, Any]) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
    parsed.read_string(file_of(plan, "/etc/supervisor/conf.d/barograph.conf"))
    return parsed


def test_slots_and_names_follow_the_machine(plans: dict[str, dict[str, Any]]) -> None:
    for number, kind in enumerate(WORKER_TYPES, start=1):
        conf = storm_yaml(plans[f"m{number}"])
        assert conf["supervisor.slots.ports"] == [6700 + slot for slot in range(kind.slots)]
        assert conf["storm.local.hostname"] == f"m{number}"
    assert storm_yaml(plans["master"])["supervisor.slots.ports"] == []


def test_every_machine_knows_the_bridge_and_the_service(plans: dict[str, dict[str, Any]]) -> None:
    for plan in plans.values():
        conf = storm_yaml(plan)
        assert conf["storm.scheduler"] == "barograph.bridge.PolicyScheduler"
        assert conf["barograph.service.url"] == "http://192.0.2.10:8700"
        assert conf["barograph.token.file"] == "/etc/barograph/token"
        assert conf["barograph.samples.dir"] == "/var/log/barograph/workers"
        assert conf["nimbus.seeds"] == ["master"]
        assert conf["storm.zookeeper.servers"] == ["master"]


def test_worker_memory_fits_the_machine(plans: dict[str, dict[str, Any]]) -> None:
    for number, kind in enumerate(WORKER_TYPES, start=1):
        heaps = [
            word for word in storm_yaml(plans[f"m{number}"])["worker.childopts"].split() if word.startswith("-Xmx")
        ]
        assert len(heaps) == 1
        assert int(heaps[0][4:-1]) * kind.slots < kind.memory_mb


def test_full_machines_are_within_what_they_declare(plans: dict[str, dict[str, Any]]) -> None:
    """Each slot with as many executors as its heap allows, by the numbers that the resource-aware scheduler adds up."""
    for number, kind in enumerate(WORKER_TYPES, start=1):
        conf = storm_yaml(plans[f"m{number}"])
        assert conf["supervisor.cpu.capacity"] == pytest.approx(100 * kind.cores)
        assert conf["supervisor.memory.capacity.mb"] == kind.memory_mb
        heap_mb, cpu = (
            conf["topology.component.resources.onheap.memory.mb"],
            conf["topology.component.cpu.pcore.percent"],
        )
        a_slot = int(conf["topology.worker.max.heap.size.mb"] / heap_mb)
        assert a_slot >= EXECUTORS_PER_SLOT
        executors = EXECUTORS_PER_SLOT * kind.slots
        assert executors * cpu <= conf["supervisor.cpu.capacity"]
        assert executors * heap_mb <= conf["supervisor.memory.capacity.mb"]
        assert min(cpu, heap_mb) > 0


def test_a_dead_machine_is_noticed_after_four_missing_heartbeats(plans: dict[str, dict[str, Any]]) -> None:
    conf = storm_yaml(plans["m1"])
    assert conf["nimbus.task.timeout.secs"] == 4 * conf["worker.heartbeat.frequency.secs"] == 20
    assert conf["storm.zookeeper.session.timeout"] < 1000 * conf["nimbus.task.timeout.secs"]


def test_zookeeper_listens_on_the_experiment_lan_only(plans: dict[str, dict[str, Any]]) -> None:
    assert "clientPortAddress=198.51.100.10\n" in file_of(plans["master"], "/etc/barograph/storm/zoo.cfg")


def daemons(plan: dict[str, Any]) -> list[str]:
    """The programs that go on; the firewall's is loaded at each boot, and ends."""
    first, *rest = programs(plan).sections()
    assert first == "program:barograph-firewall"
    return [section.removeprefix("program:") for section in rest]


def test_only_the_clusters_machines_reach_storm(plans: dict[str, dict[str, Any]]) -> None:
    for plan in plans.values():
        rules = plan["firewall"]
        (addresses,) = re.findall(r"elements = \{ (.*) \}", rules)
        assert set(plan["names"].values()) < set(addresses.split(", "))
        (closed,) = re.findall(r"tcp dport \{ (.*) \} drop", rules)
        slots = storm_yaml(plan)["supervisor.slots.ports"]
        assert ports_of(closed) >= {2181, 6627, 6628, *slots}
        assert 22 not in ports_of(closed) and 8700 not in ports_of(closed)
        section = programs(plan)["program:barograph-firewall"]
        assert (section["user"], section["autostart"], section["autorestart"]) == ("root", "true", "false")
        assert "; /usr/sbin/nft -f /etc/barograph/firewall.nft && touch /run/barograph-firewall" in section["command"]


def ports_of(text: str) -> set[int]:
    ranges = [[int(end) for end in part.split("-")] for part in text.split(", ")]
    return {port for ends in ranges for port in range(ends[0], ends[-1] + 1)}


def test_each_machine_runs_its_programs(
    plans: dict[str, dict[str, Any]], redis_plans: dict[str, dict[str, Any]]
) -> None:
    started = {name: daemons(plan) for name, plan in plans.items()}
    assert started.pop("master") == ["zookeeper", "policy-service", "nimbus", "probe"]
    assert all(names == ["supervisor", "probe"] for names in started.values())
    sections = {name.removeprefix("program:") for plan in redis_plans.values() for name in programs(plan).sections()}
    assert sections == load("machine", "apply").OURS  # what it may start and stop on machines of others


def test_another_bridge_restarts_nimbus_alone_and_another_service_itself_alone(
    plans: dict[str, dict[str, Any]],
) -> None:
    inputs = {program["name"]: program["inputs"] for plan in plans.values() for program in plan["programs"]}
    of = {
        word: {name for name, given in inputs.items() if word in given} for word in ("storm_version", "delivery_digest")
    }
    assert of == {"storm_version": {"nimbus"}, "delivery_digest": {"policy-service"}}
    assert all("storm_libraries" in inputs[name] for name in ("zookeeper", "supervisor"))


def test_supervisord_runs_them_as_storm_and_again_when_they_end(plans: dict[str, dict[str, Any]]) -> None:
    for plan in plans.values():
        for name in daemons(plan):
            section = programs(plan)[f"program:{name}"]
            assert section["user"] == ("barograph" if name in ("policy-service", "probe") else "storm")
            assert section["autorestart"] == "true"
            # Noted as ours when it begins: nothing else is ever ended.
            assert section["command"].startswith("/opt/barograph/processes run /")
            assert "{{" not in section["command"] + section["environment"]


def test_only_the_joining_supervisor_waits(plans: dict[str, dict[str, Any]]) -> None:
    joining = f"m{len(WORKER_TYPES)}"
    for name in plans.keys() - {"master"}:
        wanted = {program["name"]: program["running"] for program in plans[name]["programs"]}
        assert wanted == {"probe": True, "supervisor": name != joining}
        assert programs(plans[name])["program:supervisor"]["autostart"] == ("false" if name == joining else "true")


def test_no_plan_holds_a_secret(
    plans: dict[str, dict[str, Any]], tls_plans: dict[str, dict[str, Any]], redis_plans: dict[str, dict[str, Any]]
) -> None:
    every_plan = [*plans.values(), *tls_plans.values(), *redis_plans.values()]
    paths = [file["path"] for plan in every_plan for file in plan["files"]]
    assert not {"/etc/barograph/token", "/etc/barograph/service.key", "/etc/barograph/redis"} & set(paths)


def test_redis_is_only_where_a_topology_has_state(plans: dict[str, dict[str, Any]]) -> None:
    for plan in plans.values():
        assert "redis" not in json.dumps(plan)
        assert 6790 not in ports_of(re.findall(r"tcp dport \{ (.*) \} drop", plan["firewall"])[0])


def test_redis_serves_the_cluster_alone_and_forgets(redis_plans: dict[str, dict[str, Any]]) -> None:
    assert daemons(redis_plans["master"]) == ["zookeeper", "barograph-redis", "policy-service", "nimbus", "probe"]
    section = programs(redis_plans["master"])["program:barograph-redis"]
    # It waits for a run's reset, and where it ends the state of the run is lost: it is not started again.
    assert (section["user"], section["autostart"], section["autorestart"]) == ("storm", "false", "false")
    assert section["command"].endswith(" run /usr/bin/redis-server /etc/barograph/storm/redis.conf")
    lines = file_of(redis_plans["master"], "/etc/barograph/storm/redis.conf").splitlines()
    settings = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert settings == {
        "bind": "198.51.100.10", "port": "6790", "include": "/etc/barograph/redis", "maxmemory": "256mb",
        "maxmemory-policy": "noeviction", "save": '""', "appendonly": "no", "dir": "/",
    }  # fmt: skip
    for name, plan in redis_plans.items():
        conf = storm_yaml(plan)
        assert (conf["barograph.redis.address"], conf["barograph.redis.password.file"]) == (
            "master:6790", "/etc/barograph/redis",
        )  # fmt: skip
        (closed,) = re.findall(r"tcp dport \{ (.*) \} drop", plan["firewall"])
        assert 6790 in ports_of(closed)
        assert ("barograph-redis" in daemons(plan)) == (name == "master")


def test_elsewhere_everybody_speaks_tls_with_the_service(tls_plans: dict[str, dict[str, Any]]) -> None:
    for plan in tls_plans.values():
        conf = storm_yaml(plan)
        assert conf["barograph.service.url"] == "https://192.0.2.10:8700"
        assert conf["barograph.service.certificate"] == "/etc/barograph/service.crt"
        assert file_of(plan, "/etc/barograph/service.crt") == CERTIFICATE
        probe = programs(plan)["program:probe"]["command"]
        assert "--service https://192.0.2.10:8700" in probe
        assert probe.endswith("--certificate /etc/barograph/service.crt")
    environment = programs(tls_plans["master"])["program:policy-service"]["environment"]
    assert 'BAROGRAPH_SERVICE_KEY="/etc/barograph/service.key"' in environment
    assert 'BAROGRAPH_HARNESS_SHA256="harness_sha256"' in environment
    assert 'PYTHONPATH="/opt/barograph/libraries"' in environment


def test_on_this_box_there_is_no_certificate(plans: dict[str, dict[str, Any]]) -> None:
    for plan in plans.values():
        assert "barograph.service.certificate" not in storm_yaml(plan)
        assert "certificate" not in programs(plan)["program:probe"]["command"]
    assert "CERTIFICATE" not in programs(plans["master"])["program:policy-service"]["environment"]


@pytest.mark.parametrize(("factor", "machines"), [(0.18, 8), (0.18, 4), (1.0, 4)])
def test_page_load_fits_after_its_scale_in(factor: float, machines: int) -> None:
    """SP table I: 7 components of 15 executors, 8 machines before, 4 after."""
    kind = scale_type(MACHINE_TYPES["type_1"], factor)
    host = {"machine_cores": kind.cores, "machine_memory_mb": kind.memory_mb, "machine_slots": kind.slots}
    said = resource_defaults([host] * machines)
    a_worker = int(said.worker_heap_mb / said.executor_heap_mb)
    a_machine = min(a_worker * kind.slots, int(100 * kind.cores / said.executor_cpu_percent))
    assert a_machine * machines >= 7 * 15


def test_the_smallest_machine_sets_what_an_executor_declares() -> None:
    large = {"machine_cores": 4, "machine_memory_mb": 12288, "machine_slots": 4}
    small = {"machine_cores": 0.18, "machine_memory_mb": 768, "machine_slots": 4}
    assert asdict(resource_defaults([large, small])) == {
        "executor_cpu_percent": 0.56, "executor_heap_mb": 6.0, "worker_heap_mb": 48
    }  # fmt: skip
    assert resource_defaults([large]).executor_cpu_percent == 12.5
