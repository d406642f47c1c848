"""Where machines come from: the contract that every testbed keeps, its optional abilities, and its options.

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
from inventory.remote.ssh import Remote


@dataclass(frozen=True)
class Estimate:
    """What machines cost, in US dollars, by readable line (`5 × c7a.medium, 2.0 h, on demand`).

    `prices_of` is the day of the price table.
    """

    lines: Mapping[str, float]
    prices_of: str

    @property
    def total_usd(self) -> float:
        return sum(self.lines.values())


Place = Literal["memory", "this_box", "elsewhere"]


class Testbed(Protocol):
    """A source of machines. Errors are those of `inventory.errors`.

    `TESTBEDS[name](options=…)` gets the experiment's `testbed.options[name]` and refuses what it does not know with a
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
        """What `release` needs beside the lease's id to find the lease's machines again in another process, no secrets.

        It stands in the lease's record (`Lease.site`): a region, a portal's address, an inventory file.
        """
        ...

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """Say everything that can be said before anything is started (configuration and capacity errors)."""
        ...

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """All machines, in the order of the requests, or none: cleans up after itself if it fails."""
        ...

    def release(self, lease: Lease) -> None:
        """Give back what the lease holds. Idempotent, also for what is half acquired or already gone."""
        ...

    def leftovers(self) -> tuple[str, ...]:
        """What exists on the testbed that no lease on record owns, one readable name each."""
        ...


@runtime_checkable
class SupportsSweep(Protocol):
    """The ability to remove leftovers."""

    def sweep(self) -> tuple[str, ...]:
        """Remove what `leftovers` names and return the names; never touches what a lease on record owns."""
        ...


@runtime_checkable
class SupportsConnect(Protocol):
    """The ability to run commands on an acquired machine."""

    def connect(self, machine: Machine) -> Remote:
        """A connection to the machine; the caller closes it (it is a context manager)."""
        ...


@runtime_checkable
class SupportsFaults(Protocol):
    """The ability to break machines on purpose. A machine that the lease no longer has is an InfrastructureError."""

    def crash(self, machine: Machine) -> None:
        """As if its power failed: silent at once, every process gone, the disk kept. Idempotent."""
        ...

    def restart(self, machine: Machine) -> None:
        """The crashed machine boots from its disk at its addresses and answers ssh when this returns. Idempotent."""
        ...


@runtime_checkable
class SupportsDisturbances(Protocol):
    """The ability to disturb machines that go on running. A machine that the lease no longer has is an
    InfrastructureError."""

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """From now on, whatever its programs do. `others`: read for a `partition` and `sample_loss`. Idempotent."""
        ...

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """It is as it was acquired, in this respect. Idempotent, also where nothing of the kind had begun."""
        ...


@runtime_checkable
class SupportsGiveBack(Protocol):
    """The ability to take back a part of a lease's machines."""

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """End these machines of the lease for good; the others do not notice it.

        `registry.lease_machines` says what is left.

        Idempotent, also for what is half gone; `release` still ends the whole lease.
        """
        ...


@runtime_checkable
class SupportsGrow(Protocol):
    """The ability to add machines to a lease while a run goes on."""

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """These machines too, in the order of the requests, or none of them: the lease keeps what it had before.

        CapacityError where there are none now. The machines are taken back with `give_back` or at the lease's release.
        """
        ...


@runtime_checkable
class SupportsProlong(Protocol):
    """The ability to tell machines that end themselves when their lease ends that it lasts longer."""

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """From now on the machines end themselves at `lease.expires_s`, and what is tagged says so."""
        ...


@runtime_checkable
class SupportsPricing(Protocol):
    """The ability to say what machines cost before they are started."""

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> Estimate:
        """What these machines cost for that time. ConfigurationError where the price table has no price."""
        ...

    def budget_usd(self) -> float:
        """The most that the experiment may cost, as its options say."""
        ...


@runtime_checkable
class SupportsRecall(Protocol):
    """The ability to hear that machines will be taken away by their owner (a spot interruption notice)."""

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """The lease's machines that were announced to end, or ended without us. It may be asked each second."""
        ...


@runtime_checkable
class SupportsRoam(Protocol):
    """The ability to look for leftovers also where this harness has never been."""

    def roam(self) -> tuple[str, ...]:
        """From now on `leftovers` and `sweep` look in every place that the account can use; names these places."""
        ...


class Options(BaseModel):
    """What a testbed's own options model inherits from: strict, frozen, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# Options that name files of this box, or hosts that it trusts: only an experiment's file says these, no form does. With
# them whoever may trigger a DAG could start a program (an inventory may be one), use a key, or be sent a token.
FILE_ONLY_OPTIONS = frozenset({
    "inventory", "ssh_key", "known_hosts", "ops_host", "ops_port", "ops_known_hosts", "endpoint",
})  # fmt: skip

OptionsModel = TypeVar("OptionsModel", bound=Options)


def read_options(model: type[OptionsModel], testbed: str, options: Mapping[str, object]) -> OptionsModel:
    """The options as `model`; a ConfigurationError names every field that is wrong, its value and what is allowed."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        wrong = "; ".join(_option_error(model, testbed, detail) for detail in error.errors())
        raise ConfigurationError(wrong) from error


ONLY_SIMULATED = {
    "sample_s": "workers and probes on machines write once a second, only those of the simulated testbed more rarely"
}


def refuse_options(testbed: str, options: Mapping[str, object] | None) -> None:
    """For a testbed that has none."""
    if options:
        raise ConfigurationError(
            f"testbed.options.{testbed} has {', '.join(options)}; {testbed} has no options; remove{_why(options)}"
        )


def _why(options: Iterable[str]) -> str:
    """What there is to say of options that another testbed has."""
    return "".join(f"; {ONLY_SIMULATED[name]}" for name in options if name in ONLY_SIMULATED)


def _option_error(model: type[Options], testbed: str, detail: Mapping[str, object]) -> str:
    place = detail["loc"]
    assert isinstance(place, tuple)
    field = ".".join(str(part) for part in ("testbed.options", testbed, *place))
    known = ", ".join(model.model_fields)
    if detail["type"] == "extra_forbidden":
        return f"{field} is not known; known are {known}{_why([str(place[-1])])}"
    if detail["type"] == "missing":
        about = model.model_fields[str(place[0])].description if len(place) == 1 else None
        return f"{field} is missing" + (f": {about}" if about else "")
    return f"{field} is {detail['input']!r}: {detail['msg']}"
