"""The `emulab` testbed: machines of an Emulab project, by the access in the options.

Names of experiments carry the harness and the lease, so that either is found by name alone. They have 16 characters:
classic Emulab allows 19 (`experiments.eid`, together with a project of 12), the portal's own pages 16. A lease's record
is enough to end its experiment; the file of every site where something was started lets a reaper without options look
for leftovers. Classic Emulab also has the abilities of `modexp`: a running experiment gets machines, or loses some.
"""

import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab import classic
from inventory.emulab.access import (
    KNOWN_HOSTS,
    NAME,
    ClassicOptions,
    EmulabOptions,
    EmulabTiming,
    OpsAccount,
    PortalOptions,
    login_on_nodes,
    ops_account,
    read_emulab_options,
    require_files,
)  # fmt: skip
from inventory.emulab.classic import Classic
from inventory.emulab.portal import Portal
from inventory.files import hold_lock, replace_file
from inventory.leases import registry
from inventory.leases.registry import Lease, harness_id
from inventory.machines import Machine, MachineRequest, check_names
from inventory.testbed import Place, leftover_names

log = logging.getLogger(__name__)
Access = Portal | Classic

# A Tcl variable in the NS file, a label of a host name, a column of 15.
MACHINE_NAME = re.compile(r"[a-z][a-z0-9]{0,14}")


def experiment_name(lease_id: str) -> str:
    return f"bg{harness_id()[:6]}{lease_id}"


def lease_of_experiment(experiment: str) -> str | None:
    """Return the lease in an experiment's name; None if it is not this harness's."""
    match = re.fullmatch(experiment_name(r"([0-9a-f]{8})"), experiment)
    return match[1] if match else None


def check_machines(requests: Sequence[MachineRequest]) -> None:
    if len(requests) < 2:
        raise ConfigurationError(
            f"emulab: {len(requests)} machine(s) asked for; ask for master and at least one worker (a LAN joins them)"
        )
    check_names(NAME, requests, MACHINE_NAME, "lower case letters and digits, at most 15, a letter first")


def recorded_sites() -> list[dict[str, str]]:
    """Return every site where this harness started something and has not since found that nothing is left."""
    try:
        sites = json.loads(_sites_file().read_text())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise InfrastructureError(
            f"{_sites_file()}: not readable ({error}); remove it, and look on Emulab for experiments that are left"
        ) from error
    return [dict(one) for one in sites]


def add_site(site: Mapping[str, str]) -> None:
    """Record the site. The lease that starts something there is on record before this is called."""
    with _lock():
        sites = recorded_sites()
        if dict(site) not in sites:
            replace_file(_sites_file(), json.dumps([*sites, dict(site)], indent=1))


def drop_site(site: Mapping[str, str]) -> None:
    """Remove the site, unless a lease on record is there."""
    with _lock():
        is_in_use = any(lease.testbed == NAME and lease.site == site for lease in registry.read_all())
        if not (is_in_use or registry.damaged()):
            sites = [one for one in recorded_sites() if one != dict(site)]
            replace_file(_sites_file(), json.dumps(sites, indent=1))


def _lock() -> AbstractContextManager[None]:
    return hold_lock(_sites_file().with_name(".lock"), "noting a site of Emulab")


def _sites_file() -> Path:
    return registry.state_dir() / "emulab" / "sites.json"


class EmulabTestbed:
    """The testbed. Without options it releases, prolongs and sweeps what is on record; with them it can acquire too."""

    name = NAME
    shared = True
    whole_machines = True
    place: Place = "elsewhere"

    def __init__(self, options: EmulabOptions | None, timing: EmulabTiming) -> None:
        self._options, self._timing = options, timing
        self._access: Access | None = None
        if isinstance(options, PortalOptions):
            self._access = Portal(options.endpoint, options.project, timing, options)
        elif isinstance(options, ClassicOptions):
            self._access = Classic(ops_account(options), options.project, timing, options)

    def site(self) -> Mapping[str, str]:
        return self._needed().site()

    def check(self, requests: Sequence[MachineRequest]) -> None:
        check_machines(requests)
        self._needed().check(requests)

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`: every machine allows root's login when this returns."""
        access, experiment, start = self._needed(), experiment_name(lease.lease_id), time.monotonic()
        check_machines(requests)
        registry.require_new(lease, registry.lease_machines(lease))
        try:
            add_site(access.site())
            registry.hold(lease, [request.name for request in requests])
            access.start(experiment, requests, lease.expires_s)
            machines = self._machines(access, lease, requests, start)
            if registry.read(lease.lease_id) is None:
                raise InfrastructureError(
                    f"lease {lease.lease_id} was reaped while its machines started (expired?); start again"
                )
        except BaseException as error:
            try:
                self.release(lease)
            except BarographError as failure:
                error.add_note(f"its experiment {experiment} could not be ended: {failure}")
                log.warning("lease %s: not released (%s); `barograph reap` will", lease.lease_id, failure)
            raise
        log.info("lease %s: %d machines in experiment %s", lease.lease_id, len(machines), experiment)
        return machines

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`. The experiment is found by the lease's id alone, at the site in its record."""
        self._of(lease).end(experiment_name(lease.lease_id))
        (registry.key_dir(lease.lease_id) / KNOWN_HOSTS).unlink(missing_ok=True)
        registry.hold_nothing(lease)

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:  # noqa: ARG002  # they end as one
        self._of(lease).prolong(experiment_name(lease.lease_id), lease.expires_s)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: experiments of this harness without a lease, at every recorded site."""
        return leftover_names(lease_id for site in recorded_sites() for lease_id in _ownerless_at(self._at(site)))

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`. A site without leftovers and leases is not asked again."""
        swept_ids: list[str] = []
        errors: list[BarographError] = []
        # A site where nothing was ever started is not asked: the reaper needs no account on Emulab.
        for site in recorded_sites():
            try:
                access = self._at(site)
                for lease_id in (lease_ids := _ownerless_at(access)):
                    access.end(experiment_name(lease_id))
                    log.info("swept experiment %s", experiment_name(lease_id))
                drop_site(access.site())
                swept_ids += lease_ids
            except BarographError as error:  # the other sites are searched all the same
                errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(str(other))
            raise errors[0]
        return leftover_names(swept_ids)

    def _machines(
        self, access: Access, lease: Lease, requests: Sequence[MachineRequest], begun: float
    ) -> tuple[Machine, ...]:
        """Return the requests' machines, once login works on each."""
        assert self._options is not None
        nodes = access.nodes(experiment_name(lease.lease_id), requests)
        types = [request.type for request in requests]
        return login_on_nodes(lease, nodes, types, self._options, self._timing, begun)

    def _of(self, lease: Lease) -> Access:
        # Experiments started with other options than today's are ended where they were started.
        return self._at(lease.site) if lease.site else self._needed()

    def _at(self, site: Mapping[str, str]) -> Access:
        """Return the access to a recorded site, for looking and ending only, or the options' if it is the same."""
        if self._access is not None and self._access.site() == site:
            return self._access
        if site["access"] == "portal":
            return Portal(site["endpoint"], site["project"], self._timing)
        account = OpsAccount(
            site["ops_host"], int(site["ops_port"]), site["user"], Path(site["ssh_key"]), Path(site["ops_known_hosts"])
        )
        return Classic(account, site["project"], self._timing)

    def _needed(self) -> Access:
        if self._access is None or self._options is None:
            raise ConfigurationError("testbed.options.emulab is missing; it says how to reach it (docs/testbeds.md)")
        require_files(self._options)
        return self._access


def _ownerless_at(access: Access) -> list[str]:
    return registry.ownerless(lease_id for name in access.experiments() if (lease_id := lease_of_experiment(name)))


class ClassicEmulabTestbed(EmulabTestbed):
    """Emulab by its ops host, with `grow` and `give_back`: unlike the portal it keeps the other nodes."""

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        start, access = time.monotonic(), self._classic()
        names, experiment = registry.lease_machines(lease), experiment_name(lease.lease_id)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        check_machines([*(MachineRequest(name, requests[0].type) for name in names), *requests])
        seats = classic.read_record(experiment).seats
        registry.hold(lease, [*names, *(request.name for request in requests)])
        try:
            access.modify(experiment, access.more_seats(experiment, requests))
            return self._machines(access, lease, requests, start)
        except BaseException as error:
            try:
                if not isinstance(error, CapacityError):  # then Emulab left the experiment as it was
                    access.modify(experiment, seats)
            except BarographError as failure:  # in transition, perhaps; the error itself matters more
                log.warning("lease %s: what was to be added may still be there: %s", lease.lease_id, failure)
            finally:
                registry.hold(lease, names)
            raise

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        names = {machine.name for machine in machines}
        if not names & set(registry.lease_machines(lease)):
            return
        experiment = experiment_name(lease.lease_id)
        seats = [one for one in classic.read_record(experiment).seats if one.name not in names]
        self._classic().modify(experiment, seats)
        registry.let_go(lease, names)
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(sorted(names)))

    def longest_hours(self) -> float:
        assert isinstance(self._options, ClassicOptions)
        return self._options.longest_hours

    def _classic(self) -> Classic:
        access = self._needed()
        assert isinstance(access, Classic)
        return access


def emulab_testbed(
    options: Mapping[str, object] | None = None,
    timing: EmulabTiming = EmulabTiming(),  # noqa: B008  # frozen
) -> EmulabTestbed:
    """Return the testbed with the abilities of the chosen access; without options, one for release and the reaper."""
    emulab_options = read_emulab_options(options) if options else None
    kind = ClassicEmulabTestbed if isinstance(emulab_options, ClassicOptions) else EmulabTestbed
    return kind(emulab_options, timing)
