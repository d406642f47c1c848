"""The machines of an Ansible inventory file, as `ansible-inventory` reads it (INI, YAML, ranges, group variables),
and the experiment's options about them (`testbed.options.existing`).
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from barograph.errors import ConfigurationError
from inventory.testbed import TestbedOptions

Word = Annotated[str, Field(min_length=1)]


class ExistingOptions(TestbedOptions):
    """`testbed.options.existing`."""

    inventory: Word = Field(
        description="give the path of an Ansible inventory file (INI or YAML) that lists the machines"
    )
    group: Word = "all"  # the machines of this group, in the file's order
    master: Word | None = None  # the master's name; None: the first of group `master`, else the first
    ssh_key: Word | None = None  # for machines without ansible_ssh_private_key_file; None: the user's first own key
    known_hosts: Word = "~/.ssh/known_hosts"

    def inventory_file(self) -> Path:
        return Path(self.inventory).expanduser().absolute()


LIMIT_S = 300.0  # a dynamic inventory may ask others
HOST_VARIABLES = (
    "ansible_host", "ansible_port", "ansible_user", "ansible_ssh_private_key_file", "ansible_connection",
    "experiment_address", "inside_address", "machine_slots",
)  # fmt: skip
# Without this a file that cannot be read counts as a file without machines.
STRICT_PARSING = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "1"}


@dataclass(frozen=True)
class Host:
    """One machine under its owner's name and addresses. An address or key that is not set is None."""

    called: str
    address: str
    port: int
    user: str
    key: str | None = None
    experiment_address: str | None = None
    inside_address: str | None = None
    slots: int | None = None

    def __str__(self) -> str:
        return f"{self.called} ({self.user}@{self.address}:{self.port})"


@dataclass(frozen=True)
class HostChoice:
    """The machines that may be used, the master first."""

    file: Path
    hosts: tuple[Host, ...]


def choose_hosts(options: ExistingOptions) -> HostChoice:
    """Return the group's machines, the master first. ConfigurationError says what is wrong with the file."""
    file = options.inventory_file()
    groups = read_inventory_file(file)
    names = _group_hosts(groups, options.group, file)
    hosts = [_host(name, groups["_meta"]["hostvars"].get(name, {}), file) for name in names]
    master = _master(options, groups, names, file)
    first = [host for host in hosts if host.called == master]
    return HostChoice(file, (*first, *(host for host in hosts if host.called != master)))


def read_inventory_file(file: Path) -> dict[str, Any]:
    """Return the output of `ansible-inventory --list` for the file."""
    if not file.is_file():
        raise ConfigurationError(
            f"testbed.options.existing.inventory is {file}: there is no such file; give an Ansible inventory file"
        )
    argv = [str(Path(sys.executable).with_name("ansible-inventory")), "--list", "-i", str(file)]
    try:
        process = subprocess.run(
            argv, capture_output=True, text=True, env={**os.environ, **STRICT_PARSING}, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"{file}: ansible-inventory did not end within {LIMIT_S:g} s") from error
    if process.returncode != 0:
        raise ConfigurationError(
            f"{file} is no Ansible inventory: {_parse_error(process.stderr)}; see `{' '.join(argv)}`"
        )
    groups: dict[str, Any] = json.loads(process.stdout)
    return groups


def _parse_error(stderr: str) -> str:
    """Return the message of the parser for this kind of file (the last one tried) and its place."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    messages = [
        line.partition("] ")[2] or line for line in lines if re.search(r"Failed to parse inventory( with|:)", line)
    ]
    places = [line for line in lines if line.startswith("Origin:")]
    return " / ".join(dict.fromkeys([*messages[:1], *places[:1]])) or " / ".join(lines[-2:]) or "no message"


def _group_hosts(listed: Mapping[str, Any], group: str, file: Path) -> tuple[str, ...]:
    groups = [name for name in listed if name != "_meta"]
    if group not in groups and group != "all":
        raise ConfigurationError(
            f"testbed.options.existing.group is {group!r}; {file} has the groups {', '.join(sorted(groups))}"
        )
    return tuple(dict.fromkeys(_hosts_below(listed, group)))


def _hosts_below(listed: Mapping[str, Any], group: str) -> list[str]:
    body = listed.get(group, {})
    below = [name for child in body.get("children", []) for name in _hosts_below(listed, child)]
    return [*body.get("hosts", []), *below]


def _master(options: ExistingOptions, listed: Mapping[str, Any], names: Sequence[str], file: Path) -> str | None:
    if options.master is not None:
        if options.master not in names:
            raise ConfigurationError(
                f"testbed.options.existing.master is {options.master!r}; group {options.group} of {file} has "
                f"{', '.join(names) or 'no machine'}"
            )
        return options.master
    grouped = [name for name in _hosts_below(listed, "master") if name in names]
    return next(iter(grouped or names), None)


def _host(called: str, variables: Mapping[str, Any], file: Path) -> Host:
    values = {name: variables[name] for name in HOST_VARIABLES if variables.get(name) not in (None, "")}
    for name, value in values.items():
        if not isinstance(value, str | int) or "{{" in str(value):
            raise ConfigurationError(f"{file}: {name} of {called} is {value!r}; write the value itself")
    if (connection := values.get("ansible_connection", "ssh")) not in ("ssh", "smart", "paramiko"):
        raise ConfigurationError(f"{file}: ansible_connection of {called} is {connection!r}, must be ssh")
    return Host(
        called,
        str(values.get("ansible_host", called)),
        _number(called, "ansible_port", values.get("ansible_port", 22), (1, 65535), file),
        str(values.get("ansible_user") or getuser()),
        _text(values.get("ansible_ssh_private_key_file")),
        _text(values.get("experiment_address")),
        _text(values.get("inside_address")),
        _number(called, "machine_slots", values["machine_slots"], (1, 64), file) if "machine_slots" in values else None,
    )


def _number(called: str, name: str, value: Any, allowed: tuple[int, int], file: Path) -> int:
    least, most = allowed
    if not str(value).isdigit() or not least <= int(value) <= most:
        raise ConfigurationError(f"{file}: {name} of {called} is {value!r}, must be a number from {least} to {most}")
    return int(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
