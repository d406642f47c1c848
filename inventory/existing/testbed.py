"""The `existing` testbed: machines of others, used for a lease and given back as they were, except for packages.

A machine's holder is written on the machine (`ownership`), because other harnesses may know it too. The machines of
this harness are listed in its state folder (`hosts`) from before the first machine is touched until the last one is
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
from inventory.existing import hosts, ownership, survey
from inventory.existing.hosts import LOGINS, ExistingOptions, HostChoice, Login, choose_hosts
from inventory.existing.ownership import Owner
from inventory.existing.survey import SurveyedMachine, call_for_all, call_for_each
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest, check_names
from inventory.remote.ssh import connect
from inventory.testbed import Place, leftover_names, read_options

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
        logins = call_for_each(choice.hosts, lambda host: hosts.login_to(host, self._options()))
        reachable = tuple(login for login in logins if isinstance(login, Login))
        return {"inventory": str(choice.file), "machines": LOGINS.dump_json(reachable).decode()}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: the file, every requested machine, and its holder."""
        check_names(self.name, requests)
        survey.survey_machines(requests, self._choice(), self._options())

    def remark(self) -> str:
        """See `SupportsRemark.remark`."""
        return f"the master would be {self._choice().hosts[0]}"

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        registry.require_new(lease, hosts.logins_file(lease.lease_id).exists())
        surveyed_machines = survey.survey_machines(requests, self._choice(), self._options())
        with _undo_on_error(lambda: self.release(lease)):
            return _take_all(lease, surveyed_machines)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`: the next machines of the file that the lease does not have yet."""
        logins, names = hosts.read_logins(lease.lease_id), registry.lease_machines(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        used = [login.called for login in logins]
        surveyed_machines = survey.survey_machines(requests, self._choice(), self._options(), used)

        def undo() -> None:
            _leave_all(lease, [one.login for one in surveyed_machines])
            hosts.write_logins(lease.lease_id, logins)
            registry.hold(lease, names)

        with _undo_on_error(undo):
            return _take_all(lease, surveyed_machines)

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        def one(machine: Machine) -> None:
            with connect(machine) as remote:
                ownership.prolong(remote, lease)

        call_for_all(machines, one, f"lease {lease.lease_id} cannot be prolonged")

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        if not (logins := hosts.read_logins(lease.lease_id)):
            return
        gone = {(machine.control_address, machine.ssh_port) for machine in machines}
        going = [login for login in logins if (login.address, login.port) in gone]
        _leave_all(lease, going)
        rest = [login for login in logins if login not in going]
        hosts.write_logins(lease.lease_id, rest)
        _known_hosts(lease).write_text(hosts.known_hosts_text(rest))  # nobody talks to the others by mistake
        registry.let_go(lease, {machine.name for machine in machines})
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(login.called for login in going))

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`: removes our programs, files and names from every machine; packages stay."""
        recorded = LOGINS.validate_json(lease.site.get("machines", "[]"))
        _leave_all(lease, hosts.read_logins(lease.lease_id) or recorded)
        shutil.rmtree(registry.key_dir(lease.lease_id), ignore_errors=True)
        hosts.logins_file(lease.lease_id).unlink(missing_ok=True)
        registry.hold_nothing(lease)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: one name per lease that has machines and is not on record."""
        return leftover_names(self._ownerless())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`. A silent machine keeps no run off the others: its own guard clears it at its
        lease's end, and it stays on the list until then."""
        swept = []
        for lease_id in self._ownerless():
            since_s = hosts.logins_file(lease_id).stat().st_mtime
            ended_s = since_s + LONGEST_LEASE_S
            try:
                self.release(Lease(lease_id, "nobody", "none", self.name, since_s, ended_s, 0, ""))
                swept.append(lease_id)
            except InfrastructureError as error:
                log.warning("%s", error)
        return leftover_names(swept)

    def _ownerless(self) -> list[str]:
        return registry.ownerless(path.stem for path in hosts.logins_file("any").parent.glob("*.json"))

    def _options(self) -> ExistingOptions:
        return read_options(ExistingOptions, self.name, self._given)

    def _choice(self) -> HostChoice:
        return choose_hosts(self._options())


def _known_hosts(lease: Lease) -> Path:
    return registry.key_dir(lease.lease_id) / "known_hosts"


def _take_all(lease: Lease, surveyed: Sequence[SurveyedMachine]) -> tuple[Machine, ...]:
    """Take the machines for the lease and prepare them; they are on record before they are touched."""
    known_hosts = _known_hosts(lease)
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    logins = [*hosts.read_logins(lease.lease_id), *(one.login for one in surveyed)]
    hosts.write_logins(lease.lease_id, logins)
    registry.hold(lease, [*registry.lease_machines(lease), *(one.request.name for one in surveyed)])
    known_hosts.write_text(hosts.known_hosts_text(logins))
    machines = tuple(one.machine(known_hosts) for one in surveyed)

    def take(machine: Machine) -> Owner | None:
        with connect(machine) as remote:
            other = ownership.take(remote, lease)
            return ownership.take(remote, lease, other.lease_id) if other and survey.is_dead_holder(other) else other

    def prepare(machine: Machine) -> None:
        with connect(machine) as remote:
            ownership.prepare_machine(remote, lease)

    holders = call_for_all(machines, take, "machines cannot be taken")
    if held_machines := [(one.host, holder) for one, holder in zip(surveyed, holders, strict=True) if holder]:
        raise survey.in_use_error(held_machines)
    call_for_all(machines, prepare, "machines cannot be made ready")
    for one in surveyed:
        log.info("lease %s: %s is %s", lease.lease_id, one.request.name, one.host)
    return machines


def _leave_all(lease: Lease, logins: Sequence[Login]) -> None:
    """Clear these machines. A silent one is an InfrastructureError as long as our programs may still run there."""
    with TemporaryDirectory(prefix="barograph-") as folder:
        known_hosts = Path(folder, "known_hosts")
        known_hosts.write_text(hosts.known_hosts_text(logins))

        def one(login: Login) -> None:
            with connect(login.machine(login.called, known_hosts)) as remote:
                ownership.leave(remote, lease.lease_id)

        errors = [str(answer) for answer in call_for_each(logins, one) if isinstance(answer, BarographError)]
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
