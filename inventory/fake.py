"""The `fake` testbed: machines in memory, for tests and dry runs, under the same contract as the real ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from inventory import leases
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError, RemoteTimeoutError
from inventory.leases import Lease
from inventory.options import refuse_options
from inventory.remote import Remote, Result
from inventory.testbed import Machine, MachineRequest


@dataclass
class FakeMachine:
    """What a fake machine is: files, programs, and whether it is alive. Tests reach in and change it."""

    name: str
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    programs: dict[str, "Program"] = field(default_factory=dict)
    alive: bool = True
    boots: int = 1
    commands: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Ran:
    """What a fake program did: its result and how long it would have taken."""

    result: Result
    seconds: float = 0.0


Program = Callable[[FakeMachine, Sequence[str]], Ran]


def _cat(machine: FakeMachine, arguments: Sequence[str]) -> Ran:
    if missing := [path for path in arguments if path not in machine.files]:
        return Ran(Result("", f"cat: {missing[0]}: No such file or directory\n", 1))
    return Ran(Result("".join(machine.files[path][0].decode() for path in arguments), "", 0))


def _stat(machine: FakeMachine, arguments: Sequence[str]) -> Ran:
    """Only `stat -c %a PATH`."""
    if (path := arguments[-1]) not in machine.files:
        return Ran(Result("", f"stat: cannot statx '{path}': No such file or directory\n", 1))
    return Ran(Result(f"{machine.files[path][1]:o}\n", "", 0))


PROGRAMS: dict[str, Program] = {
    "true": lambda _machine, _arguments: Ran(Result("", "", 0)),
    "false": lambda _machine, _arguments: Ran(Result("", "", 1)),
    "hostname": lambda machine, _arguments: Ran(Result(f"{machine.name}\n", "", 0)),
    "echo": lambda _machine, arguments: Ran(Result(" ".join(arguments) + "\n", "", 0)),
    "sleep": lambda _machine, arguments: Ran(Result("", "", 0), float(arguments[0])),
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
    """Machines in memory. `fails_at` names a machine that dies while it is acquired."""

    name = "fake"
    shared = False
    whole_machines = False

    def __init__(
        self,
        cores: float = 64.0,
        memory_mb: int = 262_144,
        fails_at: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        refuse_options(self.name, options)
        self._cores = cores
        self._memory_mb = memory_mb
        self._fails_at = fails_at
        self._dead = False
        self._held: dict[str, dict[str, FakeMachine]] = {}

    def die(self) -> None:
        """From now on the testbed itself does not answer, nor any machine of it."""
        self._dead = True
        for machine in self._all():
            machine.alive = False

    def machine(self, name: str) -> FakeMachine:
        """The machine of that name, to look at or to break."""
        return next(machine for machine in self._all() if machine.name == name)

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`."""
        return {}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`."""
        _require("cores", [request.type.cores for request in requests], self._cores)
        _require("MB of memory", [request.type.memory_mb for request in requests], self._memory_mb)
        names = [request.name for request in requests]
        if not names or len(set(names)) < len(names):
            raise ConfigurationError(f"fake: machine names are {names}; give at least one, each once")

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`."""
        self.check(requests)
        if self._dead:
            raise InfrastructureError("testbed fake does not answer; see whether it is up, then start again")
        if leases.read(lease.lease_id) is None:
            raise InfrastructureError(f"lease {lease.lease_id} is not on record (released or reaped); take a new one")
        if lease.lease_id in self._held:
            raise ConfigurationError(
                f"lease {lease.lease_id} holds machines already; release it before it acquires others"
            )
        leases.hold(lease, [request.name for request in requests])
        held = self._held[lease.lease_id] = {}
        for request in requests:
            held[request.name] = FakeMachine(request.name)
            if request.name == self._fails_at:
                self.release(lease)
                raise InfrastructureError(f"fake: {request.name} does not answer ssh; start again")
        return tuple(_machine(lease, request, number) for number, request in enumerate(requests))

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`."""
        for machine in self._held.pop(lease.lease_id, {}).values():
            machine.alive = False
        leases.hold_nothing(lease)

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `GivingBack.give_back`."""
        if lease.lease_id not in self._held:
            return
        for machine in machines:
            if (gone := self._held[lease.lease_id].pop(machine.name, None)) is not None:
                gone.alive = False
        leases.hold(lease, self._held[lease.lease_id])

    def crash(self, machine: Machine) -> None:
        """See `Faulting.crash`; files are kept."""
        self._require(machine).alive = False

    def restart(self, machine: Machine) -> None:
        """See `Faulting.restart`; a connection from before the crash stays dead."""
        fake = self._require(machine)
        if not fake.alive:
            fake.alive, fake.boots = True, fake.boots + 1

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`."""
        owned = {lease.lease_id for lease in leases.read_all()}
        return tuple(f"machines of {lease_id}" for lease_id in sorted(self._held.keys() - owned))

    def sweep(self) -> tuple[str, ...]:
        """See `Sweeping.sweep`."""
        found = self.leftovers()
        for lease_id in self._held.keys() - {lease.lease_id for lease in leases.read_all()}:
            del self._held[lease_id]
        return found

    def connect(self, machine: Machine) -> Remote:
        """See `Connecting.connect`; a released machine does not answer."""
        fake = self._find(machine)
        if fake is None or not fake.alive:
            raise InfrastructureError(f"{machine.name} (fake) does not answer: no route to host")
        return FakeRemote(fake)

    def _find(self, machine: Machine) -> FakeMachine | None:
        return self._held.get(machine.ssh_key.parent.name, {}).get(machine.name)

    def _require(self, machine: Machine) -> FakeMachine:
        fake = self._find(machine)
        if fake is None or self._dead:
            raise InfrastructureError(
                f"fake: no lease has a machine {machine.name} (given back or released); name one that it has"
            )
        return fake

    def _all(self) -> list[FakeMachine]:
        return [machine for held in self._held.values() for machine in held.values()]


def _require(unit: str, sizes: Sequence[float], available: float) -> None:
    if sum(sizes) > available:
        raise CapacityError(
            f"fake: {len(sizes)} machines need {sum(sizes):g} {unit}, this testbed has {available:g}; ask for fewer"
        )


def _machine(lease: Lease, request: MachineRequest, number: int) -> Machine:
    keys = leases.key_dir(lease.lease_id)
    return Machine(
        request.name, request.type, f"10.213.0.{10 + number}", f"10.214.0.{10 + number}",
        f"10.213.0.{10 + number}", "root", 22, keys / "id_ed25519", keys / "known_hosts",
    )  # fmt: skip
