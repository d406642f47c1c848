"""The `fake` testbed: machines in memory, for tests and dry runs, under the same contract as the real ones.

What a machine does is in memory; that it is there is a file, `fake/<lease>/<machine>` in the state folder, with when
the machine ends itself. So another process finds, keeps and ends what a killed one has left.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

from pydantic import Field

from inventory.errors import CapacityError, ConfigurationError, InfrastructureError, RemoteTimeoutError
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import Remote, Result
from inventory.testbed import Disturbance, Estimate, Options, Place, read_options

PRICES_OF = "2026-11-21"


class FakeOptions(Options):
    """Play money, so that everything about budgets can be tried without a bill."""

    budget_usd: Annotated[float, Field(gt=0, description="the most that a series may cost")] = 100.0
    core_hour_usd: Annotated[float, Field(ge=0, description="what one core costs an hour")] = 0.01


@dataclass
class FakeMachine:
    """What a fake machine is: files, programs, and whether it is alive. Tests reach in and change it."""

    name: str
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    programs: dict[str, "Program"] = field(default_factory=dict)
    alive: bool = True
    boots: int = 1
    commands: list[list[str]] = field(default_factory=list)
    disturbances: set[Disturbance] = field(default_factory=set)


@dataclass(frozen=True)
class ProgramResult:
    """What a fake program did: its result and how long it would have taken."""

    result: Result
    seconds: float = 0.0


Program = Callable[[FakeMachine, Sequence[str]], ProgramResult]


def _cat(machine: FakeMachine, arguments: Sequence[str]) -> ProgramResult:
    if missing := [path for path in arguments if path not in machine.files]:
        return ProgramResult(Result("", f"cat: {missing[0]}: No such file or directory\n", 1))
    return ProgramResult(Result("".join(machine.files[path][0].decode() for path in arguments), "", 0))


def _stat(machine: FakeMachine, arguments: Sequence[str]) -> ProgramResult:
    """Only `stat -c %a PATH`."""
    if (path := arguments[-1]) not in machine.files:
        return ProgramResult(Result("", f"stat: cannot statx '{path}': No such file or directory\n", 1))
    return ProgramResult(Result(f"{machine.files[path][1]:o}\n", "", 0))


PROGRAMS: dict[str, Program] = {
    "true": lambda _machine, _arguments: ProgramResult(Result("", "", 0)),
    "false": lambda _machine, _arguments: ProgramResult(Result("", "", 1)),
    "hostname": lambda machine, _arguments: ProgramResult(Result(f"{machine.name}\n", "", 0)),
    "echo": lambda _machine, arguments: ProgramResult(Result(" ".join(arguments) + "\n", "", 0)),
    "sleep": lambda _machine, arguments: ProgramResult(Result("", "", 0), float(arguments[0])),
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
        """See `Remote.run`; a program that nobody gave the machine ends with 127, as `timeout` says it."""
        self._reach()
        self._machine.commands.append(list(argv))
        program = {**PROGRAMS, **self._machine.programs}.get(argv[0])
        if program is None:
            return Result("", f"timeout: failed to run command '{argv[0]}': No such file or directory\n", 127)
        ran = program(self._machine, argv[1:])
        if ran.seconds >= timeout_s:
            raise RemoteTimeoutError(
                f"{self._machine.name}: `{' '.join(argv)}` still ran after {timeout_s:g} s and was killed"
            )
        return ran.result

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FakeTestbed:
    """Machines in memory. `fails_at` names a machine that dies while it is acquired or added."""

    name = "fake"
    shared = False
    whole_machines = False
    place: Place = "memory"

    def __init__(
        self,
        cores: float = 64.0,
        memory_mb: int = 262_144,
        fails_at: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._options = read_options(FakeOptions, self.name, options or {})
        self._cores = cores
        self._memory_mb = memory_mb
        self._fails_at = fails_at
        self._dead = False
        self._recalled: set[str] = set()
        self._held: dict[str, dict[str, FakeMachine]] = {}

    def die(self) -> None:
        """From now on the testbed itself does not answer, nor any machine of it."""
        self._dead = True
        for machine in self._all():
            machine.alive = False

    def recall(self, name: str) -> None:
        """The owner of the machine of that name announces that it will take it away."""
        self._recalled.add(name)

    def machine(self, name: str) -> FakeMachine:
        """The machine of that name, to look at or to break."""
        return next(machine for machine in self._all() if machine.name == name)

    def ends_s(self, lease: Lease) -> Mapping[str, float]:
        """When each machine of the lease ends itself (epoch seconds), by name."""
        return {path.name: float(path.read_text()) for path in sorted(_folder(lease.lease_id).glob("*"))}

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`."""
        return {}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`."""
        _require_capacity("cores", [request.type.cores for request in requests], self._cores)
        _require_capacity("MB of memory", [request.type.memory_mb for request in requests], self._memory_mb)
        names = [request.name for request in requests]
        if not names or len(set(names)) < len(names):
            raise ConfigurationError(f"fake: machine names are {names}; give at least one, each once")

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`."""
        self.check(requests)
        self._require_lease(lease)
        registry.require_empty(lease, _folder(lease.lease_id).exists())
        return self._start(lease, requests)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`."""
        self.check(requests)
        self._require_lease(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        return self._start(lease, requests)

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`."""
        self._end(lease.lease_id, [path.name for path in _folder(lease.lease_id).glob("*")])
        shutil.rmtree(_folder(lease.lease_id), ignore_errors=True)
        registry.hold_nothing(lease)

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`."""
        if not _folder(lease.lease_id).exists():
            return
        gone = [machine.name for machine in machines]
        self._end(lease.lease_id, gone)
        registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in gone])

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsProlong.prolong`."""
        for machine in machines:
            if (path := _folder(lease.lease_id) / machine.name).exists():
                path.write_text(str(lease.expires_s))

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> Estimate:
        """See `SupportsPricing.estimate`."""
        cores = sum(request.type.cores for request in requests)
        line = f"{len(requests)} machines of {cores:g} cores together, {hours:.2f} h"
        return Estimate({line: cores * hours * self._options.core_hour_usd}, PRICES_OF)

    def budget_usd(self) -> float:
        """See `SupportsPricing.budget_usd`."""
        return self._options.budget_usd

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """See `SupportsRecall.recalled`."""
        return tuple(name for name in registry.lease_machines(lease) if name in self._recalled)

    def crash(self, machine: Machine) -> None:
        """See `SupportsFaults.crash`; files are kept."""
        self._require(machine).alive = False

    def restart(self, machine: Machine) -> None:
        """See `SupportsFaults.restart`; a connection from before the crash stays dead."""
        fake = self._require(machine)
        if not fake.alive:
            fake.alive, fake.boots = True, fake.boots + 1

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.disturb`; it is only noted."""
        for each in others:
            self._require(each)
        self._require(machine).disturbances.add(disturbance)

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.end_disturbance`."""
        for each in others:
            self._require(each)
        self._require(machine).disturbances.discard(disturbance)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`."""
        return tuple(f"machines of {lease_id}" for lease_id in _orphans())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`."""
        found = self.leftovers()
        for lease_id in _orphans():
            self._end(lease_id, [path.name for path in _folder(lease_id).glob("*")])
            shutil.rmtree(_folder(lease_id), ignore_errors=True)
        return found

    def connect(self, machine: Machine) -> Remote:
        """See `SupportsConnect.connect`; a released machine does not answer."""
        fake = self._find(machine)
        if fake is None or not fake.alive:
            raise InfrastructureError(f"{machine.name} (fake) does not answer: no route to host")
        return FakeRemote(fake)

    def _require_lease(self, lease: Lease) -> None:
        if self._dead:
            raise InfrastructureError("testbed fake does not answer; see whether it is up, then start again")
        registry.require_on_record(lease)

    def _start(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """All or none of them; what the lease had before stays."""
        begun_s, before = time.monotonic(), registry.lease_machines(lease)
        names = [request.name for request in requests]
        registry.hold(lease, [*before, *names])
        held = self._held.setdefault(lease.lease_id, {})
        _folder(lease.lease_id).mkdir(parents=True, exist_ok=True)
        for name in names:
            (_folder(lease.lease_id) / name).write_text(str(lease.expires_s))
            held[name] = FakeMachine(name)
            if name == self._fails_at:
                self._take_back(lease, names, before)
                raise InfrastructureError(f"fake: {name} does not answer ssh; start again")
        boot_s = time.monotonic() - begun_s
        return tuple(_fake_machine(lease, request, boot_s) for request in requests)

    def _take_back(self, lease: Lease, names: Sequence[str], before: Sequence[str]) -> None:
        if not before:
            self.release(lease)
            return
        self._end(lease.lease_id, names)
        registry.hold(lease, before)

    def _end(self, lease_id: str, names: Sequence[str]) -> None:
        self._recalled.difference_update(names)
        for name in names:
            (_folder(lease_id) / name).unlink(missing_ok=True)
            if (gone := self._held.get(lease_id, {}).pop(name, None)) is not None:
                gone.alive = False

    def _find(self, machine: Machine) -> FakeMachine | None:
        """Also one that another process has started: as if it had just booted."""
        lease_id = machine.ssh_key.parent.name
        if not (_folder(lease_id) / machine.name).exists():
            return None
        return self._held.setdefault(lease_id, {}).setdefault(machine.name, FakeMachine(machine.name))

    def _require(self, machine: Machine) -> FakeMachine:
        fake = self._find(machine)
        if fake is None or self._dead:
            raise InfrastructureError(
                f"fake: no lease has a machine {machine.name} (given back or released); name one that it has"
            )
        return fake

    def _all(self) -> list[FakeMachine]:
        return [machine for held in self._held.values() for machine in held.values()]


def _folder(lease_id: str) -> Path:
    return registry.state_dir() / "fake" / lease_id


def _orphans() -> list[str]:
    """Leases that have machines and are not on record."""
    owned = {lease.lease_id for lease in registry.read_all()}
    return sorted(path.name for path in _folder("").glob("*") if path.name not in owned)


def _require_capacity(unit: str, sizes: Sequence[float], available: float) -> None:
    if sum(sizes) > available:
        raise CapacityError(
            f"fake: {len(sizes)} machines need {sum(sizes):g} {unit}, this testbed has {available:g}; ask for fewer"
        )


def _fake_machine(lease: Lease, request: MachineRequest, boot_s: float) -> Machine:
    keys = registry.key_dir(lease.lease_id)
    number = int("".join(filter(str.isdigit, request.name)) or 0)
    return Machine(
        request.name, request.type, f"10.213.0.{10 + number}", f"10.214.0.{10 + number}",
        f"10.213.0.{10 + number}", "root", 22, keys / "id_ed25519", keys / "known_hosts", boot_s,
    )  # fmt: skip
