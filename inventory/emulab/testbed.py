"""The `emulab` testbed: machines of an Emulab project, by the access in the options.

Classic Emulab also has the abilities of `modexp`: a running experiment gets machines, or loses some.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab import experiments
from inventory.emulab.access import Access, EmulabTiming
from inventory.emulab.classic import Classic
from inventory.emulab.options import NAME, ClassicOptions, EmulabOptions, PortalOptions, read_emulab_options
from inventory.emulab.portal import Portal
from inventory.emulab.ssh import KNOWN_HOSTS, NodeLogin, OpsAccount, ops_account
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import Remote, connect
from inventory.testbed import Place

log = logging.getLogger(__name__)


class EmulabTestbed:
    """The testbed. Without options it releases, prolongs and sweeps what is on record; with them it can acquire too."""

    name = NAME
    shared = True
    whole_machines = True
    place: Place = "elsewhere"

    def __init__(
        self,
        options: EmulabOptions | None = None,
        timing: EmulabTiming = EmulabTiming(),  # noqa: B008  # frozen
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._timing, self._sleep = timing, sleep
        self._access = access_of_options(options, timing, sleep) if options else None

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`."""
        return self._needed().site()

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`."""
        experiments.check_machines(requests)
        self._needed().check(requests)

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`: every machine allows root's login when this returns."""
        access = self._needed()
        experiments.check_machines(requests)
        registry.require_on_record(lease)
        registry.require_empty(lease, registry.lease_machines(lease))
        try:
            return self._acquire(access, lease, requests)
        except BaseException as error:
            self._release_after(error, lease)
            raise

    def _acquire(self, access: Access, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        start = time.monotonic()
        experiment = experiments.experiment_name(lease.lease_id)
        experiments.add_site(access.site())
        registry.hold(lease, [request.name for request in requests])
        access.start(experiment, requests, lease.expires_s)
        machines = self._machines(access, lease, requests, start)
        if registry.read(lease.lease_id) is None:
            raise InfrastructureError(
                f"lease {lease.lease_id} was reaped while its machines started (expired?); start again"
            )
        log.info("lease %s: %d machines in experiment %s", lease.lease_id, len(machines), experiment)
        return machines

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`. The experiment is found by the lease's id alone, at the site in its record."""
        self._of(lease).end(experiments.experiment_name(lease.lease_id))
        (registry.key_dir(lease.lease_id) / KNOWN_HOSTS).unlink(missing_ok=True)
        registry.hold_nothing(lease)

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:  # noqa: ARG002  # they end as one
        """See `SupportsProlong.prolong`."""
        self._of(lease).prolong(experiments.experiment_name(lease.lease_id), lease.expires_s)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: experiments of this harness without a lease, at every recorded site."""
        return tuple(
            _leftover_name(lease_id)
            for site in experiments.recorded_sites()
            for lease_id in _ownerless_at(self._at(site))
        )

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`. A site without leftovers and leases is not asked again."""
        names: list[str] = []
        errors: list[BarographError] = []
        # A site where nothing was ever started is not asked: the reaper needs no account on Emulab.
        for site in experiments.recorded_sites():
            try:
                names += self._swept(self._at(site))
            except BarographError as error:  # the other sites are searched all the same
                errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(str(other))
            raise errors[0]
        return tuple(names)

    def _swept(self, access: Access) -> list[str]:
        lease_ids = _ownerless_at(access)
        for lease_id in lease_ids:
            access.end(experiments.experiment_name(lease_id))
            log.info("swept experiment %s", experiments.experiment_name(lease_id))
        experiments.drop_site(access.site(), self.name)
        return [_leftover_name(lease_id) for lease_id in lease_ids]

    def connect(self, machine: Machine) -> Remote:
        """See `SupportsConnect.connect`."""
        return connect(machine)

    def _machines(
        self, access: Access, lease: Lease, requests: Sequence[MachineRequest], begun: float
    ) -> tuple[Machine, ...]:
        """Return the requests' machines, once login works on each."""
        nodes = access.nodes(experiments.experiment_name(lease.lease_id), requests)
        types = [request.type for request in requests]
        return NodeLogin(self._given(), self._timing, self._sleep).machines(lease, nodes, types, begun)

    def _release_after(self, error: BaseException, lease: Lease) -> None:
        try:
            self.release(lease)
        except BarographError as failed:
            error.add_note(f"its experiment {experiments.experiment_name(lease.lease_id)} could not be ended: {failed}")
            log.warning("lease %s: not released (%s); `barograph reap` will", lease.lease_id, failed)

    def _of(self, lease: Lease) -> Access:
        # Experiments started with other options than today's are ended where they were started.
        return self._at(lease.site) if lease.site else self._needed()

    def _at(self, site: Mapping[str, str]) -> Access:
        if self._access is not None and self._access.site() == site:
            return self._access
        return access_of_site(site, self._timing, self._sleep)

    def _given(self) -> EmulabOptions:
        if self._options is None:
            raise ConfigurationError("testbed.options.emulab is missing; it says how to reach it (docs/testbeds.md)")
        return self._options

    def _needed(self) -> Access:
        self._given()
        assert self._access is not None
        return self._access


def _ownerless_at(access: Access) -> list[str]:
    # Experiments are listed before the leases are read: a lease is on record before its experiment exists.
    return experiments.ownerless_leases(access.experiments())


def _leftover_name(lease_id: str) -> str:
    return f"machines of {lease_id}"


def access_of_options(chosen: EmulabOptions, timing: EmulabTiming, sleep: Callable[[float], None]) -> Access:
    """Return the access in the options."""
    if isinstance(chosen, PortalOptions):
        return Portal(chosen.endpoint, chosen.project, chosen, timing, sleep)
    assert isinstance(chosen, ClassicOptions)
    return Classic(ops_account(chosen), chosen.project, chosen, timing, sleep)


def access_of_site(site: Mapping[str, str], timing: EmulabTiming, sleep: Callable[[float], None]) -> Access:
    """Return the access to a recorded site, for looking and ending only."""
    if site["access"] == "portal":
        return Portal(site["endpoint"], site["project"], None, timing, sleep)
    account = OpsAccount(
        site["ops_host"], int(site["ops_port"]), site["user"], Path(site["ssh_key"]), Path(site["ops_known_hosts"])
    )
    return Classic(account, site["project"], None, timing, sleep)


class ClassicEmulabTestbed(EmulabTestbed):
    """Emulab by its ops host, with `grow` and `give_back`: unlike the portal it keeps the other nodes."""

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`."""
        start, access = time.monotonic(), self._classic()
        names, experiment = registry.lease_machines(lease), experiments.experiment_name(lease.lease_id)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        experiments.check_machines([*(MachineRequest(name, requests[0].type) for name in names), *requests])
        seats = experiments.read_record(experiment).seats
        registry.hold(lease, [*names, *(request.name for request in requests)])
        try:
            access.modify(experiment, access.more_seats(experiment, requests))
            return self._machines(access, lease, requests, start)
        except CapacityError:  # Emulab left the experiment as it was
            registry.hold(lease, names)
            raise
        except BaseException:
            access.modify(experiment, seats)
            registry.hold(lease, names)
            raise

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`."""
        given_names, names = {machine.name for machine in machines}, registry.lease_machines(lease)
        if not given_names & set(names):
            return
        experiment = experiments.experiment_name(lease.lease_id)
        self._classic().modify(
            experiment, [one for one in experiments.read_record(experiment).seats if one.name not in given_names]
        )
        registry.hold(lease, [name for name in names if name not in given_names])
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(sorted(given_names)))

    def _classic(self) -> Classic:
        access = self._needed()
        assert isinstance(access, Classic)
        return access


def emulab_testbed(
    options: Mapping[str, object] | None = None,
    timing: EmulabTiming = EmulabTiming(),  # noqa: B008  # frozen
    sleep: Callable[[float], None] = time.sleep,
) -> EmulabTestbed:
    """Return the testbed with the abilities of the chosen access; without options, one for release and the reaper."""
    emulab_options = read_emulab_options(options) if options else None
    kind = ClassicEmulabTestbed if isinstance(emulab_options, ClassicOptions) else EmulabTestbed
    return kind(emulab_options, timing, sleep)
