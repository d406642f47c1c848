"""A lease's machines as an Ansible inventory file."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from barograph.errors import ConfigurationError
from inventory.files import replace_file
from inventory.machines import Machine

GROUPS = ("master", "workers", "joining")
LONGEST_SOCKET = 107  # bytes of a socket's path
SSH_SUFFIX = 17  # that ssh appends while it makes one
PYTHON = "/usr/bin/python3"


def write_ansible_inventory(machines: Sequence[Machine], groups: Mapping[str, Sequence[str]], path: Path) -> Path:
    """Write a YAML inventory and return its path (pass Ansible this file, never its folder).

    `groups` maps `master`, `workers`, `joining` to machine names; a group that is missing is empty. Machines of
    `joining` that do not exist yet are left out of it and of `workers`. Every machine carries its addresses and
    `machine_cores`, `machine_memory_mb`, `machine_slots`, … as host variables.
    """
    names, joining = [machine.name for machine in machines], groups.get("joining", ())
    if unknown := [group for group in groups if group not in GROUPS]:
        raise ConfigurationError(f"inventory groups {unknown} are not known; known are {', '.join(GROUPS)}")
    if strangers := [name for group in groups.values() for name in group if name not in (*names, *joining)]:
        raise ConfigurationError(
            f"inventory groups name machines {strangers} that were not acquired; acquired: {names}"
        )
    children = {group: {"hosts": {name: None for name in groups.get(group, ()) if name in names}} for group in GROUPS}
    hosts = {machine.name: _host_vars(machine) for machine in machines}
    inventory = {"all": {"hosts": hosts, "children": children}}
    replace_file(path, yaml.safe_dump(inventory, sort_keys=False, default_flow_style=False))
    return path


def _host_vars(machine: Machine) -> dict[str, object]:
    # The control sockets live beside the lease's key and go with it. %C is a hash of 40 characters.
    sockets = machine.known_hosts.parent / "cm-%C"
    ssh_options = {
        "UserKnownHostsFile": machine.known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "ControlMaster": "auto",
        "ControlPersist": "60s",
        # Below a longer folder every task has a connection of its own: slower, but the machines are reached.
        "ControlPath": sockets if len(os.fsencode(sockets)) - 2 + 40 + SSH_SUFFIX <= LONGEST_SOCKET else "none",
    }
    words = [word for key, value in ssh_options.items() for word in ("-o", f"{key}={value}")]
    return {
        **({} if machine.ssh_user == "root" else {"ansible_become": True}),
        "ansible_host": machine.control_address,
        "ansible_port": machine.ssh_port,
        "ansible_user": machine.ssh_user,
        "ansible_ssh_private_key_file": str(machine.ssh_key),
        "ansible_ssh_common_args": shlex.join(words),
        "ansible_python_interpreter": PYTHON,
        "inside_address": machine.inside_address,
        "experiment_address": machine.experiment_address,
        "machine_type": machine.type.name,
        "machine_cores": machine.type.cores,
        "machine_memory_mb": machine.type.memory_mb,
        "machine_bandwidth_mbit": machine.type.bandwidth_mbit,
        "machine_slots": machine.type.slots,
    }
