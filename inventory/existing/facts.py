"""What a machine says of itself, and what of it is not enough."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any

from inventory.errors import ConfigurationError, InfrastructureError
from inventory.existing.doors import resolved
from inventory.existing.hosts import Host
from inventory.remote import Remote

SCRIPT = Path(__file__).with_name("facts.sh")
SYSTEMS = ("debian", "ubuntu")
PYTHON = (3, 11)
JAVA = "17"


@dataclass(frozen=True)
class Facts:
    """`lease` is what another harness, or we, left on the machine: the content of its lease.json."""

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


def ask(remote: Remote) -> Facts:
    """Log in, become root, and look. SudoRefusedError, InfrastructureError."""
    return parse(remote.run(["sh", "-c", SCRIPT.read_text()]).stdout)


def parse(text: str) -> Facts:
    """The facts in what facts.sh printed."""
    said = {key: value for key, _, value in (line.partition(" ") for line in text.splitlines())}
    try:
        return Facts(
            said.get("system", "unknown"),
            tuple(said.get("os", "").split()),
            "apt" in said,
            tuple(int(part) for part in said["python"].split(".")) if "python" in said else (),
            said.get("java"),
            "java17" in said,
            float(said["cores"]),
            int(said["memory_mb"]),
            tuple(said.get("addresses", "").split()),
            json.loads(said["lease"]) if "lease" in said else None,
        )
    except (KeyError, ValueError) as error:
        raise InfrastructureError(f"it does not say what it is ({error!r}), only {text[-300:]!r}") from error


def problems(facts: Facts) -> list[str]:
    """Why Storm cannot be put on such a machine."""
    found = []
    if not set(SYSTEMS) & set(facts.families) or not facts.has_apt:
        found.append(f"it runs {facts.system}, must be Debian or Ubuntu with apt-get")
    if facts.python < PYTHON:
        has = ".".join(str(part) for part in facts.python) or "not there"
        found.append(f"python3 is {has}, must be 3.11 or newer")
    if facts.java != JAVA and not (facts.java is None and facts.java_to_install):
        has = f"Java {facts.java}" if facts.java else "no Java, and apt knows no openjdk-17-jre-headless"
        found.append(f"it has {has}; Storm runs on Java {JAVA}: install openjdk-17-jre-headless as its `java`")
    return found


def addresses(host: Host, facts: Facts) -> tuple[str, str]:
    """(inside, experiment) address: both the machine's own, because its services are bound to them."""
    inside = host.inside_address or host.experiment_address or _own(host, facts)
    experiment = host.experiment_address or inside
    for name, address in (("inside_address", inside), ("experiment_address", experiment)):
        if address not in facts.addresses:
            raise ConfigurationError(f"{name} is {address}, its own addresses are {_listed(facts)}; {_ADVICE}")
    return inside, experiment


_ADVICE = "set inside_address and experiment_address in the inventory to one of its own"


def _own(host: Host, facts: Facts) -> str:
    """Where ssh reaches it, unless that is translated on the way; then the only address that it has."""
    if (reached := resolved(host.address)) in facts.addresses:
        return reached
    candidates = [address for address in facts.addresses if _is_ipv4(address)]
    if len(candidates) == 1:
        return candidates[0]
    raise ConfigurationError(f"{host.address} is not its own address; it has {_listed(facts)}; {_ADVICE}")


def _is_ipv4(address: str) -> bool:
    try:
        return not IPv4Address(address).is_loopback
    except AddressValueError:
        return False


def _listed(facts: Facts) -> str:
    return ", ".join(facts.addresses) or "none"
