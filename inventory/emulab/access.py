"""What both accesses to Emulab (portal, classic) share: `testbed.options.emulab`, waiting times, Emulab's messages as
errors, the project's ops host, and the login on each node until it is root there. Experiments are identified by name;
everything but their start may be repeated.

Host keys are known before the first connection. The ops host scans them (`ssh-keyscan`): that goes through Emulab's own
control net, where only Emulab's machines are, and comes to us over a connection whose host key is known. A manifest has
no host keys. Where the nodes are on another cluster than the ops host, the scan leaves that net: then give
`known_hosts`.
"""

import re
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from barograph.yaml_files import PathText
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineType
from inventory.remote.ssh import Remote, Result, SudoRefusedError, connect
from inventory.testbed import TestbedOptions, read_options

NAME = "emulab"
# Every word below ends up in a command line, a path or a URL on somebody else's machine, so each has a pattern.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Project = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{1,31}$")]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$")]
Port = Annotated[int, Field(gt=0, lt=65536)]


class EmulabOptions(TestbedOptions):
    """Options of both accesses."""

    user: Word = Field(description="your user name on Emulab; machines are reached as this user")
    project: Project = Field(description="the Emulab project that the experiment belongs to")
    ssh_key: PathText = Field(description="path of your private key, whose public half Emulab has")
    known_hosts: PathText | None = None  # a file with the machines' host keys; else ops_host scans them
    ops_host: Host | None = None
    ops_port: Port = 22
    ops_known_hosts: PathText = "~/.ssh/known_hosts"  # must know ops_host before the first connection
    longest_hours: Annotated[int, Field(gt=0, le=24 * 14)] = 24
    ready_minutes: Annotated[float, Field(gt=0, le=24 * 60)] = 45.0


class PortalOptions(EmulabOptions):
    """Options of the portal's REST interface."""

    access: Literal["portal"]
    endpoint: str = "https://boss.emulab.net:43794"
    profile: Word = Field(description="the profile that describes the machines and their LAN")
    profile_project: Project = Field(description="the project that owns the profile, for example PortalProfiles")
    bindings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    count_binding: str | None = None  # the profile's parameter that is set to the number of machines

    @field_validator("endpoint")
    @classmethod
    def _safe(cls, value: str) -> str:
        parts = urlsplit(value)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost"))
        if not parts.hostname or parts.query or not is_safe:
            raise ValueError("must be https://host:port; the token must not travel in the clear")
        return value.rstrip("/")


class ClassicOptions(EmulabOptions):
    """Options of the project's ops host over ssh, with an NS file."""

    access: Literal["classic"]
    ops_host: Host = "ops.emulab.net"
    image: Word = "UBUNTU24-64-STD"  # our programs on the machines need Python 3.11; Ubuntu 22.04 has 3.10
    hardware: dict[str, Word] = Field(default_factory=dict)  # laid over hardware.yaml
    node_port: Port = 22


ACCESS_MODELS: dict[str, type[PortalOptions] | type[ClassicOptions]] = {
    "portal": PortalOptions,
    "classic": ClassicOptions,
}


def read_emulab_options(options: Mapping[str, object]) -> PortalOptions | ClassicOptions:
    """Return the options of the chosen access; a ConfigurationError names every wrong field."""
    access, place = options.get("access"), f"testbed.options.{NAME}"
    if not isinstance(access, str) or access not in ACCESS_MODELS:
        raise ConfigurationError(
            f"{place}.access is {access!r}; allowed are {', '.join(ACCESS_MODELS)} (docs/testbeds.md)"
        )
    return read_options(ACCESS_MODELS[access], NAME, options)


def require_files(options: EmulabOptions) -> None:
    """Raise ConfigurationError where a file that the options name is not there."""
    place = f"testbed.options.{NAME}"
    for field in ("ssh_key", "known_hosts"):
        value = getattr(options, field)
        if value is not None and not expand_path(value).is_file():
            raise ConfigurationError(f"{place}.{field} is {value!r}: there is no such file; name one")
    if options.ops_host and not expand_path(options.ops_known_hosts).is_file():
        raise ConfigurationError(
            f"{place}.ops_known_hosts is {options.ops_known_hosts!r}: there is no such file; log in to "
            f"{options.ops_host} once and compare its key with the one that Emulab publishes"
        )
    if not (options.ops_host or options.known_hosts):
        raise ConfigurationError(
            f"{place} has neither ops_host nor known_hosts: the machines' host keys would be unknown; "
            "set ops_host (they are asked for through it) or known_hosts (a file that has them)"
        )


def expand_path(path: str) -> Path:
    return Path(path).expanduser().absolute()


@dataclass(frozen=True)
class EmulabTiming:
    """Polling intervals and time limits for Emulab, in seconds."""

    poll_s: float = 15.0
    end_s: float = 900.0  # an experiment in transition cannot be ended before the transition is over
    busy_s: float = 120.0  # "try again later"
    connect_s: float = 20.0
    refused_s: float = 60.0
    ssh_s: float = 300.0  # from Emulab's `ready` to a node's first answer over ssh


ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")


@dataclass(frozen=True)
class Node:
    """Addresses of an experiment's machine. `inside_address` is its control address as its neighbours see it.

    Raises ConfigurationError for what is no address: ssh would take it as an option, Ansible as a template.
    """

    name: str
    control_address: str
    ssh_port: int
    inside_address: str
    experiment_address: str

    def __post_init__(self) -> None:
        for address in (self.control_address, self.inside_address, self.experiment_address):
            if not ADDRESS.fullmatch(address):
                raise ConfigurationError(
                    f"emulab: {self.name} has the address {address!r} in Emulab's answer, which is no IP address and no"
                    " host name; is testbed.options.emulab.endpoint right?"
                )


# The words are Emulab's: tbsetup's mapper and reservation messages, and the parser of NS files.
_CAPACITY_WORDS = re.compile(
    r"reservation violation|not enough|insufficient|no possible mapping|only \d+ (are |is )?available"
    r"|unable to (allocate|assign)|nodes? (are|is) (in use|not available)|no more nodes",
    re.IGNORECASE,
)
_CONFIGURATION_WORDS = re.compile(
    r"invalid|no such|not permitted|permission|unknown|parse error|syntax error|does not exist|already exists"
    r"|bad (data|argument|name)|not a (valid|member)",
    re.IGNORECASE,
)


def emulab_error(what: str, words: str) -> BarographError:
    """Return an error for `what` with the blame that Emulab's words indicate; infrastructure if they do not."""
    message = " ".join(words.split())[-600:] or "nothing"
    if _CAPACITY_WORDS.search(words):
        return CapacityError(
            f"emulab: {what}: it has no such machines free now; it said: {message}; try later or fewer"
        )
    if _CONFIGURATION_WORDS.search(words):
        return ConfigurationError(f"emulab: {what}: refused; it said: {message}; mend testbed.options.emulab")
    return InfrastructureError(f"emulab: {what}; it said: {message}; start again, or look at its experiment page")


_OPS_TYPE = MachineType("ops", 1, 1, 1, 0)  # nothing runs on it; `connect` needs a machine
SCAN_S = 20


@dataclass(frozen=True)
class OpsAccount:
    """Login on the ops host."""

    host: str
    port: int
    user: str
    ssh_key: Path
    known_hosts: Path


class OpsHost:
    """One connection to the ops host; a context manager."""

    def __init__(self, account: OpsAccount) -> None:
        self.account = account
        self._remote: Remote | None = None

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """Run a program there; a non-zero code is a result."""
        assert self._remote is not None
        return self._remote.run(argv, timeout_s)

    def write(self, path: str, text: str) -> None:
        """Write a file below the user's home; its folder must exist."""
        assert self._remote is not None
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "text").write_text(text)
            self._remote.put(Path(folder) / "text", path)

    def __enter__(self) -> Self:
        account = self.account
        place = Machine(
            "the ops host", _OPS_TYPE, account.host, account.host, account.host, account.user, account.port,
            account.ssh_key, account.known_hosts,
        )  # fmt: skip
        try:
            self._remote = connect(place, as_user=True)
        except (InfrastructureError, OSError) as error:
            raise _unreachable_error(account, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._remote is not None:
            self._remote.close()


def _unreachable_error(account: OpsAccount, error: Exception) -> ConfigurationError | InfrastructureError:
    import paramiko

    where, why = f"emulab: ops host {account.user}@{account.host}:{account.port}", error.__cause__ or error
    login = shlex.join(["ssh", "-p", str(account.port), "-l", account.user, account.host])
    if isinstance(why, FileNotFoundError):
        return ConfigurationError(f"{where}: {why.filename} is missing; check ssh_key and ops_known_hosts")
    if isinstance(why, paramiko.BadHostKeyException):
        return ConfigurationError(
            f"{where} shows another host key than {account.known_hosts} has; if Emulab announced a new one, replace it"
        )
    if isinstance(why, paramiko.AuthenticationException):
        return ConfigurationError(
            f"{where} refuses {account.ssh_key} ({why}); upload its public half on your Emulab account's page, "
            "check testbed.options.emulab.user"
        )
    if isinstance(why, paramiko.SSHException) and "not found in known_hosts" in str(why):
        return ConfigurationError(
            f"{where} is not in {account.known_hosts}; log in once with `{login}` and compare its key with the one "
            "that Emulab publishes"
        )
    return InfrastructureError(f"{where} does not answer ({why}); check ops_host and the network, then try again")


def host_keys_from_file(nodes: Sequence[Node], source: Path) -> str:
    """Return the user's host keys of the nodes; a ConfigurationError lists nodes without one."""
    import paramiko

    try:
        host_keys = paramiko.HostKeys(str(source))
    except (OSError, paramiko.SSHException) as error:
        raise ConfigurationError(f"testbed.options.emulab.known_hosts: {source} cannot be read: {error}") from error
    if strangers := [_known_hosts_name(node) for node in nodes if host_keys.lookup(_known_hosts_name(node)) is None]:
        raise ConfigurationError(
            f"testbed.options.emulab.known_hosts: {source} has no key of {', '.join(strangers)}; add them, "
            "or set ops_host to have them scanned from there"
        )
    return source.read_text()


def scan_host_keys(nodes: Sequence[Node], account: OpsAccount, timing: EmulabTiming) -> str:
    """Return the nodes' host keys as the ops host sees them; it waits for each node to answer ssh."""
    deadline, lines = time.monotonic() + timing.ssh_s, list[str]()
    with OpsHost(account) as ops:
        for node in nodes:
            argv = ["ssh-keyscan", "-T", "5", "-p", str(node.ssh_port), node.control_address]
            while not (keys := re.findall(r"^[^#\n].*$", ops.run(argv, SCAN_S).stdout, re.MULTILINE)):
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"emulab: {node.name} ({_known_hosts_name(node)}) shows {account.host} no host key after "
                        f"{timing.ssh_s:g} s; look at its console, or start again"
                    )
                time.sleep(timing.poll_s)
            lines += keys
    return "".join(f"{line}\n" for line in lines)


def _known_hosts_name(node: Node) -> str:
    return node.control_address if node.ssh_port == 22 else f"[{node.control_address}]:{node.ssh_port}"


KNOWN_HOSTS = "known_hosts"


def login_on_nodes(
    lease: Lease, nodes: Sequence[Node], types: Sequence[MachineType], options: EmulabOptions, timing: EmulabTiming,
    begun: float,
) -> tuple[Machine, ...]:  # fmt: skip
    """Return each node as a machine once login works; `begun` is the time of the request (monotonic)."""
    if options.known_hosts is not None:
        host_keys = host_keys_from_file(nodes, expand_path(options.known_hosts))
    else:
        host_keys = scan_host_keys(nodes, ops_account(options), timing)
    known_hosts = registry.key_dir(lease.lease_id) / KNOWN_HOSTS
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with known_hosts.open("a") as file:
        file.write(host_keys)
    machines = []
    for node, type in zip(nodes, types, strict=True):
        machine = Machine(
            node.name, type, node.control_address, node.experiment_address, node.inside_address, options.user,
            node.ssh_port, expand_path(options.ssh_key), known_hosts,
        )  # fmt: skip
        start = time.monotonic()
        while (error := _login_error(machine)) is not None:
            # Accounts are created while a node boots, so a refusal may pass too, but gets less time than silence.
            limit_s = timing.refused_s if error.blame == "configuration" else timing.ssh_s
            if time.monotonic() - start > limit_s:
                raise error
            time.sleep(timing.poll_s)
        machines.append(replace(machine, boot_s=time.monotonic() - begun))
    return tuple(machines)


def ops_account(options: EmulabOptions) -> OpsAccount:
    assert options.ops_host is not None  # read_emulab_options ensures that either this or known_hosts is set
    key, known_hosts = expand_path(options.ssh_key), expand_path(options.ops_known_hosts)
    return OpsAccount(options.ops_host, options.ops_port, options.user, key, known_hosts)


def _login_error(machine: Machine) -> BarographError | None:
    """Return why login as root fails on the machine; None if it works."""
    import paramiko

    try:
        with connect(machine) as remote:
            remote.run(["true"])  # as root, like all commands there
    except SudoRefusedError as error:
        return ConfigurationError(f"emulab: {error}, or use an image of Emulab's, where project members may")
    except InfrastructureError as error:
        if isinstance(error.__cause__, paramiko.AuthenticationException):
            return ConfigurationError(
                f"emulab: {machine.name} refuses {machine.ssh_key} for {machine.ssh_user}; upload its public half on "
                "your Emulab account's page and check testbed.options.emulab.user"
            )
        return error
    return None
