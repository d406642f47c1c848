"""Sources of machines: the contract of every testbed, its optional abilities, and its options.

A testbed's options are the experiment's `testbed.options.<testbed>`, validated into a model of the testbed's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError

from barograph.errors import ConfigurationError
from barograph.plan.events.kind import Disturbance
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest


@dataclass(frozen=True)
class PriceEstimate:
    """Machines' cost in US dollars, by readable line (`5 × c7a.medium, 2.0 h, on demand`).

    `prices_of` is the day of the price table.
    """

    lines: Mapping[str, float]
    prices_of: str

    @property
    def total_usd(self) -> float:
        return sum(self.lines.values())


Place = Literal["memory", "this_box", "elsewhere"]


class Testbed(Protocol):
    """A source of machines. Errors are those of `barograph.errors`.

    `TESTBEDS[name](options=…)` gets the experiment's `testbed.options[name]` and refuses unknown keys with a
    ConfigurationError that names the field; without options it can still release, list leftovers and sweep.
    `shared`: several leases may hold machines at once. `whole_machines`: it gives machines as they are; an experiment's
    `scale` and `bandwidth_mbit` are for testbeds that make them. `place` is where the machines are: in `memory`
    (nothing is installed on them), on `this_box` (they take its cores; `TESTBEDS[name]` then has the argument `mounts`
    too: folders of the box, and where every machine sees them), or `elsewhere`.
    """

    name: str
    shared: bool
    whole_machines: bool
    place: Place

    def site(self) -> Mapping[str, str]:
        """Return what `release` needs beside the lease's id to find the machines again in another process, no secrets.

        It is part of the lease's record (`Lease.site`): a region, a portal's address, an inventory file.
        """
        ...

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """Raise the configuration and capacity errors that are known before anything is started."""
        ...

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Return all machines, in the order of the requests, or none: cleans up after itself if it fails."""
        ...

    def release(self, lease: Lease) -> None:
        """Give back the lease's machines. Idempotent, also for a lease that is half acquired or already gone."""
        ...

    def leftovers(self) -> tuple[str, ...]:
        """Return a readable name for each thing on the testbed that no lease on record owns."""
        ...


@runtime_checkable
class SupportsSweep(Protocol):
    """The ability to remove leftovers."""

    def sweep(self) -> tuple[str, ...]:
        """Remove what `leftovers` names and return the names; never touches a recorded lease's machines."""
        ...


@runtime_checkable
class SupportsFaults(Protocol):
    """The ability to break machines on purpose. A machine that the lease no longer has is an InfrastructureError."""

    def crash(self, machine: Machine) -> None:
        """Crash it as if its power failed: silent at once, every process gone, the disk kept. Idempotent."""
        ...

    def restart(self, machine: Machine) -> None:
        """Boot the crashed machine from its disk at its addresses; it answers ssh when this returns. Idempotent."""
        ...


@runtime_checkable
class SupportsDisturbances(Protocol):
    """The ability to disturb running machines. InfrastructureError for one that the lease no longer has."""

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """Begin the disturbance. `others`: read for a `partition` and `sample_loss`. Idempotent."""
        ...

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """End the disturbance; the machine is as acquired in this respect. Idempotent, also where none had begun."""
        ...


@runtime_checkable
class SupportsGrow(Protocol):
    """The ability to add machines to a lease while a run goes on, and to take some back. One without the other would
    end a series: what the last run gives back is missing where that run must be repeated."""

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Return these machines too, in the order of the requests, or none of them: the lease keeps its earlier ones.

        CapacityError where there are none now. The machines are taken back with `give_back` or at the lease's release.
        """
        ...

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """End these machines of the lease for good; the others, which `registry.lease_machines` lists, do not notice.

        Idempotent, also for machines that are half gone; `release` still ends the whole lease.
        """
        ...


@runtime_checkable
class SupportsProlong(Protocol):
    """The ability to postpone the end of machines that end themselves when their lease ends."""

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """Make the machines end themselves at `lease.expires_s`, and update the tags."""
        ...


@runtime_checkable
class SupportsTimeLimit(Protocol):
    """A testbed that takes its machines back after a time, however often their lease is renewed."""

    def longest_hours(self) -> float:
        """Return that time, from the acquisition on."""
        ...


@runtime_checkable
class SupportsPricing(Protocol):
    """The ability to estimate costs before machines are started."""

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> PriceEstimate:
        """Return the machines' cost for that time. ConfigurationError where the price table has no price."""
        ...

    def budget_usd(self) -> float:
        """Return the most that the experiment may cost, from its options."""
        ...


@runtime_checkable
class SupportsRecall(Protocol):
    """The ability to detect that machines' owner takes them away (a spot interruption notice)."""

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """Return the lease's machines that were announced to end, or ended without us. It may be called each second."""
        ...


@runtime_checkable
class SupportsRoam(Protocol):
    """The ability to look for leftovers also where this harness has never been."""

    def roam(self) -> tuple[str, ...]:
        """Make `leftovers` and `sweep` look in every place that the account can use; returns these places."""
        ...


def leftover_names(lease_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the readable names of what these leases have left (`Testbed.leftovers`)."""
    return tuple(f"machines of {lease_id}" for lease_id in lease_ids)


@runtime_checkable
class SupportsRemark(Protocol):
    """It can say what its options come to, before anything is done."""

    def remark(self) -> str: ...


class TestbedOptions(BaseModel):
    """Base class of each testbed's options: strict, frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# Options that name files of this box, hosts that it trusts, or what may be spent, run or reached: only an experiment's
# file sets them, no form does. With them anyone who may trigger a DAG could start a program (an inventory may be one),
# use a key, receive a token, or lift the limit of money.
FILE_ONLY_OPTIONS = frozenset({
    "inventory", "ssh_key", "known_hosts", "ops_host", "ops_port", "ops_known_hosts", "endpoint",
    "budget_usd", "price_limit_usd", "ingress_from", "image", "vpc", "subnet", "region",
})  # fmt: skip

OptionsModel = TypeVar("OptionsModel", bound=TestbedOptions)


def read_options(model: type[OptionsModel], testbed: str, options: Mapping[str, object]) -> OptionsModel:
    """Return the options as `model`; a ConfigurationError names every wrong field, its value and what is allowed."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        wrong = "; ".join(_option_error(model, testbed, detail) for detail in error.errors())
        raise ConfigurationError(wrong) from error


ONLY_SIMULATED = {
    "sample_s": "workers and probes on machines write once a second, only those of the simulated testbed more rarely"
}


def refuse_options(testbed: str, options: Mapping[str, object] | None) -> None:
    """Refuse options of a testbed that has none."""
    if options:
        raise ConfigurationError(
            f"testbed.options.{testbed} has {', '.join(options)}; {testbed} has no options; remove{_why(options)}"
        )


def _why(options: Iterable[str]) -> str:
    """Return a hint for options that another testbed has."""
    return "".join(f"; {ONLY_SIMULATED[name]}" for name in options if name in ONLY_SIMULATED)


def _option_error(model: type[TestbedOptions], testbed: str, detail: Mapping[str, object]) -> str:
    location = detail["loc"]
    assert isinstance(location, tuple)
    field = ".".join(str(part) for part in ("testbed.options", testbed, *location))
    names = ", ".join(model.model_fields)
    if detail["type"] == "extra_forbidden":
        return f"{field} is not known; known are {names}{_why([str(location[-1])])}"
    if detail["type"] == "missing":
        description = model.model_fields[str(location[0])].description if len(location) == 1 else None
        return f"{field} is missing" + (f": {description}" if description else "")
    return f"{field} is {detail['input']!r}: {detail['msg']}"
