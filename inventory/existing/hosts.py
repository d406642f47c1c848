"""The machines of an Ansible inventory file, as `ansible-inventory` reads it (INI, YAML, ranges, group variables), the
experiment's options about them (`testbed.options.existing`), and logins on them: the owner's key and known host keys.
In `<state>/existing/<lease>.json` are the machines that this harness uses for a lease.
"""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from barograph.errors import ConfigurationError
from barograph.yaml_files import PathText
from inventory.files import replace_file
from inventory.leases import registry
from inventory.machines import Machine, MachineType
from inventory.testbed import TestbedOptions

Word = Annotated[str, Field(min_length=1)]


class ExistingOptions(TestbedOptions):
    """`testbed.options.existing`."""

    inventory: PathText = Field(
        description="give the path of an Ansible inventory (a file or a folder) that lists the machines"
    )
    group: Word = "all"  # the machines of this group, in Ansible's order
    master: Word | None = None  # the master's name; None: the first of group `master`, else the first
    ssh_key: PathText | None = None  # for machines without ansible_ssh_private_key_file; None: the user's first own key
    known_hosts: PathText = "~/.ssh/known_hosts"


LIMIT_S = 300.0  # a dynamic inventory may ask others
HOST_VARIABLES = (
    "ansible_host", "ansible_port", "ansible_user", "ansible_ssh_private_key_file", "ansible_connection",
    "experiment_address", "inside_address", "machine_slots",
)  # fmt: skip
ALIASES = {f"ansible_ssh_{name}": f"ansible_{name}" for name in ("host", "port", "user")}
SSH_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
JUMP = re.compile(r"(?i)proxyjump|proxycommand|(^|\s)-[JW]")
# Without this a file that cannot be read counts as a file without machines.
STRICT_PARSING = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "1"}
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")  # as ssh tries them
KEYGEN_LIMIT_S = 10.0  # to read a file
UNKNOWN_TYPE = MachineType("unmeasured", 0.0, 0, 0, 0)


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
    file = Path(options.inventory).expanduser().absolute()
    inventory = _read_inventory_file(file)
    groups = sorted(name for name in inventory if name != "_meta")
    if options.group not in (*groups, "all"):
        raise ConfigurationError(
            f"testbed.options.existing.group is {options.group!r}; {file} has the groups {', '.join(groups)}"
        )
    names = list(dict.fromkeys(_hosts_below(inventory, options.group)))
    if options.master is not None and options.master not in names:
        raise ConfigurationError(
            f"testbed.options.existing.master is {options.master!r}; group {options.group} of {file} has "
            f"{', '.join(names) or 'no machine'}"
        )
    grouped = [name for name in _hosts_below(inventory, "master") if name in names]
    master = options.master or next(iter(grouped or names), None)
    hosts = [_host(name, inventory["_meta"]["hostvars"].get(name, {}), file) for name in names]
    return HostChoice(file, tuple(sorted(hosts, key=lambda host: host.called != master)))


def _read_inventory_file(file: Path) -> dict[str, Any]:
    """Return the output of `ansible-inventory --list` for the file."""
    if not file.exists():
        raise ConfigurationError(
            f"testbed.options.existing.inventory is {file}: there is no such file; give an Ansible inventory file, or"
            " a folder of them"
        )
    argv = [str(Path(sys.executable).with_name("ansible-inventory")), "--list", "-i", str(file)]
    try:
        process = subprocess.run(
            argv, capture_output=True, text=True, env={**os.environ, **STRICT_PARSING}, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"{file}: ansible-inventory did not end within {LIMIT_S:g} s") from error
    if process.returncode != 0:
        if "vault" in process.stderr:
            raise ConfigurationError(
                f"{file}: its variables are in a vault, and {' '.join(process.stderr.split())[-200:]};"
                " set ANSIBLE_VAULT_PASSWORD_FILE to a file with its password"
            )
        # The message of the parser for this kind of file (the last one tried) and its place.
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        messages = [
            line.partition("] ")[2] or line for line in lines if re.search(r"Failed to parse inventory( with|:)", line)
        ]
        places = [line for line in lines if line.startswith("Origin:")]
        why = " / ".join(dict.fromkeys([*messages[:1], *places[:1]])) or " / ".join(lines[-2:]) or "no message"
        raise ConfigurationError(f"{file} is no Ansible inventory: {why}; see `{' '.join(argv)}`")
    groups: dict[str, Any] = json.loads(process.stdout)
    return groups


def _hosts_below(inventory: Mapping[str, Any], group: str) -> list[str]:
    """Return a group's machines in Ansible's order: its own, those of its children, those of their children."""
    groups = [group]
    for each in groups:  # it grows
        groups += [name for name in inventory.get(each, {}).get("children", []) if name not in groups]
    return [name for each in groups for name in inventory.get(each, {}).get("hosts", [])]


def _host(called: str, variables: Mapping[str, Any], file: Path) -> Host:
    # Ansible still takes the names of its first years, and prefers them.
    variables = {**variables, **{new: variables[old] for old, new in ALIASES.items() if variables.get(old)}}
    for name in SSH_ARGUMENTS:
        if JUMP.search(str(variables.get(name, ""))):
            raise ConfigurationError(
                f"{file}: {name} of {called} is {variables[name]!r}; a jump host is not supported: run barograph on a"
                " machine that reaches it directly, such as the jump host, and remove the option"
            )
    values = {name: variables[name] for name in HOST_VARIABLES if variables.get(name) not in (None, "")}
    for name, value in values.items():
        if not isinstance(value, str | int) or "{{" in str(value):
            raise ConfigurationError(f"{file}: {name} of {called} is {value!r}; write the value itself")
    if (connection := values.get("ansible_connection", "ssh")) not in ("ssh", "smart", "paramiko"):
        raise ConfigurationError(f"{file}: ansible_connection of {called} is {connection!r}, must be ssh")
    for name, most in (("ansible_port", 65535), ("machine_slots", 64)):
        value = str(values.get(name, 1))
        if not value.isdigit() or not 1 <= int(value) <= most:
            raise ConfigurationError(
                f"{file}: {name} of {called} is {values[name]!r}, must be a number from 1 to {most}"
            )
    texts = {name: str(value) for name, value in values.items()}
    slots = texts.get("machine_slots")
    return Host(
        called, texts.get("ansible_host", called), int(texts.get("ansible_port", 22)),
        texts.get("ansible_user") or getuser(), texts.get("ansible_ssh_private_key_file"),
        texts.get("experiment_address"), texts.get("inside_address"), int(slots) if slots else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Login:
    """Data for a login from another process. `known` are lines of a known_hosts file: public keys, no secrets."""

    called: str
    address: str
    port: int
    user: str
    key: str
    known: tuple[str, ...]

    def machine(self, name: str, known_hosts: Path) -> Machine:
        """Return a machine to connect to under that name, its type unmeasured. Its host key must be in the file."""
        at = self.address
        return Machine(name, UNKNOWN_TYPE, at, at, at, self.user, self.port, Path(self.key), known_hosts)


LOGINS = TypeAdapter(tuple[Login, ...])


def login_to(host: Host, options: ExistingOptions) -> Login:
    """Return the login; ConfigurationError without a key or a known host key."""
    host_keys = host_key_lines(host, Path(options.known_hosts).expanduser())
    key = host.key or options.ssh_key
    candidates = [Path(key).expanduser()] if key else [Path("~/.ssh", name).expanduser() for name in DEFAULT_KEYS]
    for path in candidates:
        if path.is_file():
            return Login(host.called, host.address, host.port, host.user, str(path.absolute()), host_keys)
    raise ConfigurationError(
        f"{host}: no ssh key, looked for {', '.join(str(path) for path in candidates)}; set "
        "ansible_ssh_private_key_file in the inventory or testbed.options.existing.ssh_key"
    )


def host_key_lines(host: Host, file: Path) -> tuple[str, ...]:
    """Return the user's known_hosts lines of the machine, hashed names included; nothing is trusted on first use."""
    name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
    argv = ["ssh-keygen", "-F", name, "-f", str(file)]
    try:
        process = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=KEYGEN_LIMIT_S)
    except subprocess.TimeoutExpired as error:  # a pipe, or a file on a network that hangs
        raise ConfigurationError(
            f"{host}: {file} was not read within {KEYGEN_LIMIT_S:g} s; give a plain file"
        ) from error
    # `@cert-authority` and `@revoked` are not keys of a machine.
    lines = tuple(line for line in process.stdout.splitlines() if line and not line.startswith(("#", "@")))
    if not lines:
        raise ConfigurationError(
            f"{host}: {file} has no host key of {name}; log in once with ssh and compare its fingerprint, or name "
            "another file in testbed.options.existing.known_hosts"
        )
    return lines


def known_hosts_text(logins: Iterable[Login]) -> str:
    """Return the content of a known_hosts file for these machines."""
    return "".join(f"{line}\n" for login in logins for line in login.known)


def duplicate_hosts(hosts: Sequence[Host]) -> list[str]:
    """Return a message for each two names of one machine: the same port of the same address, however it is written."""
    hosts_by_address: dict[tuple[str, int], Host] = {}
    problems = []
    for host in hosts:
        first = hosts_by_address.setdefault((resolve_address(host.address), host.port), host)
        if first is not host:
            problems.append(f"{first} and {host} are the same machine: remove one of them")
    return problems


def resolve_address(address: str) -> str:
    """Return the IPv4 address that ssh would use; a name without one stays as it is."""
    try:
        return str(socket.getaddrinfo(address, None, socket.AF_INET)[0][4][0])
    except OSError:
        return address  # connecting to it fails with that message


def logins_file(lease_id: str) -> Path:
    return registry.state_dir() / "existing" / f"{lease_id}.json"


def read_logins(lease_id: str) -> tuple[Login, ...]:
    """Return the machines that the lease has; none if it never had any."""
    try:
        return LOGINS.validate_json(logins_file(lease_id).read_text())
    except FileNotFoundError:
        return ()


def write_logins(lease_id: str, logins: Sequence[Login]) -> None:
    """Record these as the lease's machines; a reader sees the old file or the new one."""
    replace_file(logins_file(lease_id), LOGINS.dump_json(tuple(logins)).decode())
