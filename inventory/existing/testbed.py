"""The `existing` testbed: machines of others, used for a lease and given back as they were, except for packages.

A machine's holder is written on the machine (`ownership`), because other harnesses may know it too. The machines of
this harness are listed in its state folder (`logins`) from before the first machine is touched until the last one is
clean. A guard on each machine removes our programs when the lease ends, even if the harness is gone.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from barograph.errors import BarographError, InfrastructureError
from inventory import machines
from inventory.existing import logins, ownership, survey
from inventory.existing.hosts import ExistingOptions, HostChoice, choose_hosts
from inventory.existing.logins import Login
from inventory.existing.ownership import Owner
from inventory.existing.survey import SurveyedMachine, call_for_all, call_for_each
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import Remote, connect
from inventory.testbed import Place, read_options

log = logging.getLogger(__name__)

FORGET_AFTER_S = 600.0  # after its lease's end a silent machine was cleared by its own guard, or no longer exists
LONGEST_LEASE_S = 7 * 86400.0  # of a lease whose record is lost


class ExistingTestbed:
    """The user's own machines."""

    name = "existing"
    shared = False
    whole_machines = True
    place: Place = "elsewhere"

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        # Without options it can still release; an operation that needs them reports that they are missing.
        self._given = dict(options or {})
        if self._given:
            self._options()

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`: the login on each machine of the group, so that the file may change meanwhile."""
        choice = self._choice()
        doors_or_not = call_for_each(choice.hosts, lambda host: logins.login_to(host, self._options()))
        reachable = [door for door in doors_or_not if isinstance(door, Login)]
        return {"inventory": str(choice.file), "machines": logins.logins_to_text(reachable)}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: the file, every requested machine, and its holder."""
        machines.check_names(self.name, requests)
        survey.survey_machines(requests, self._choice(), self._options())

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`."""
        registry.require_on_record(lease)
        registry.require_empty(lease, logins.logins_file(lease.lease_id).exists())
        surveyed_machines = survey.survey_machines(requests, self._choice(), self._options())
        with _undo_on_error(lambda: self.release(lease)):
            return _take_all(lease, surveyed_machines)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`: the next machines of the file that the lease does not have yet."""
        doors, names = logins.read_logins(lease.lease_id), registry.lease_machines(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        surveyed_machines = survey.survey_machines(
            requests, self._choice(), self._options(), [door.called for door in doors]
        )

        def undo() -> None:
            _leave_all(lease, [one.door for one in surveyed_machines])
            logins.write_logins(lease.lease_id, doors)
            registry.hold(lease, names)

        with _undo_on_error(undo):
            return _take_all(lease, surveyed_machines)

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsProlong.prolong`."""

        def one(machine: Machine) -> None:
            with connect(machine) as remote:
                ownership.prolong(remote, lease)

        call_for_all(machines, one, f"lease {lease.lease_id} cannot be prolonged")

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`."""
        if not (doors := logins.read_logins(lease.lease_id)):
            return
        gone = {(machine.control_address, machine.ssh_port) for machine in machines}
        going = [door for door in doors if (door.address, door.port) in gone]
        _leave_all(lease, going)
        rest = [door for door in doors if door not in going]
        logins.write_logins(lease.lease_id, rest)
        _known_hosts(lease).write_text(logins.known_hosts_text(rest))  # nobody talks to the others by mistake
        names = {machine.name for machine in machines}
        registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in names])
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(door.called for door in going))

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`: removes our programs, files and names from every machine; packages stay."""
        _leave_all(
            lease, logins.read_logins(lease.lease_id) or logins.logins_from_text(lease.site.get("machines", "[]"))
        )
        shutil.rmtree(registry.key_dir(lease.lease_id), ignore_errors=True)
        logins.remove_logins(lease.lease_id)
        registry.hold_nothing(lease)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: one name per lease that has machines and is not on record."""
        return tuple(f"machines of {lease_id}" for lease_id in logins.ownerless_leases())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`."""
        lease_ids = logins.ownerless_leases()
        for lease_id in lease_ids:
            since_s = logins.logins_file(lease_id).stat().st_mtime
            ended_s = since_s + LONGEST_LEASE_S
            self.release(Lease(lease_id, "nobody", "none", self.name, since_s, ended_s, 0, ""))
        return tuple(f"machines of {lease_id}" for lease_id in lease_ids)

    def connect(self, machine: Machine) -> Remote:
        """See `SupportsConnect.connect`."""
        return connect(machine)

    def _options(self) -> ExistingOptions:
        return read_options(ExistingOptions, self.name, self._given)

    def _choice(self) -> HostChoice:
        return choose_hosts(self._options())


def _known_hosts(lease: Lease) -> Path:
    return registry.key_dir(lease.lease_id) / "known_hosts"


def _take_all(lease: Lease, seen: Sequence[SurveyedMachine]) -> tuple[Machine, ...]:
    """Take the machines for the lease and prepare them; they are on record before they are touched."""
    known_hosts = _known_hosts(lease)
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    doors = [*logins.read_logins(lease.lease_id), *(one.door for one in seen)]
    logins.write_logins(lease.lease_id, doors)
    registry.hold(lease, [*registry.lease_machines(lease), *(one.request.name for one in seen)])
    known_hosts.write_text(logins.known_hosts_text(doors))
    machines = tuple(one.machine(known_hosts) for one in seen)
    holders = call_for_all(machines, lambda machine: _take(machine, lease), "machines cannot be taken")
    if held_machines := [(one.host, holder) for one, holder in zip(seen, holders, strict=True) if holder]:
        raise survey.in_use_error(held_machines)
    call_for_all(machines, lambda machine: _prepare(machine, lease), "machines cannot be made ready")
    for one in seen:
        log.info("lease %s: %s is %s", lease.lease_id, one.request.name, one.host)
    return machines


def _take(machine: Machine, lease: Lease) -> Owner | None:
    """Take the machine for the lease, or return its holder."""
    with connect(machine) as remote:
        other = ownership.take(remote, lease)
        return ownership.take(remote, lease, other.lease_id) if other and survey.is_dead_holder(other) else other


def _prepare(machine: Machine, lease: Lease) -> None:
    with connect(machine) as remote:
        ownership.prepare_machine(remote, lease)


def _leave_all(lease: Lease, many: Sequence[Login]) -> None:
    """Clear these machines. A silent one is an InfrastructureError as long as our programs may still run there."""
    with TemporaryDirectory(prefix="barograph-") as folder:
        known_hosts = Path(folder, "known_hosts")
        known_hosts.write_text(logins.known_hosts_text(many))

        def one(door: Login) -> None:
            with connect(logins.machine_of_login(door, door.called, known_hosts)) as remote:
                ownership.leave(remote, lease.lease_id)

        errors = [str(answer) for answer in call_for_each(many, one) if isinstance(answer, BarographError)]
    if errors and time.time() > lease.expires_s + FORGET_AFTER_S:
        log.warning("lease %s has ended; given up: %s", lease.lease_id, "; ".join(errors))
    elif errors:
        raise InfrastructureError(
            f"lease {lease.lease_id} cannot be taken off {len(errors)} machines: {'; '.join(errors)}; their own guard "
            "does it when the lease ends, `barograph reap` tries before"
        )


@contextmanager
def _undo_on_error(undo: Callable[[], None]) -> Iterator[None]:
    """Undo everything on an error; the reaper removes what cannot be undone."""
    try:
        yield
    except BaseException:
        try:
            undo()
        except BarographError as error:
            log.warning("existing: %s", error)
        raise
