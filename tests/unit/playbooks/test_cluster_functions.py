"""cluster.py without machines: token, settings, delivery, the record's folders, clocks."""

import errno
import io
import os
import resource
import stat
import subprocess
import sys
import sysconfig
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from barograph.errors import ConfigurationError, DiskFull
from playbooks import clock, cluster
from playbooks.runner import MachineUnknown, PlayFailed, PlayResult, TaskResult

HOST = {"ansible_host": "127.0.0.1", "ansible_port": 22, "ansible_user": "root"}


def archive(path: Path, files: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text.encode()))


def test_the_token_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    first = cluster.token(tmp_path / "cluster")
    assert len(first) >= 40
    assert cluster.token(tmp_path / "cluster") == first
    assert stat.S_IMODE((tmp_path / "cluster" / "token").stat().st_mode) == 0o600
    assert cluster.token(tmp_path / "other") != first


@pytest.mark.parametrize("name", [cluster.TOKEN_NAME, cluster.HARNESS_TOKEN_NAME])
def test_a_full_disk_leaves_no_empty_token(name: str, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            cluster.token(tmp_path / "cluster", name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(cluster.token(tmp_path / "cluster", name)) >= 40


@pytest.mark.parametrize("name", [cluster.TOKEN_NAME, cluster.HARNESS_TOKEN_NAME])
def test_an_empty_token_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("\n")
    with pytest.raises(ConfigurationError, match=rf"{name} is empty, and an empty token lets everybody in; remove"):
        cluster.token(tmp_path, name)


def inventory_of_a_master(path: Path, control: str, inside: str) -> Path:
    hosts = {"master": {"ansible_host": control, "inside_address": inside}}
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": {"master": {"hosts": {"master": None}}}}}))
    return path


def test_a_certificate_is_for_the_masters_addresses_and_made_again_for_others(tmp_path: Path) -> None:
    inventory = inventory_of_a_master(tmp_path / "inventory.yml", "192.0.2.10", "10.0.0.10")
    first = cluster.certificate(inventory, tmp_path / "cluster").read_bytes()
    assert stat.S_IMODE((tmp_path / "cluster" / "service.key").stat().st_mode) == 0o600
    assert cluster.certificate(inventory, tmp_path / "cluster").read_bytes() == first
    inventory_of_a_master(inventory, "192.0.2.11", "10.0.0.10")
    assert cluster.certificate(inventory, tmp_path / "cluster").read_bytes() != first


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The topologies' jar, as Maven would have built it."""
    path = tmp_path / "barograph-topologies.jar"
    path.write_text("jar")
    monkeypatch.setattr(cluster, "TOPOLOGIES", path)
    return path


def test_the_delivery_is_the_same_bytes_for_the_same_parts(tmp_path: Path, jar: Path) -> None:
    first = cluster.pack_delivery(tmp_path).read_bytes()
    jar.touch()
    assert cluster.pack_delivery(tmp_path).read_bytes() == first
    with tarfile.open(tmp_path / "delivery.tar.gz") as packed:
        names = packed.getnames()
    assert {"scheduler_plugins/service/server.py", "jars/barograph-topologies.jar"} <= set(names)
    assert not [name for name in names if set(name.split("/")) & set(cluster.EXCLUDED_FOLDERS)]
    jar.unlink()
    with pytest.raises(ConfigurationError, match="mvn"):
        cluster.pack_delivery(tmp_path)


def test_a_master_gets_all_that_its_service_imports_and_no_simulator(tmp_path: Path, jar: Path) -> None:
    with tarfile.open(cluster.pack_delivery(tmp_path)) as packed:
        names = packed.getnames()
        packed.extractall(tmp_path / "master")
    modules = [name.removesuffix(".py").replace("/", ".") for name in names if name.endswith(".py")]
    assert "scheduler_plugins.service.server" in modules
    unwanted = ("scheduler_plugins.driver", "scheduler_plugins.simulator")
    assert not [name for name in modules if name.startswith(unwanted)]
    imports = f"import importlib; [importlib.import_module(each) for each in {modules}]"
    # -S: else this checkout, which is installed as it stands, gives what was not delivered. numpy is on every master.
    environment = {"PYTHONPATH": sysconfig.get_path("platlib")}
    command = [sys.executable, "-S", "-c", imports]
    done = subprocess.run(
        command, cwd=tmp_path / "master", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_python_packages_come_with_the_delivery(tmp_path: Path, jar: Path) -> None:
    (tmp_path / "packages" / "pymetis").mkdir(parents=True)
    (tmp_path / "packages" / "pymetis" / "__init__.py").write_text("metis")
    (tmp_path / "packages" / "alone.py").touch()
    with tarfile.open(cluster.pack_delivery(tmp_path, libraries=tmp_path / "packages")) as packed:
        names = [name for name in packed.getnames() if name.startswith("libraries/")]
        assert names == ["libraries/alone.py", "libraries/pymetis/__init__.py"]
        assert packed.extractfile(names[1]).read() == b"metis"  # type: ignore[union-attr]


def test_a_runs_policy_service_comes_with_our_jars(tmp_path: Path, jar: Path) -> None:
    theirs = tmp_path / "tree"
    (theirs / "scheduler_plugins" / "nimbus_bridge").mkdir(parents=True)
    (theirs / "scheduler_plugins" / "service").mkdir()
    (theirs / "scheduler_plugins" / "service" / "server.py").write_text("theirs")
    (theirs / "scheduler_plugins" / "nimbus_bridge" / "x.py").touch()
    with tarfile.open(cluster.pack_delivery(tmp_path, theirs, "switched.tar.gz")) as packed:
        assert packed.getnames() == ["scheduler_plugins/service/server.py", "jars/barograph-topologies.jar"]
        assert packed.extractfile("scheduler_plugins/service/server.py").read() == b"theirs"  # type: ignore[union-attr]
    assert not (tmp_path / "delivery.tar.gz").exists()


@pytest.fixture
def deployed(tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The variables of each play; the cluster's folder is `tmp_path`, its homes are `one` and `two`."""
    heard: list[dict[str, Any]] = []

    def hear(playbook: str, _inventory: Path, variables: dict[str, Any], *_: Any) -> PlayResult:
        heard.append({"playbook": playbook, **variables})
        return PlayResult(playbook, 1, 0, 0, 0.0)

    monkeypatch.setattr(cluster, "play", hear)
    hosts = {"master": {**HOST, "machine_memory_mb": 1024, "machine_slots": 0}}
    hosts["m1"] = {**HOST, "machine_memory_mb": 768, "machine_slots": 4, "machine_cores": 1.0}
    (tmp_path / "inventory").write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": {}}}))
    for name in ("one", "two"):
        for file in ("lib/storm.jar", "extlib-daemon/bridge.jar", "VERSION"):
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("same" if file.startswith("lib") else name)
            os.utime(path, (1000, 1000))
    return heard


def test_a_switch_changes_nimbus_and_the_service_alone(tmp_path: Path, deployed: list[dict[str, Any]]) -> None:
    inventory, theirs = tmp_path / "inventory", tmp_path / "tree"
    (theirs / "scheduler_plugins" / "service").mkdir(parents=True)
    (theirs / "scheduler_plugins" / "service" / "server.py").touch()
    cluster.deploy(inventory, tmp_path, tmp_path / "one")
    cluster.switch(inventory, tmp_path, tmp_path / "two", theirs)
    cluster.switch(inventory, tmp_path, tmp_path / "one")
    first, other, back = deployed
    assert [each["playbook"] for each in deployed] == ["deploy", "switch", "switch"]
    differs = {key for key in first if first[key] != other[key]}
    assert differs == {"playbook", "storm_home_name", "storm_version", "storm_pack", "delivery", "delivery_digest"}
    assert {key for key in first if first[key] != back[key]} == {"playbook"}


def test_a_switch_back_brings_what_was_deployed_whatever_is_here_now(
    tmp_path: Path, jar: Path, deployed: list[dict[str, Any]]
) -> None:
    cluster.deploy(tmp_path / "inventory", tmp_path, tmp_path / "one")
    jar.write_text("built anew since")
    cluster.switch(tmp_path / "inventory", tmp_path, tmp_path / "one")
    cluster.extend(tmp_path / "inventory", tmp_path, ["m1"], tmp_path / "one")
    assert len({each["delivery_digest"] for each in deployed}) == 1


def test_another_library_is_told_from_another_bridge(tmp_path: Path, deployed: list[dict[str, Any]]) -> None:
    assert deployed == []
    assert cluster.libraries(tmp_path / "one") == cluster.libraries(tmp_path / "two")
    (tmp_path / "two" / "lib" / "storm.jar").write_text("others")
    assert cluster.libraries(tmp_path / "one") != cluster.libraries(tmp_path / "two")


def fake_play(files: dict[str, dict[str, str]], missing: str = "") -> Any:
    """A `play` that fetches these files, by machine."""

    def play(playbook: str, inventory: Path, variables: dict[str, Any], directory: Path) -> PlayResult:
        for machine, held in files.items():
            if machine not in variables["machines"]:
                continue
            archive(Path(variables["collect_to"]) / f"{machine}.tar.gz", held)
        task = TaskResult("m1", "Fetch what the run left", "ok", False, 0.1, stderr=missing)
        return PlayResult(playbook, 1, 0, 0, 0.1, (task,))

    return play


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four machines whose clocks nobody asks over ssh."""
    monkeypatch.setattr(clock, "offsets_ms", lambda hosts, _now: dict.fromkeys(hosts, clock.ClockOffset(0.1, 0.02)))
    path = tmp_path / "inventory.yaml"
    hosts = dict.fromkeys(("master", "m1", "m2", "m3"), HOST)
    groups = {"master": ["master"], "workers": ["m1", "m2", "m3"], "joining": ["m3"]}
    children = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": children}}, sort_keys=False))
    return path


def test_a_record_has_its_files_in_their_places(
    tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "workers-artifacts/star-1/6700/worker.log"
    held = {
        "master": {"./decisions.jsonl": "d", "./nimbus.log": "n", "./bridge.jsonl": ""},
        "m1": {"./workers/m1-6700-1763.avro": "w", "./machines/m1.jsonl": "p", f"./{log}": "l", "../../escape": "x"},
    }
    monkeypatch.setattr(cluster, "play", fake_play(held))
    collected = cluster.collect(inventory, tmp_path, "r1", tmp_path / "run")
    found = {str(file.relative_to(tmp_path / "run")) for file in (tmp_path / "run").rglob("*") if file.is_file()}
    assert found == {
        "decisions.jsonl", "logs/master/nimbus.log", "logs/master/bridge.jsonl",
        "workers/m1-6700-1763.avro", "machines/m1.jsonl", f"logs/m1/{log}",
    }  # fmt: skip
    assert collected.missing == ()


def test_missing_files_are_reported(tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cluster,
        "play",
        fake_play({"m1": {}}, missing="sudo: unable to resolve host node7\nmissing machines/m1.jsonl\n"),
    )
    collected = cluster.collect(inventory, tmp_path, "r1", tmp_path / "run")
    assert collected.missing == ("machines/m1.jsonl", "workers/*.avro")


def test_a_machine_fills_no_disk_of_this_box(tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"m1": {"./machines/m1.jsonl": "p", "./workers/huge": "x" * 100, "./workers/m1-6700-1763.avro": "w"}}
    monkeypatch.setattr(cluster, "play", fake_play(held))
    monkeypatch.setattr(cluster, "MACHINE_BYTES", 10)
    collected = cluster.collect(inventory, tmp_path, "r1", tmp_path / "run")
    assert collected.missing == ("workers/huge of m1 (100 bytes)",)
    assert (tmp_path / "run" / "workers" / "m1-6700-1763.avro").read_text() == "w"


def test_a_record_is_collected_in_parts(tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {name: {f"./machines/{name}.jsonl": "p", "./supervisor.log": name} for name in ("m1", "m2", "m3")}
    held["m2"]["./workers/m2-6700-1763.avro"] = "w"
    monkeypatch.setattr(cluster, "play", fake_play(held))
    run = tmp_path / "run"
    first = cluster.collect(inventory, tmp_path, "r1", run, machines=["m3"])
    assert first.missing == ("workers/*.avro",)
    assert [path.name for path in (run / "machines").iterdir()] == ["m3.jsonl"]
    held["m1"]["./supervisor.log"] = "m1 again"
    for part in (["m1", "m2"], ["m1"]):
        assert cluster.collect(inventory, tmp_path, "r1", run, machines=part).missing == ()
    assert sorted(path.name for path in (run / "machines").iterdir()) == ["m1.jsonl", "m2.jsonl", "m3.jsonl"]
    assert (run / "logs" / "m1" / "supervisor.log").read_text() == "m1 again"
    assert not (run / ".fetched").exists()


class Played:
    """A `play` that keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, playbook: str, _inventory: Path, variables: dict[str, Any], *_: object) -> PlayResult:
        self.asked.append((playbook, variables["machines"]))
        return PlayResult(playbook, 1, 0, 0, 0.1)


def test_plays_run_on_the_machines_that_are_named(
    tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played()
    ended: list[dict[str, Any]] = []
    monkeypatch.setattr(cluster, "play", played)
    monkeypatch.setattr(cluster, "forget_connection", ended.append)
    cluster.join(inventory, tmp_path, "r1")
    cluster.join(inventory, tmp_path, "r1", machines=["m2", "m3"])
    cluster.leave(inventory, tmp_path, ["m1"])
    cluster.revive(inventory, tmp_path, "m2")
    assert played.asked == [("join", ["m3"]), ("join", ["m2", "m3"]), ("leave", ["m1"]), ("revive", ["m2"])]
    assert ended == [HOST]


def test_a_play_on_nobody_or_on_a_stranger_is_refused(
    tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "play", Played())
    for machines in ([], ["m1", "m9"]):
        with pytest.raises(MachineUnknown, match=r"must be some of master, m1, m2, m3"):
            cluster.leave(inventory, tmp_path, machines)
    with pytest.raises(MachineUnknown, match="'m9'"):
        cluster.revive(inventory, tmp_path, "m9")


def test_the_connection_that_is_kept_open_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "ssh"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexit 255\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cluster.forget_connection({**HOST, "ansible_ssh_common_args": "-o ControlPath=/keys/cm-%C"})
    assert (tmp_path / "asked").read_text() == (
        "-O exit -o BatchMode=yes -o ControlPath=/keys/cm-%C -p 22 root@127.0.0.1\n"
    )


def test_a_damaged_archive_and_a_full_disk_are_said(
    tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "play", fake_play({"m1": {"./nimbus.log": "n" * 9000}}))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfileobj", full)
        with pytest.raises(DiskFull, match="free some space"):
            cluster.collect(inventory, tmp_path, "r1", tmp_path / "run")

    def damaged(playbook: str, inventory: Path, variables: dict[str, str], *_: object) -> PlayResult:
        (Path(variables["collect_to"]) / "m1.tar.gz").write_bytes(b"\x1f\x8b not a gzip file")
        return PlayResult(playbook, 1, 0, 0, 0.1)

    monkeypatch.setattr(cluster, "play", damaged)
    with pytest.raises(PlayFailed, match="cannot be unpacked"):
        cluster.collect(inventory, tmp_path, "r1", tmp_path / "run")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ssh` that runs its last argument here."""
    script = tmp_path / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return script


def test_a_clock_beside_ours_is_not_far_from_it(ssh: Path) -> None:
    offsets = clock.offsets_ms({"m1": HOST, "m2": HOST})
    assert offsets.keys() == {"m1", "m2"}
    assert all(offset is not None and abs(offset.ms) <= offset.error_ms for offset in offsets.values()), "one clock"


def test_only_clocks_of_known_machines_are_asked(inventory: Path) -> None:
    offsets = cluster.clock_offsets_ms(inventory, ["m1", "master"], time.time)
    assert offsets == dict.fromkeys(("m1", "master"), (0.1, 0.02))
    with pytest.raises(MachineUnknown, match="m9"):
        cluster.clock_offsets_ms(inventory, ["m9"], time.time)


def test_a_clock_is_compared_with_the_clock_that_is_given(ssh: Path) -> None:
    offsets = clock.offsets_ms({"m1": HOST}, lambda: time.time() - 30)
    assert offsets["m1"] is not None and offsets["m1"].ms == pytest.approx(30_000, abs=20)


def test_a_machine_that_does_not_say_its_time_is_not_waited_for(ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    assert clock.offsets_ms({"m1": HOST}, limit_s=0.2) == {"m1": None}
