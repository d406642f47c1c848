"""Assign names to machines and look at each: all at once, and all problems in one error.

facts.sh prints a machine's facts.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory import machines
from inventory.existing import logins
from inventory.existing.hosts import ExistingOptions, Host, HostChoice
from inventory.existing.logins import Login, resolve_address
from inventory.existing.ownership import Owner
from inventory.leases import registry
from inventory.leases.registry import harness_id
from inventory.machines import Machine, MachineRequest, MachineType
from inventory.remote.ssh import Remote, connect

One = TypeVar("One")
Answer = TypeVar("Answer")


def call_for_each(many: Sequence[One], do: Callable[[One], Answer]) -> list[Answer | BarographError]:
    """Return answers, or failures, in the order of `many`."""

    def one(thing: One) -> Answer | BarographError:
        try:
            return do(thing)
        except BarographError as error:
            return error

    with ThreadPoolExecutor(len(many) or 1) as pool:
        return list(pool.map(one, many))


def call_for_all(many: Sequence[One], do: Callable[[One], Answer], what: str) -> list[Answer]:
    """Return the answers if none failed; else an InfrastructureError that names all failures begins with `what`."""
    answers = call_for_each(many, do)
    if failures := [str(answer) for answer in answers if isinstance(answer, BarographError)]:
        raise InfrastructureError(f"existing: {what}: {'; '.join(failures)}")
    return [answer for answer in answers if not isinstance(answer, BarographError)]


FACTS_SCRIPT = Path(__file__).with_name("facts.sh")
SYSTEMS = ("debian", "ubuntu")
LEAST_PYTHON = (3, 11)
JAVA_VERSION = "17"


@dataclass(frozen=True)
class MachineFacts:
    """Facts about a machine. `lease` is the content of a lease.json that another harness, or we, left there."""

    system: str
    families: tuple[str, ...]
    has_apt: bool
    python: tuple[int, ...]
    java: str | None
    java_to_install: bool
    cores: float
    memory_mb: int
    addresses: tuple[str, ...]
    lease: Mapping[str, Any] | None
    filters: bool = True
    storm: tuple[tuple[str, str, str, str], ...] = ()  # of other programs: pid, user, ports, class
    listeners: tuple[tuple[str, str, str, str], ...] = ()  # on the ports that we need: port, pid, user, command
    programs: tuple[tuple[str, str], ...] = ()  # of another supervisord, named like ours: name, file
    accounts: tuple[tuple[str, str, str], ...] = ()  # of others, named like ours: name, number, home


def ask_facts(remote: Remote) -> MachineFacts:
    """Log in, become root, and read the facts. SudoRefusedError, InfrastructureError."""
    return parse_facts(remote.run(["sh", "-c", FACTS_SCRIPT.read_text()]).stdout)


def parse_facts(text: str) -> MachineFacts:
    """Parse the output of facts.sh."""
    facts = {key: value for key, _, value in (line.partition(" ") for line in text.splitlines())}
    try:
        return MachineFacts(
            facts.get("system", "unknown"),
            tuple(facts.get("os", "").split()),
            "apt" in facts,
            tuple(int(part) for part in facts["python"].split(".")) if "python" in facts else (),
            facts.get("java"),
            "java17" in facts,
            float(facts["cores"]),
            int(facts["memory_mb"]),
            tuple(facts.get("addresses", "").split()),
            json.loads(facts["lease"]) if "lease" in facts else None,
            "filters" in facts,
            tuple((pid, user, ports, name) for pid, user, ports, name in _listed(text, "storm", 4)),
            tuple((port, pid, user, name) for port, pid, user, name in _listed(text, "listener", 4)),
            tuple((name, file) for name, file in _listed(text, "program", 2)),
            tuple((name, number, home) for name, number, home in _listed(text, "account", 3)),
        )
    except (KeyError, ValueError) as error:
        raise InfrastructureError(f"it does not say what it is ({error!r}), only {text[-300:]!r}") from error


def _listed(text: str, key: str, words: int) -> Iterator[list[str]]:
    """Yield the words of each line with this key."""
    lines = (line.partition(" ") for line in text.splitlines())
    yield from (rest.split(maxsplit=words - 1) for first, _, rest in lines if first == key)


def occupation_problems(facts: MachineFacts) -> list[str]:
    """Return why somebody else uses the machine now: we never end or replace other people's programs."""
    pids = {pid for pid, *_ in facts.storm}
    users = {user for _, user, ports, _ in facts.storm if ports == "unknown"}
    problems = [
        f"process {pid} of user {user} is somebody's {name} (ports {_ports_of(facts, user, ports)}); stop it, or name"
        " another machine"
        for pid, user, ports, name in facts.storm
    ]
    problems += [
        f"port {port}, which Storm needs, is taken by process {pid} of user {user} ({command}); stop it, or name"
        " another machine"
        for port, pid, user, command in facts.listeners
        if pid not in pids and not (pid == "unknown" and user in users)
    ]
    problems += [
        f"{file} has a program {name!r} of supervisord, as Barograph's is called; rename it, or name another machine"
        for name, file in facts.programs
    ]
    problems += [
        f"there is a user or group {name!r} (number {number}, home {home}) that Barograph did not make: code"
        " of others would run as it; rename it, remove it if an earlier Barograph made it, or name another machine"
        for name, number, home in facts.accounts
    ]
    return problems


def _ports_of(facts: MachineFacts, user: str, ports: str) -> str:
    """Return the ports of somebody's Storm; of unknown ones, those of the same user without a known process."""
    if ports != "unknown":
        return ports
    return ",".join(port for port, pid, owner, _ in facts.listeners if (pid, owner) == ("unknown", user)) or ports


def platform_problems(facts: MachineFacts) -> list[str]:
    """Return why Storm cannot be installed on such a machine."""
    problems = []
    if not set(SYSTEMS) & set(facts.families) or not facts.has_apt:
        problems.append(f"it runs {facts.system}, must be Debian or Ubuntu with apt-get")
    if facts.python < LEAST_PYTHON:
        has = ".".join(str(part) for part in facts.python) or "not there"
        problems.append(f"python3 is {has}, must be 3.11 or newer")
    if facts.java != JAVA_VERSION and not (facts.java is None and facts.java_to_install):
        has = f"Java {facts.java}" if facts.java else "no Java, and apt knows no openjdk-17-jre-headless"
        problems.append(
            f"it has {has}; Storm runs on Java {JAVA_VERSION}: install openjdk-17-jre-headless as its `java`"
        )
    if not facts.filters:
        problems.append(
            "its root has no CAP_NET_ADMIN, so it cannot keep others from Storm: whoever reaches the machine could run"
            " code there through Nimbus (6627) and read tuples (6700-6763); give it, or name another machine"
        )
    return problems


def machine_addresses(host: Host, facts: MachineFacts) -> tuple[str, str]:
    """Return (inside, experiment) address: both the machine's own, because its services are bound to them."""
    inside = host.inside_address or host.experiment_address or _own_address(host, facts)
    experiment = host.experiment_address or inside
    for name, address in (("inside_address", inside), ("experiment_address", experiment)):
        if address not in facts.addresses:
            raise ConfigurationError(f"{name} is {address}, its own addresses are {_address_list(facts)}; {_ADVICE}")
    return inside, experiment


_ADVICE = "set inside_address and experiment_address in the inventory to one of its own"


def _own_address(host: Host, facts: MachineFacts) -> str:
    """Return the address that ssh uses, unless it is translated on the way; then the only address of the machine."""
    if (reached := resolve_address(host.address)) in facts.addresses:
        return reached
    candidates = [address for address in facts.addresses if _is_ipv4(address)]
    if len(candidates) == 1:
        return candidates[0]
    raise ConfigurationError(f"{host.address} is not its own address; it has {_address_list(facts)}; {_ADVICE}")


def _is_ipv4(address: str) -> bool:
    try:
        return not IPv4Address(address).is_loopback
    except AddressValueError:
        return False


def _address_list(facts: MachineFacts) -> str:
    return ", ".join(facts.addresses) or "none"


log = logging.getLogger(__name__)

MASTER = "master"


@dataclass(frozen=True)
class SurveyedMachine:
    """A requested machine and its facts."""

    request: MachineRequest
    host: Host
    door: Login
    facts: MachineFacts
    inside_address: str
    experiment_address: str

    def machine(self, known_hosts: Path) -> Machine:
        """Return the machine as the lease will have it."""
        return replace(
            logins.machine_of_login(self.door, self.request.name, known_hosts),
            type=actual_type(self.request, self.facts, self.host.slots),
            experiment_address=self.experiment_address,
            inside_address=self.inside_address,
        )


def survey_machines(
    requests: Sequence[MachineRequest], choice: HostChoice, options: ExistingOptions, used: Sequence[str] = ()
) -> tuple[SurveyedMachine, ...]:
    """Return the machines to take; `used` are those that the lease has already, by their owner's names."""
    machines.check_names("existing", requests)
    pairs = assign_hosts(requests, choice, used)
    if problems := logins.duplicate_hosts(choice.hosts):
        raise _file_error(choice, problems)
    answers = _survey_all(pairs, options)
    if problems := [problem for answer in answers if isinstance(answer, list) for problem in answer]:
        raise _file_error(choice, problems)
    surveyed_machines = tuple(answer for answer in answers if isinstance(answer, SurveyedMachine))
    if held_machines := [(one.host, holder) for one in surveyed_machines if (holder := _other_holder(one.facts))]:
        raise in_use_error(held_machines)
    for one in surveyed_machines:
        _warn_if_smaller(one)
    return surveyed_machines


def in_use_error(taken: Sequence[tuple[Host, Owner]]) -> CapacityError:
    """Return the error for machines that somebody else holds."""
    message = "; ".join(f"{host} is held by {holder}" for host, holder in taken)
    return CapacityError(f"existing: {message}; wait, or name other machines")


def is_dead_holder(holder: Owner) -> bool:
    """Return True for a lease of this harness that no longer exists: its release did not reach the machine."""
    return holder.harness == harness_id() and registry.read(holder.lease_id) is None


def assign_hosts(
    requests: Sequence[MachineRequest], choice: HostChoice, used: Sequence[str] = ()
) -> list[tuple[MachineRequest, Host]]:
    """Pair the master with the machine chosen for it, the others with the rest, in the file's order."""
    free = [host for host in choice.hosts if host.called not in used]
    if len(requests) > len(free):
        raise CapacityError(
            f"existing: {len(requests)} machines are asked for, {choice.file} has {len(free)}"
            f"{' more' if used else ''}; list more of them or ask for fewer"
        )
    has_master = any(request.name == MASTER for request in requests)
    workers = iter(free[1:] if has_master else free)
    return [(request, free[0] if request.name == MASTER else next(workers)) for request in requests]


def actual_type(request: MachineRequest, seen: MachineFacts, slots: int | None) -> MachineType:
    """Return the machine's real type under the requested type's name; bandwidth is as requested, it cannot be seen."""
    type_ = request.type
    worker_slots = type_.slots if slots is None or type_.slots == 0 else slots
    return replace(type_, cores=seen.cores, memory_mb=seen.memory_mb, slots=worker_slots)


def _survey_all(
    pairs: Sequence[tuple[MachineRequest, Host]], options: ExistingOptions
) -> list[SurveyedMachine | list[str]]:
    """Return each machine, or its problems."""
    with TemporaryDirectory(prefix="barograph-") as folder:

        def one(pair: tuple[MachineRequest, Host]) -> SurveyedMachine | list[str]:
            return _survey_one(*pair, options, Path(folder))

        answers = call_for_each(pairs, one)
    return [
        [str(answer) if str(answer).startswith(host.called) else f"{host}: {answer}"]
        if isinstance(answer, BarographError)
        else answer
        for (_, host), answer in zip(pairs, answers, strict=True)
    ]


def _survey_one(
    request: MachineRequest, host: Host, options: ExistingOptions, folder: Path
) -> SurveyedMachine | list[str]:
    door = logins.login_to(host, options)
    known_hosts = folder / f"{request.name}-known_hosts"
    known_hosts.write_text(logins.known_hosts_text([door]))
    with connect(logins.machine_of_login(door, door.called, known_hosts)) as remote:
        facts = ask_facts(remote)
    if problems := [*platform_problems(facts), *occupation_problems(facts)]:
        return [f"{host}: {problem}" for problem in problems]
    return SurveyedMachine(request, host, door, facts, *machine_addresses(host, facts))


def _file_error(choice: HostChoice, problems: Sequence[str]) -> ConfigurationError:
    # Nothing was started: a silent machine is for its owner to fix, as is a wrong line of the file.
    return ConfigurationError(f"existing: {len(problems)} to mend with {choice.file}: {'; '.join(problems)}")


def _other_holder(seen: MachineFacts) -> Owner | None:
    holder = Owner.parse(seen.lease)
    return holder if holder and holder.is_live(time.time()) and not is_dead_holder(holder) else None


def _warn_if_smaller(one: SurveyedMachine) -> None:
    type_, facts = one.request.type, one.facts
    if facts.cores < type_.cores or facts.memory_mb < type_.memory_mb:
        log.warning(
            "%s (%s) has %g cores and %d MB, less than %s asks for (%g cores, %d MB)",
            one.request.name, one.host, facts.cores, facts.memory_mb, type_.name, type_.cores, type_.memory_mb,
        )  # fmt: skip
