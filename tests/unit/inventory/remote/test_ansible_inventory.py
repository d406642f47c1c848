from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from barograph.errors import ConfigurationError
from inventory.machines import MACHINE_TYPES, Machine
from inventory.remote.ansible_inventory import write_ansible_inventory

KEYS = Path("/var/lib/barograph/keys/ab12cd34")


def _machine(name: str, number: int) -> Machine:
    type_1, key = MACHINE_TYPES["type_1"], KEYS / "id_ed25519"
    control, experiment = f"10.213.0.{number}", f"10.214.0.{number}"
    return Machine(name, type_1, control, experiment, control, "root", 22, key, KEYS / "known_hosts")


MACHINES = [_machine("master", 10), _machine("m1", 11), _machine("m2", 12)]


def test_groups_and_host_variables(tmp_path: Path) -> None:
    path = write_ansible_inventory(
        MACHINES, {"master": ["master"], "workers": ["m1"], "joining": ["m2"]}, tmp_path / "sub" / "hosts.yaml"
    )
    assert path == tmp_path / "sub" / "hosts.yaml" and list(path.parent.iterdir()) == [path]
    everything = yaml.safe_load(path.read_text())["all"]
    assert {group: list(body["hosts"]) for group, body in everything["children"].items()} == {
        "master": ["master"], "workers": ["m1"], "joining": ["m2"],
    }  # fmt: skip
    m1 = everything["hosts"]["m1"]
    addresses = (m1["ansible_host"], m1["inside_address"], m1["experiment_address"])
    assert addresses == ("10.213.0.11", "10.213.0.11", "10.214.0.11")
    assert m1["ansible_python_interpreter"] == "/usr/bin/python3"
    assert (m1["machine_type"], m1["machine_cores"], m1["machine_slots"]) == ("type_1", 1.0, 4)


def test_ssh_checks_the_host_key_and_keeps_the_connection(tmp_path: Path) -> None:
    path = write_ansible_inventory(MACHINES, {}, tmp_path / "hosts.yaml")
    arguments = yaml.safe_load(path.read_text())["all"]["hosts"]["m1"]["ansible_ssh_common_args"].split()
    for option in ("StrictHostKeyChecking=yes", f"UserKnownHostsFile={KEYS}/known_hosts", "ControlPersist=60s"):
        assert option in arguments


@pytest.mark.parametrize(("length", "shares"), [(46, True), (47, False)])
def test_a_socket_below_a_long_folder_is_not_made(length: int, shares: bool, tmp_path: Path) -> None:
    """ssh makes `<folder>/cm-<40 digits>.<16 letters>`, and a socket's path has at most 107 bytes."""
    keys = Path("/" + "k" * (length - 1))
    path = write_ansible_inventory(
        [replace(MACHINES[0], known_hosts=keys / "known_hosts")], {}, tmp_path / "hosts.yaml"
    )
    arguments = yaml.safe_load(path.read_text())["all"]["hosts"]["master"]["ansible_ssh_common_args"].split()
    assert ("ControlPath=none" not in arguments) == shares == (length + len("/cm-") + 40 + 17 <= 107)


def test_strangers_and_unknown_groups_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\['m9'\] that were not acquired"):
        write_ansible_inventory(MACHINES, {"workers": ["m9"]}, tmp_path / "hosts.yaml")
    with pytest.raises(ConfigurationError, match=r"\['slaves'\] are not known; known are master, workers, joining"):
        write_ansible_inventory(MACHINES, {"slaves": ["m1"]}, tmp_path / "hosts.yaml")


def test_joining_machines_that_do_not_exist_yet_are_left_out(tmp_path: Path) -> None:
    groups = {"master": ["master"], "workers": ["m1", "m2", "m3"], "joining": ["m2", "m3"]}
    path = write_ansible_inventory(MACHINES, groups, tmp_path / "hosts.yaml")
    children = yaml.safe_load(path.read_text())["all"]["children"]
    assert {group: list(body["hosts"]) for group, body in children.items()} == {
        "master": ["master"], "workers": ["m1", "m2"], "joining": ["m2"],
    }  # fmt: skip


def test_a_user_who_is_not_root_becomes_root(tmp_path: Path) -> None:
    ubuntu = replace(MACHINES[0], ssh_user="ubuntu")
    path = write_ansible_inventory([ubuntu, *MACHINES[1:]], {}, tmp_path / "hosts.yaml")
    hosts = yaml.safe_load(path.read_text())["all"]["hosts"]
    assert hosts["master"]["ansible_become"] is True and hosts["master"]["ansible_user"] == "ubuntu"
    assert "ansible_become" not in hosts["m1"]
