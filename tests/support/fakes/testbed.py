"""The `fake` testbed: machines in memory, for tests and dry runs, under the same contract as the real ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from barograph.errors import CapacityError, InfrastructureError
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import Remote, RemoteTimeoutError, Result
from inventory.simulated import MachineInMemory, MemoryTestbed
from inventory.testbed import PriceEstimate, TestbedOptions, read_options

PRICES_OF = "2026-11-21"


class FakeOptions(TestbedOptions):
    """Play money, so that everything about budgets can be tried without a bill."""

    budget_usd: Annotated[float, Field(gt=0, description="the most that a series may cost")] = 100.0
    core_hour_usd: Annotated[float, Field(ge=0, description="what one core costs an hour")] = 0.01


@dataclass
class FakeMachine(MachineInMemory):
    """What a fake machine is beside: files, with their modes. Tests reach in and change it."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)


def _cat(machine: FakeMachine, arguments: Sequence[str]) -> Result:
    if missing := [path for path in arguments if path not in machine.files]:
        return Result("", f"cat: {missing[0]}: No such file or directory\n", 1)
    return Result("".join(machine.files[path][0].decode() for path in arguments), "", 0)


def _stat(machine: FakeMachine, arguments: Sequence[str]) -> Result:
    """Only `stat -c %a PATH`."""
    if (path := arguments[-1]) not in machine.files:
        return Result("", f"stat: cannot statx '{path}': No such file or directory\n", 1)
    return Result(f"{machine.files[path][1]:o}\n", "", 0)


PROGRAMS: dict[str, Callable[[FakeMachine, Sequence[str]], Result]] = {
    "true": lambda _machine, _arguments: Result("", "", 0),
    "false": lambda _machine, _arguments: Result("", "", 1),
    "hostname": lambda machine, _arguments: Result(f"{machine.name}\n", "", 0),
    "echo": lambda _machine, arguments: Result(" ".join(arguments) + "\n", "", 0),
    "sleep": lambda _machine, _arguments: Result("", "", 0),
    "cat": _cat,
    "stat": _stat,
}


class FakeRemote:
    """A connection to a fake machine."""

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine
        self._boot = machine.boots
        self._open = True

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """See `Remote.run`; a program that there is not ends with 127, as `timeout` says it."""
        self._reach()
        if argv[0] not in PROGRAMS:
            return Result("", f"timeout: failed to run command '{argv[0]}': No such file or directory\n", 127)
        if argv[0] == "sleep" and float(argv[1]) >= timeout_s:
            raise RemoteTimeoutError(
                f"{self._machine.name}: `{' '.join(argv)}` still ran after {timeout_s:g} s and was killed"
            )
        return PROGRAMS[argv[0]](self._machine, argv[1:])

    def put(self, source: Path, target: str) -> None:
        """See `Remote.put`; a fake machine has every folder."""
        content, mode = source.read_bytes(), source.stat().st_mode & 0o7777
        self._reach()
        self._machine.files[target] = (content, mode)

    def get(self, source: str, target: Path) -> None:
        """See `Remote.get`."""
        self._reach()
        if source not in self._machine.files:
            raise FileNotFoundError(f"{self._machine.name} has no file {source}")
        target.write_bytes(self._machine.files[source][0])

    def close(self) -> None:
        """See `Remote.close`."""
        self._open = False

    def _reach(self) -> None:
        open_ = self._open and self._boot == self._machine.boots
        if not self._machine.alive or not open_:
            why = "no route to host" if open_ else "the connection is closed"
            raise InfrastructureError(f"{self._machine.name} (fake) does not answer: {why}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FakeTestbed(MemoryTestbed[FakeMachine]):
    """Machines in memory. `fails_at` names a machine that dies while it is acquired or added."""

    name = "fake"

    def __init__(
        self,
        cores: float = 64.0,
        memory_mb: int = 262_144,
        fails_at: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(FakeMachine)
        self._options = read_options(FakeOptions, self.name, options or {})
        self._cores = cores
        self._memory_mb = memory_mb
        self._fails_at = fails_at
        self._recalled: set[str] = set()

    def recall(self, name: str) -> None:
        """The owner of the machine of that name announces that it will take it away."""
        self._recalled.add(name)

    def machine(self, name: str) -> FakeMachine:
        """The machine of that name, to look at or to break."""
        return next(machine for machine in self._all() if machine.name == name)

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`."""
        _require_capacity("cores", [request.type.cores for request in requests], self._cores)
        _require_capacity("MB of memory", [request.type.memory_mb for request in requests], self._memory_mb)
        super().check(requests)

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> PriceEstimate:
        """See `SupportsPricing.estimate`."""
        cores = sum(request.type.cores for request in requests)
        line = f"{len(requests)} machines of {cores:g} cores together, {hours:.2f} h"
        return PriceEstimate({line: cores * hours * self._options.core_hour_usd}, PRICES_OF)

    def budget_usd(self) -> float:
        """See `SupportsPricing.budget_usd`."""
        return self._options.budget_usd

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """See `SupportsRecall.recalled`."""
        return tuple(name for name in registry.lease_machines(lease) if name in self._recalled)

    def connect(self, machine: Machine) -> Remote:
        """Connect to a machine that neither crashed nor was released."""
        fake = self._find(machine)
        if fake is None or not fake.alive:
            raise InfrastructureError(f"{machine.name} (fake) does not answer: no route to host")
        return FakeRemote(fake)

    def _fails(self, name: str) -> bool:
        return name == self._fails_at

    def _end(self, lease_id: str, names: Sequence[str]) -> None:
        self._recalled.difference_update(names)
        super()._end(lease_id, names)


def _require_capacity(unit: str, sizes: Sequence[float], available: float) -> None:
    if sum(sizes) > available:
        raise CapacityError(
            f"fake: {len(sizes)} machines need {sum(sizes):g} {unit}, this testbed has {available:g}; ask for fewer"
        )
