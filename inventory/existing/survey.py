"""Which machine would get which name, and what each is: asked of all at once, and all that is wrong said at once."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from inventory import leases, machine_names
from inventory.errors import CapacityError, ConfigurationError, InventoryError
from inventory.existing import doors, facts
from inventory.existing.at_once import each
from inventory.existing.claims import Holder
from inventory.existing.doors import Door
from inventory.existing.hosts import Choice, Host
from inventory.existing.options import ExistingOptions
from inventory.harness import harness_id
from inventory.machines import Machine, MachineRequest, MachineType
from inventory.remote import connect

log = logging.getLogger(__name__)

MASTER = "master"


@dataclass(frozen=True)
class Seen:
    """A machine that is wanted, and what it turned out to be."""

    request: MachineRequest
    host: Host
    door: Door
    facts: facts.Facts
    inside_address: str
    experiment_address: str

    def machine(self, known_hosts: Path) -> Machine:
        """As it will be in the lease."""
        return replace(
            doors.reached(self.door, self.request.name, known_hosts),
            type=real_type(self.request, self.facts, self.host.slots),
            experiment_address=self.experiment_address,
            inside_address=self.inside_address,
        )


def look(
    requests: Sequence[MachineRequest], choice: Choice, options: ExistingOptions, used: Sequence[str] = ()
) -> tuple[Seen, ...]:
    """The machines that would be taken; `used` are those that the lease has already, by their owner's names."""
    machine_names.check("existing", requests)
    pairs = assign(requests, choice, used)
    if problems := doors.twice(choice.hosts):
        raise _wrong(choice, problems)
    answers = _ask(pairs, options)
    if problems := [problem for answer in answers if isinstance(answer, list) for problem in answer]:
        raise _wrong(choice, problems)
    seen = tuple(answer for answer in answers if isinstance(answer, Seen))
    if taken := [(one.host, holder) for one in seen if (holder := _other(one.facts))]:
        raise in_use(taken)
    for one in seen:
        _remark(one)
    return seen


def in_use(taken: Sequence[tuple[Host, Holder]]) -> CapacityError:
    """Somebody else has these machines."""
    held = "; ".join(f"{host} is held by {holder}" for host, holder in taken)
    return CapacityError(f"existing: {held}; wait, or name other machines")


def is_dead(holder: Holder) -> bool:
    """A lease of this harness that is no more: whoever released it did not reach the machine."""
    return holder.harness == harness_id() and leases.read(holder.lease_id) is None


def assign(
    requests: Sequence[MachineRequest], choice: Choice, used: Sequence[str] = ()
) -> list[tuple[MachineRequest, Host]]:
    """The master gets the machine that was chosen for it, the others get the rest, in the file's order."""
    free = [host for host in choice.hosts if host.called not in used]
    if len(requests) > len(free):
        raise CapacityError(
            f"existing: {len(requests)} machines are asked for, {choice.file} has {len(free)}"
            f"{' more' if used else ''}; list more of them or ask for fewer"
        )
    has_master = any(request.name == MASTER for request in requests)
    workers = iter(free[1:] if has_master else free)
    return [(request, free[0] if request.name == MASTER else next(workers)) for request in requests]


def real_type(request: MachineRequest, seen: facts.Facts, slots: int | None) -> MachineType:
    """What the machine is, under the asked type's name; bandwidth cannot be seen and is as asked."""
    asked = request.type
    kept = asked.slots if slots is None or asked.slots == 0 else slots
    return replace(asked, cores=seen.cores, memory_mb=seen.memory_mb, slots=kept)


def _ask(pairs: Sequence[tuple[MachineRequest, Host]], options: ExistingOptions) -> list[Seen | list[str]]:
    """What each machine is, or what is wrong with it."""
    with TemporaryDirectory(prefix="barograph-") as folder:

        def one(pair: tuple[MachineRequest, Host]) -> Seen | list[str]:
            return _see(*pair, options, Path(folder))

        answers = each(pairs, one)
    return [
        [str(answer) if str(answer).startswith(host.called) else f"{host}: {answer}"]
        if isinstance(answer, InventoryError)
        else answer
        for (_, host), answer in zip(pairs, answers, strict=True)
    ]


def _see(request: MachineRequest, host: Host, options: ExistingOptions, folder: Path) -> Seen | list[str]:
    door = doors.door(host, options)
    known = folder / f"{request.name}-known_hosts"
    known.write_text(doors.known_text([door]))
    with connect(doors.reached(door, door.called, known)) as remote:
        seen = facts.ask(remote)
    if wrong := facts.problems(seen):
        return [f"{host}: {problem}" for problem in wrong]
    return Seen(request, host, door, seen, *facts.addresses(host, seen))


def _wrong(choice: Choice, problems: Sequence[str]) -> ConfigurationError:
    # Nothing was started: a machine that is silent now is its owner's to mend, as is a wrong line of the file.
    return ConfigurationError(f"existing: {len(problems)} to mend with {choice.file}: {'; '.join(problems)}")


def _other(seen: facts.Facts) -> Holder | None:
    holder = Holder.parse(seen.lease)
    return holder if holder and holder.is_live(time.time()) and not is_dead(holder) else None


def _remark(one: Seen) -> None:
    asked, real = one.request.type, one.facts
    if real.cores < asked.cores or real.memory_mb < asked.memory_mb:
        log.warning(
            "%s (%s) has %g cores and %d MB, less than %s asks for (%g cores, %d MB)",
            one.request.name, one.host, real.cores, real.memory_mb, asked.name, asked.cores, asked.memory_mb,
        )  # fmt: skip
