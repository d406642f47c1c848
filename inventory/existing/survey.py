"""Assign names to machines and look at each: all at once, and all problems in one error.

facts.sh prints a machine's facts.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory import machines
from inventory.existing import hosts
from inventory.existing.hosts import ExistingOptions, Host, HostChoice, Login, resolve_address
from inventory.existing.ownership import Owner
from inventory.leases import registry
from inventory.leases.registry import harness_id
from inventory.machines import Machine, MachineRequest, MachineType
from inventory.remote.ssh import connect

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


def parse_facts(text: str) -> MachineFacts:
    """Parse the output of facts.sh."""
    lines = [(key, value) for key, _, value in (line.partition(" ") for line in text.splitlines())]
    facts = dict(lines)

    def rows(key: str, words: int) -> Any:
        return tuple(tuple(value.split(maxsplit=words - 1)) for name, value in lines if name == key)

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
            rows("storm", 4),
            rows("listener", 4),
            rows("program", 2),
            rows("account", 3),
        )
    except (KeyError, ValueError) as error:
        raise InfrastructureError(f"it does not say what it is ({error!r}), only {text[-300:]!r}") from error


def occupation_problems(facts: MachineFacts) -> list[str]:
    """Return why somebody else uses the machine now: we never end or replace other people's programs."""
    pids = {pid for pid, *_ in facts.storm}
    users = {user for _, user, ports, _ in facts.storm if ports == "unknown"}
    problems = []
    for pid, user, ports, name in facts.storm:
        if ports == "unknown":  # those of the same user without a known process
            unowned = (port for port, owner_pid, owner, _ in facts.listeners if (owner_pid, owner) == ("unknown", user))
            ports = ",".join(unowned) or ports  # noqa: PLW2901
        problems.append(f"process {pid} of user {user} is somebody's {name} (ports {ports}); stop it,")
    problems += [
        f"port {port}, which Storm needs, is taken by process {pid} of user {user} ({command}); stop it,"
        for port, pid, user, command in facts.listeners
        if pid not in pids and not (pid == "unknown" and user in users)
    ]
    problems += [
        f"{file} has a program {name!r} of supervisord, as Barograph's is called; rename it,"
        for name, file in facts.programs
    ]
    problems += [
        f"there is a user or group {name!r} (number {number}, home {home}) that Barograph did not make: code"
        " of others would run as it; rename it, remove it if an earlier Barograph made it,"
        for name, number, home in facts.accounts
    ]
    return [f"{problem} or name another machine" for problem in problems]


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
    """Return (inside, experiment) address: both the machine's own, because its services are bound to them.

    By default that which ssh uses, unless it is translated on the way; then the only address of the machine.
    """
    all_addresses = ", ".join(facts.addresses) or "none"
    advice = "set inside_address and experiment_address in the inventory to one of its own"
    inside = host.inside_address or host.experiment_address
    if inside is None:
        inside = resolve_address(host.address)
        if inside not in facts.addresses:
            own = [ip_address(address.partition("%")[0]) for address in facts.addresses]
            candidates = [str(address) for address in own if address.version == 4 and not address.is_loopback]
            if len(candidates) != 1:
                raise ConfigurationError(f"{host.address} is not its own address; it has {all_addresses}; {advice}")
            inside = candidates[0]
    experiment = host.experiment_address or inside
    for name, address in (("inside_address", inside), ("experiment_address", experiment)):
        if address not in facts.addresses:
            raise ConfigurationError(f"{name} is {address}, its own addresses are {all_addresses}; {advice}")
    return inside, experiment


log = logging.getLogger(__name__)

MASTER = "master"


@dataclass(frozen=True)
class SurveyedMachine:
    """A requested machine and its facts."""

    request: MachineRequest
    host: Host
    login: Login
    facts: MachineFacts
    inside_address: str
    experiment_address: str

    def machine(self, known_hosts: Path) -> Machine:
        """Return the machine as the lease will have it."""
        return replace(
            self.login.machine(self.request.name, known_hosts),
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
    problems = hosts.duplicate_hosts(choice.hosts)
    surveyed_machines: list[SurveyedMachine] = []
    if not problems:
        with TemporaryDirectory(prefix="barograph-") as folder:
            answers = call_for_each(pairs, lambda pair: _survey(*pair, options, Path(folder)))
        for (_, host), answer in zip(pairs, answers, strict=True):
            if isinstance(answer, SurveyedMachine):
                surveyed_machines.append(answer)
            elif isinstance(answer, list):
                problems += [f"{host}: {problem}" for problem in answer]
            else:
                problems.append(str(answer) if str(answer).startswith(host.called) else f"{host}: {answer}")
    if problems:
        # Nothing was started: a silent machine is for its owner to fix, as is a wrong line of the file.
        raise ConfigurationError(f"existing: {len(problems)} to mend with {choice.file}: {'; '.join(problems)}")
    held_machines = []
    for one in surveyed_machines:
        holder, facts, type_ = Owner.parse(one.facts.lease), one.facts, one.request.type
        if holder and holder.is_live(time.time()) and not is_dead_holder(holder):
            held_machines.append((one.host, holder))
        if facts.cores < type_.cores or facts.memory_mb < type_.memory_mb:
            log.warning(
                "%s (%s) has %g cores and %d MB, less than %s asks for (%g cores, %d MB)",
                one.request.name, one.host, facts.cores, facts.memory_mb, type_.name, type_.cores, type_.memory_mb,
            )  # fmt: skip
    if held_machines:
        raise in_use_error(held_machines)
    return tuple(surveyed_machines)


def _survey(request: MachineRequest, host: Host, options: ExistingOptions, folder: Path) -> SurveyedMachine | list[str]:
    """Return the machine, or its problems."""
    login = hosts.login_to(host, options)
    known_hosts = folder / f"{request.name}-known_hosts"
    known_hosts.write_text(hosts.known_hosts_text([login]))
    with connect(login.machine(login.called, known_hosts)) as remote:
        facts = parse_facts(remote.run(["sh", "-c", FACTS_SCRIPT.read_text()]).stdout)
    if problems := [*platform_problems(facts), *occupation_problems(facts)]:
        return problems
    return SurveyedMachine(request, host, login, facts, *machine_addresses(host, facts))


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
