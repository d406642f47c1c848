"""The `existing` testbed: machines of others, used for a lease and given back as they were, but for packages.

Who has a machine stands on the machine (`ownership`), because other harnesses may know it too. Which machines this
harness uses stands in its state folder (`logins`) from before the first machine is touched until the last one is
clean. A guard on each machine removes our programs when the lease ends, whatever became of the harness.
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
from inventory.existing.ownership import Holder
from inventory.existing.survey import SurveyedMachine, call_for_all, call_for_each
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import Remote, connect
from inventory.testbed import Place, read_options

log = logging.getLogger(__name__)

FORGET_AFTER_S = 600.0  # after its lease's end a silent machine has been left by its own guard, or is no more
LONGEST_LEASE_S = 7 * 86400.0  # of a lease whose record is lost


class ExistingTestbed:
    """Machines that one already has."""

    name = "existing"
    shared = False
    whole_machines = True
    place: Place = "elsewhere"

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        # Without options it can still release; that they are missing is said when they are needed.
        self._given = dict(options or {})
        if self._given:
            self._options()

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`: how each machine of the group is reached, so that the file may change meanwhile."""
        choice = self._choice()
        doors_or_not = call_for_each(choice.hosts, lambda host: logins.login_to(host, self._options()))
        reachable = [door for door in doors_or_not if isinstance(door, Login)]
        return {"inventory": str(choice.file), "machines": logins.logins_to_text(reachable)}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: the file, every machine that is wanted, and who has it."""
        machines.check_names(self.name, requests)
        survey.survey_machines(requests, self._choice(), self._options())

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`."""
        registry.require_on_record(lease)
        registry.require_empty(lease, logins.logins_file(lease.lease_id).exists())
        seen = survey.survey_machines(requests, self._choice(), self._options())
        with _undo_on_error(lambda: self.release(lease)):
            return _take_all(lease, seen)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`: the next machines of the file that the lease has not."""
        before, names = logins.read_logins(lease.lease_id), registry.lease_machines(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        seen = survey.survey_machines(requests, self._choice(), self._options(), [door.called for door in before])

        def undo() -> None:
            _leave_all(lease, [one.door for one in seen])
            logins.write_logins(lease.lease_id, before)
            registry.hold(lease, names)

        with _undo_on_error(undo):
            return _take_all(lease, seen)

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsProlong.prolong`."""

        def one(machine: Machine) -> None:
            with connect(machine) as remote:
                ownership.prolong(remote, lease)

        call_for_all(machines, one, f"lease {lease.lease_id} cannot be prolonged")

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`."""
        if not (before := logins.read_logins(lease.lease_id)):
            return
        gone = {(machine.control_address, machine.ssh_port) for machine in machines}
        going = [door for door in before if (door.address, door.port) in gone]
        _leave_all(lease, going)
        staying = [door for door in before if door not in going]
        logins.write_logins(lease.lease_id, staying)
        _known_hosts(lease).write_text(logins.known_hosts_text(staying))  # nobody talks to the others by mistake
        names = {machine.name for machine in machines}
        registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in names])
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(door.called for door in going))

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`: our programs, files and names are gone from every machine; packages stay."""
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
        swept = logins.ownerless_leases()
        for lease_id in swept:
            since_s = logins.logins_file(lease_id).stat().st_mtime
            ended_s = since_s + LONGEST_LEASE_S
            self.release(Lease(lease_id, "nobody", "none", self.name, since_s, ended_s, 0, ""))
        return tuple(f"machines of {lease_id}" for lease_id in swept)

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
    """The machines are the lease's and ready for it; on record before they are touched."""
    known = _known_hosts(lease)
    known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ours = [*logins.read_logins(lease.lease_id), *(one.door for one in seen)]
    logins.write_logins(lease.lease_id, ours)
    registry.hold(lease, [*registry.lease_machines(lease), *(one.request.name for one in seen)])
    known.write_text(logins.known_hosts_text(ours))
    machines = tuple(one.machine(known) for one in seen)
    holders = call_for_all(machines, lambda machine: _take(machine, lease), "machines cannot be taken")
    if taken := [(one.host, holder) for one, holder in zip(seen, holders, strict=True) if holder]:
        raise survey.in_use_error(taken)
    call_for_all(machines, lambda machine: _prepare(machine, lease), "machines cannot be made ready")
    for one in seen:
        log.info("lease %s: %s is %s", lease.lease_id, one.request.name, one.host)
    return machines


def _take(machine: Machine, lease: Lease) -> Holder | None:
    """Who has the machine, if not the lease from now on."""
    with connect(machine) as remote:
        other = ownership.take(remote, lease)
        return ownership.take(remote, lease, other.lease_id) if other and survey.is_dead_holder(other) else other


def _prepare(machine: Machine, lease: Lease) -> None:
    with connect(machine) as remote:
        ownership.prepare_machine(remote, lease)


def _leave_all(lease: Lease, many: Sequence[Login]) -> None:
    """Off these machines. A silent one is an InfrastructureError as long as it may still run what is ours."""
    with TemporaryDirectory(prefix="barograph-") as folder:
        known = Path(folder, "known_hosts")
        known.write_text(logins.known_hosts_text(many))

        def one(door: Login) -> None:
            with connect(logins.machine_of_login(door, door.called, known)) as remote:
                ownership.leave(remote, lease.lease_id)

        failed = [str(answer) for answer in call_for_each(many, one) if isinstance(answer, BarographError)]
    if failed and time.time() > lease.expires_s + FORGET_AFTER_S:
        log.warning("lease %s has ended; given up: %s", lease.lease_id, "; ".join(failed))
    elif failed:
        raise InfrastructureError(
            f"lease {lease.lease_id} cannot be taken off {len(failed)} machines: {'; '.join(failed)}; their own guard "
            "does it when the lease ends, `barograph reap` tries before"
        )


@contextmanager
def _undo_on_error(undo: Callable[[], None]) -> Iterator[None]:
    """All or nothing: what fails is undone, and what cannot be undone is the reaper's."""
    try:
        yield
    except BaseException:
        try:
            undo()
        except BarographError as error:
            log.warning("existing: %s", error)
        raise
