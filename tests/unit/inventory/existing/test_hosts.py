"""Inventory files of all kinds, and what is wrong with them."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from barograph.errors import CapacityError, ConfigurationError
from inventory.existing.hosts import (
    LOGINS,
    ExistingOptions,
    Host,
    Login,
    choose_hosts,
    host_key_lines,
    known_hosts_text,
    logins_file,
    write_logins,
)  # fmt: skip
from inventory.existing.survey import assign_hosts
from inventory.existing.testbed import ExistingTestbed
from inventory.leases import registry
from inventory.leases.reaper import reap
from inventory.machines import MACHINE_TYPES, MachineRequest

INI = """\
[lab]
node[01:03].example.org ansible_user=ubuntu
beta ansible_host=192.0.2.7 ansible_port=2222 machine_slots=2 experiment_address=198.51.100.7
[master]
beta
[spare]
gamma
[lab:vars]
ansible_ssh_private_key_file=/keys/lab
"""
WANTED = [
    MachineRequest("master", MACHINE_TYPES["master"]),
    *(MachineRequest(f"m{n}", MACHINE_TYPES["type_1"]) for n in (1, 2)),
]


def options(file: Path, text: str, **more: str) -> ExistingOptions:
    file.write_text(text)
    return ExistingOptions(inventory=str(file), **more)


def test_ranges_groups_and_variables(tmp_path: Path) -> None:
    chosen = choose_hosts(options(tmp_path / "hosts", INI, group="lab"))
    assert [host.called for host in chosen.hosts] == [
        "beta", "node01.example.org", "node02.example.org", "node03.example.org",
    ]  # fmt: skip
    assert chosen.hosts[0].slots == 2 and chosen.hosts[0].experiment_address == "198.51.100.7"
    assert str(chosen.hosts[0]).endswith("@192.0.2.7:2222)")
    node = chosen.hosts[1]
    assert (node.address, node.user, node.port, node.key) == ("node01.example.org", "ubuntu", 22, "/keys/lab")
    assert [(request.name, host.called) for request, host in assign_hosts(WANTED, chosen)] == [
        ("master", "beta"), ("m1", "node01.example.org"), ("m2", "node02.example.org"),
    ]  # fmt: skip
    more = [MachineRequest("m3", MACHINE_TYPES["type_1"])]
    used = ["beta", "node01.example.org"]
    assert [host.called for _, host in assign_hosts(more, chosen, used)] == ["node02.example.org"]
    with pytest.raises(CapacityError, match=r"5 machines are asked for, .*hosts has 4; list more"):
        assign_hosts([*WANTED, *(MachineRequest(f"m{n}", MACHINE_TYPES["type_1"]) for n in (3, 4))], chosen)


NESTED = """\
all:
  children:
    outer:
      hosts: {a: {ansible_ssh_host: 192.0.2.9, ansible_ssh_port: 2200, ansible_ssh_user: eve}}
      children:
        inner:
          hosts: {c: , d: }
    other:
      hosts: {b: }
"""


@pytest.mark.parametrize("is_folder", [False, True])
def test_machines_are_in_ansibles_order_and_old_names_of_variables_are_read(is_folder: bool, tmp_path: Path) -> None:
    """Ansible has the machines of all groups of a level before those of the groups in them."""
    chosen = choose_hosts(options(tmp_path / "hosts.yaml", NESTED))
    if is_folder:
        chosen = choose_hosts(ExistingOptions(inventory=str(tmp_path)))
    assert [host.called for host in chosen.hosts] == ["a", "b", "c", "d"]
    assert str(chosen.hosts[0]) == "a (eve@192.0.2.9:2200)"
    testbed = ExistingTestbed({"inventory": str(tmp_path)})
    assert testbed.remark() == "the master would be a (eve@192.0.2.9:2200)"


@pytest.mark.parametrize("arguments", ["-J gate", "-o ProxyJump=gate", "-o ProxyCommand='ssh -W %h:%p gate'"])
def test_a_jump_host_is_refused_by_name(arguments: str, tmp_path: Path) -> None:
    text = f'a ansible_ssh_common_args="{arguments}"\n'
    with pytest.raises(ConfigurationError, match=r"ansible_ssh_common_args of a is .* a jump host is not supported"):
        choose_hosts(options(tmp_path / "hosts", text))


def test_variables_in_a_vault_need_its_password(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3336\n")
    with pytest.raises(ConfigurationError, match=r"are in a vault.*set ANSIBLE_VAULT_PASSWORD_FILE to a file"):
        choose_hosts(options(tmp_path / "hosts", "a\n"))


def test_the_master_that_is_named_is_the_master(tmp_path: Path) -> None:
    chosen = choose_hosts(options(tmp_path / "hosts", INI, master="gamma"))
    assert chosen.hosts[0].called == "gamma" and len(chosen.hosts) == 5
    with pytest.raises(ConfigurationError, match=r"existing\.master is 'gamma'; group lab of .* has beta|has node01"):
        choose_hosts(options(tmp_path / "hosts", INI, group="lab", master="gamma"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all: [b", "is no Ansible inventory: .*Failed to parse"),
        ("a ansible_port=no", "ansible_port of a is 'no', must be a number from 1 to 65535"),
        ("a machine_slots=0", "machine_slots of a is 0, must be a number from 1 to 64"),
        ("a ansible_host='{{ address }}'", "ansible_host of a is '{{ address }}'; write the value itself"),
        ("a ansible_connection=local", "ansible_connection of a is 'local', must be ssh"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        choose_hosts(options(tmp_path / "hosts.yml" if text.startswith("all") else tmp_path / "hosts", text))


def test_what_is_wrong_before_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"inventory is .*nowhere: there is no such file"):
        ExistingTestbed({"inventory": str(tmp_path / "nowhere")}).check(WANTED)
    with pytest.raises(ConfigurationError, match=r"options\.existing\.inventory is missing: give the path"):
        ExistingTestbed().check(WANTED)
    with pytest.raises(ConfigurationError, match="inventroy is not known; known are inventory, group"):
        ExistingTestbed({"inventory": "x", "inventroy": "y"})
    with pytest.raises(ConfigurationError, match=r"group is 'lbs'; .* has the groups .*lab"):
        choose_hosts(options(tmp_path / "hosts", INI, group="lbs"))


def test_one_machine_under_two_names_is_refused(tmp_path: Path) -> None:
    text = "a ansible_host=127.0.0.1\nb ansible_host=localhost\nc ansible_host=localhost ansible_port=23\n"
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"1 to mend .*a \(.*127.0.0.1:22\) and b .* are the same machine"):
        ExistingTestbed({"inventory": str(file)}).check(WANTED)


def test_a_host_key_is_found_under_its_hashed_name(tmp_path: Path) -> None:
    file, key = (
        tmp_path / "known_hosts",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPo6UKdhmAULqTg7dKZtHbAHbS1CWiSEuEvXkLkpUjs6",
    )
    file.write_text(f"[192.0.2.7]:2222 {key}\n192.0.2.8 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    (line,) = host_key_lines(Host("beta", "192.0.2.7", 2222, "ubuntu"), file)
    assert line.startswith("|1|") and line.endswith(key)
    with pytest.raises(ConfigurationError, match=r"beta \(ubuntu@192.0.2.7:22\): .*known_hosts has no host key of 192"):
        host_key_lines(Host("beta", "192.0.2.7", 22, "ubuntu"), file)


def test_doors_survive_the_leases_record() -> None:
    many = (Login("beta", "192.0.2.7", 2222, "ubuntu", "/keys/lab", ("a b c", "d e f")),)
    assert LOGINS.validate_json(LOGINS.dump_json(many)) == many
    assert known_hosts_text(many) == "a b c\nd e f\n"


def test_a_lease_has_each_name_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    lease = registry.take("o", "s", "existing", 60)
    registry.hold(lease, ["master", "m1"])
    with pytest.raises(ConfigurationError, match="has m1 already"):
        ExistingTestbed({"inventory": "hosts"}).grow(lease, WANTED[1:])


def test_a_silent_machine_of_a_lost_lease_keeps_no_run_off_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    write_logins("1234abcd", [Login("beta", "127.0.0.1", 9, "ubuntu", str(tmp_path / "key"), ())])
    (answer,) = reap(testbeds={"existing": ExistingTestbed}) or (None,)
    assert answer is None, "else every `barograph run` is refused until the lease ends"
    assert ExistingTestbed().leftovers() == ("machines of 1234abcd",), "the next pass tries again"
    week_ago = time.time() - 8 * 86400
    os.utime(logins_file("1234abcd"), (week_ago, week_ago))
    assert ExistingTestbed().sweep() == ("machines of 1234abcd",) and ExistingTestbed().leftovers() == ()
