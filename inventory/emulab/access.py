"""The contract of both accesses to Emulab (portal, classic), their waiting times, and Emulab's messages as errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.machines import MachineRequest


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


class Access(Protocol):
    """One access to Emulab. Experiments are identified by name; everything but `start` may be repeated."""

    def site(self) -> Mapping[str, str]:
        """Return what another process needs to reach the same site."""
        ...

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """Check everything that Emulab tells without starting anything."""
        ...

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """Start the experiment and wait until it is up; it ends itself at `end_s` (epoch) or soon after."""
        ...

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        """Return the machines' addresses, in the order of the requests."""
        ...

    def prolong(self, experiment: str, end_s: float) -> None:
        """Make it end itself at `end_s` or soon after."""
        ...

    def end(self, experiment: str) -> None:
        """End it; it is gone when this returns, or was before."""
        ...

    def experiments(self) -> tuple[str, ...]:
        """Return the names of all experiments, others' too."""
        ...


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
