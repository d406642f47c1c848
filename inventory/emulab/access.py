"""What both accesses to Emulab (portal, classic) share: `testbed.options.emulab`, waiting times, nodes, and Emulab's
messages as errors. Experiments are identified by name; everything but their start may be repeated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
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
    ssh_key: str = Field(description="path of your private key, whose public half Emulab has")
    known_hosts: str | None = None  # a file with the machines' host keys; else ops_host scans them
    ops_host: Host | None = None
    ops_port: Port = 22
    ops_known_hosts: str = "~/.ssh/known_hosts"  # must know ops_host before the first connection
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
    result = read_options(ACCESS_MODELS[access], NAME, options)
    for field in ("ssh_key", "known_hosts"):
        value = getattr(result, field)
        if value is not None and not expand_path(value).is_file():
            raise ConfigurationError(f"{place}.{field} is {value!r}: there is no such file; name one")
    if result.ops_host and not expand_path(result.ops_known_hosts).is_file():
        raise ConfigurationError(
            f"{place}.ops_known_hosts is {result.ops_known_hosts!r}: there is no such file; log in to "
            f"{result.ops_host} once and compare its key with the one that Emulab publishes"
        )
    if not (result.ops_host or result.known_hosts):
        raise ConfigurationError(
            f"{place} has neither ops_host nor known_hosts: the machines' host keys would be unknown; "
            "set ops_host (they are asked for through it) or known_hosts (a file that has them)"
        )
    return result


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


@dataclass(frozen=True)
class Node:
    """Addresses of an experiment's machine. `inside_address` is its control address as its neighbours see it."""

    name: str
    control_address: str
    ssh_port: int
    inside_address: str
    experiment_address: str


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
