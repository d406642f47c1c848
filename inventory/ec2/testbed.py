"""The `ec2` testbed: AWS instances, each with an expiry (docs/decisions/leases_and_money.md)."""

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from barograph.errors import BarographError, ConfigurationError
from inventory import machines
from inventory.ec2 import instance_types, prices, regions, removal, survey
from inventory.ec2.errors import aws_errors
from inventory.ec2.instances import Recalls
from inventory.ec2.launch import ReadinessCheck, check_over_ssh
from inventory.ec2.options import Ec2Options, Ec2Timing
from inventory.ec2.regions import CONNECTIONS, Region
from inventory.ec2.rental import Rental, trial_parameters
from inventory.leases import guard, registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote import host_keys
from inventory.remote.ssh import Remote, connect
from inventory.testbed import Place, PriceEstimate, read_options

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


log = logging.getLogger(__name__)


class Ec2Testbed:
    """Rented machines. `readiness_check` and `timing` are for tests."""

    name = regions.TESTBED
    shared = True
    whole_machines = True
    place: Place = "elsewhere"

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        readiness_check: ReadinessCheck = check_over_ssh,
        timing: Ec2Timing | None = None,
    ) -> None:
        self._options_of_experiment = read_options(Ec2Options, self.name, options) if options else None
        self._readiness_check = readiness_check
        self._timing = timing or Ec2Timing()
        self._clients: dict[Region, EC2Client] = {}
        self._lock = threading.Lock()
        self._roaming: tuple[Region, ...] = ()
        self._recalls = Recalls(self._timing.recalled_s)

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`: region, endpoint, and the account that the machines are rented with."""
        region = regions.region_of_options(self._options)
        return {**region.site(), "account": regions.account(region)}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: prices, credentials, region, types, zones, image, permissions, quota."""
        options = self._options
        machines.check_names(self.name, requests)
        self.estimate(requests, hours=1.0)
        region = regions.region_of_options(options)
        regions.account(region)
        ec2 = self._client(region)
        survey.check_region(ec2, region)
        plan = survey.make_plan(ec2, options, requests)
        survey.warn_of_burstable_types(plan.types)
        survey.check_permissions(ec2, options, plan, trial_parameters(options, plan, requests[0]))
        survey.check_quota(region, options, [plan.types[request.type.name] for request in requests])

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`: every machine answers ssh and has its guard when this returns."""
        region = regions.region_of_options(self._options)
        rental = self._rental(self._client(region), lease, requests)
        registry.require_on_record(lease)
        keys = registry.key_dir(lease.lease_id)
        registry.require_empty(lease, keys.exists())
        try:
            regions.record_region(region)
            host_keys.make_key_folder(keys, lease.lease_id)
            registry.hold(lease, [request.name for request in requests])
            return rental.start_first(requests)
        except BaseException:
            self._after_failure(lease, lambda: self._remove(region, lease, rental.started))
            raise

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`. The lease's keys go too; the record of the lease is `registry.drop`'s."""
        for region in regions.regions_of_lease(lease):
            self._check_account(region, lease)
            self._remove(region, lease)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`: in the zone of the lease's machines."""
        ec2, earlier_names = self._client_of(lease), registry.lease_machines(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        rental = self._rental(ec2, lease, requests)
        names = [request.name for request in requests]
        try:
            registry.hold(lease, [*earlier_names, *names])
            return rental.start_more(requests)
        except BaseException:
            self._after_failure(lease, lambda: self._take_back(ec2, lease, names, rental.started))
            raise

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`: when this returns they are shutting down and cost nothing more."""
        names = [machine.name for machine in machines]
        for region in regions.regions_of_lease(lease):
            self._take_back(self._client(region), lease, names)
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(names))

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsProlong.prolong`: first the tags, so that no sweep takes a lease that is being prolonged."""
        removal.retag(self._client_of(lease), lease)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            answers = [pool.submit(self._tell_guard, machine, lease.expires_s) for machine in machines]
        for each in answers:
            each.result()

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """See `SupportsRecall.recalled`: spot requests and instance states, from an answer of the last 15 s."""
        return self._recalls.of(lease.lease_id, registry.lease_machines(lease), lambda: self._client_of(lease))

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: of this harness without a lease on record, of others past the end in their tags."""
        return tuple(f"machines of {lease_id}" for _, lease_id in self._ownerless())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`."""
        leases = self._ownerless()
        for region, lease_id in leases:
            removal.remove_lease(self._client(region), lease_id, (), self._timing)
            shutil.rmtree(registry.key_dir(lease_id), ignore_errors=True)
        return tuple(f"machines of {lease_id}" for _, lease_id in leases)

    def roam(self) -> tuple[str, ...]:
        """See `SupportsRoam.roam`: every enabled region of the account; one that cannot be searched is an error."""
        home, *_ = (
            *regions.recorded_regions(),
            *regions.possible_regions(self._options_of_experiment),
            Region("us-east-1"),
        )
        with aws_errors("listing the account's regions"):
            descriptions = self._client(home).describe_regions()["Regions"]
        self._roaming = tuple(Region(region["RegionName"], home.endpoint) for region in descriptions)
        return tuple(region.name for region in self._roaming)

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> PriceEstimate:
        """See `SupportsPricing.estimate`."""
        options = self._options
        types = instance_types.names(options, requests)
        type_names = [types[request.type.name] for request in requests]
        return prices.estimate_cost(
            prices.load_prices(), regions.region_of_options(options).name, options, type_names, hours
        )

    def budget_usd(self) -> float:
        """See `SupportsPricing.budget_usd`."""
        return self._options.budget_usd

    def connect(self, machine: Machine) -> Remote:
        """See `SupportsConnect.connect`."""
        return connect(machine)

    @property
    def _options(self) -> Ec2Options:
        """Return the experiment's options; without any, the error names the missing ones."""
        return self._options_of_experiment or read_options(Ec2Options, self.name, {})

    def _rental(self, ec2: "EC2Client", lease: Lease, requests: Sequence[MachineRequest]) -> Rental:
        """Plan a rental and refuse everything that can be refused; nothing is created yet."""
        machines.check_names(self.name, requests)
        self.estimate(requests, hours=1.0)
        plan = survey.make_plan(ec2, self._options, requests)
        return Rental(ec2, lease, self._options, plan, self._readiness_check, self._timing)

    def _client(self, region: Region) -> "EC2Client":
        with self._lock:
            if region not in self._clients:
                self._clients[region] = regions.client(region)
            return self._clients[region]

    def _client_of(self, lease: Lease) -> "EC2Client":
        return self._client(regions.region_of_site(lease.site) or regions.region_of_options(self._options))

    def _check_account(self, region: Region, lease: Lease) -> None:
        """Refuse another account's credentials: the lease would look empty and be forgotten while its machines run."""
        owner = lease.site.get("account")
        if owner and (now := regions.account(region)) != owner:
            raise ConfigurationError(
                f"ec2: lease {lease.lease_id} is of account {owner}, these credentials are of {now}; use the first's"
            )

    def _remove(self, region: Region, lease: Lease, started: Collection[str] = ()) -> None:
        removal.remove_lease(self._client(region), lease.lease_id, started, self._timing)
        shutil.rmtree(registry.key_dir(lease.lease_id), ignore_errors=True)
        registry.hold_nothing(lease)

    def _take_back(self, ec2: "EC2Client", lease: Lease, names: Collection[str], started: Collection[str] = ()) -> None:
        removal.end_instances(ec2, lease.lease_id, started, self._timing, names)
        if registry.key_dir(lease.lease_id).exists():
            host_keys.remove_known_hosts(registry.key_dir(lease.lease_id), names)
        if registry.read(lease.lease_id) is not None:
            registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in names])

    def _after_failure(self, lease: Lease, clean_up: Callable[[], None]) -> None:
        """Log an error of the cleanup instead of raising it: the failure itself matters more."""
        try:
            clean_up()
        except BarographError as error:
            log.warning("lease %s: cleaning up failed, its release tries again: %s", lease.lease_id, error)

    def _tell_guard(self, machine: Machine, expires_s: float) -> None:
        with self.connect(machine) as remote:
            guard.prolong(remote, expires_s)

    def _ownerless(self) -> list[tuple[Region, str]]:
        known_regions = dict.fromkeys((*regions.recorded_regions(), *self._roaming))
        leases = [
            (region, lease_id)
            for region in known_regions
            for lease_id in removal.ownerless_leases(self._client(region))
        ]
        for region in regions.possible_regions(self._options_of_experiment):
            # Nobody needs credentials for a region where this state folder never created anything.
            if region not in known_regions:
                leases += [(region, lease_id) for lease_id in self._ownerless_if_allowed(region)]
        return leases

    def _ownerless_if_allowed(self, region: Region) -> tuple[str, ...]:
        try:
            return removal.ownerless_leases(self._client(region))
        except BarographError as error:
            log.info("ec2: %s was not searched for leftovers: %s", region.name, error)
            return ()
