"""The `ec2` testbed: instances of AWS, each with an end of its own (docs/decisions/0006)."""

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from inventory import machines
from inventory.ec2 import instance_types, prices, regions, removal, survey
from inventory.ec2.errors import aws_errors
from inventory.ec2.instances import Recalls
from inventory.ec2.launch import ReadinessCheck, check_over_ssh
from inventory.ec2.options import Ec2Options, Timing
from inventory.ec2.regions import CONNECTIONS, Region
from inventory.ec2.rental import Rental, trial_parameters
from inventory.errors import ConfigurationError, InfrastructureError, InventoryError
from inventory.leases import guard, registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote import host_keys
from inventory.remote.ssh import Remote, connect
from inventory.testbed import Estimate, Place, read_options

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


log = logging.getLogger(__name__)


class Ec2Testbed:
    """Rented machines. `answers` and `pace` are for tests."""

    name = regions.TESTBED
    shared = True
    whole_machines = True
    place: Place = "elsewhere"

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        answers: ReadinessCheck = check_over_ssh,
        pace: Timing | None = None,
    ) -> None:
        self._given = read_options(Ec2Options, self.name, options) if options else None
        self._answers = answers
        self._pace = pace or Timing()
        self._clients: dict[Region, EC2Client] = {}
        self._lock = threading.Lock()
        self._roaming: tuple[Region, ...] = ()
        self._recalls = Recalls(self._pace.recalled_s)

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`: region, endpoint, and the account that the machines are rented with."""
        place = regions.region_of_options(self._options)
        return {**place.site(), "account": regions.account(place)}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: prices, credentials, region, types, zones, image, permissions, quota."""
        options = self._options
        machines.check_names(self.name, requests)
        self.estimate(requests, hours=1.0)
        place = regions.region_of_options(options)
        regions.account(place)
        ec2 = self._client(place)
        survey.check_region(ec2, place)
        plan = survey.make_plan(ec2, options, requests)
        survey.warn_of_burstable_types(plan.types)
        survey.check_permissions(ec2, options, plan, trial_parameters(options, plan, requests[0]))
        survey.check_quota(place, options, [plan.types[request.type.name] for request in requests])

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`: every machine answers ssh and has its guard when this returns."""
        place = regions.region_of_options(self._options)
        rental = self._rental(self._client(place), lease, requests)
        if registry.read(lease.lease_id) is None:
            raise InfrastructureError(f"lease {lease.lease_id} is not on record (released or reaped); take a new one")
        keys = registry.key_dir(lease.lease_id)
        if keys.exists():
            raise ConfigurationError(
                f"lease {lease.lease_id} holds machines already; release it before it acquires others"
            )
        try:
            regions.record_region(place)
            host_keys.make_key_folder(keys, lease.lease_id)
            registry.hold(lease, [request.name for request in requests])
            return rental.first(requests)
        except BaseException:
            self._after_failure(lease, lambda: self._remove(place, lease, rental.started))
            raise

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`. The lease's keys go too; the record of the lease is `leases.drop`'s."""
        for place in regions.regions_of_lease(lease):
            self._check_account(place, lease)
            self._remove(place, lease)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Growing.grow`: in the zone that the lease's machines are in."""
        ec2, before = self._client_of(lease), registry.lease_machines(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        rental = self._rental(ec2, lease, requests)
        names = [request.name for request in requests]
        try:
            registry.hold(lease, [*before, *names])
            return rental.more(requests)
        except BaseException:
            self._after_failure(lease, lambda: self._take_back(ec2, lease, names, rental.started))
            raise

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `GivingBack.give_back`: they are on their way down when this returns, and not paid for any more."""
        names = [machine.name for machine in machines]
        for place in regions.regions_of_lease(lease):
            self._take_back(self._client(place), lease, names)
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(names))

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `Prolonging.prolong`: first the tags, so that nobody sweeps what is about to be told."""
        removal.retag(self._client_of(lease), lease)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            told = [pool.submit(self._tell_guard, machine, lease.expires_s) for machine in machines]
        for each in told:
            each.result()

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """See `Recalling.recalled`: spot requests and instance states, from an answer of the last 15 s."""
        return self._recalls.of(lease.lease_id, registry.lease_machines(lease), lambda: self._client_of(lease))

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: of this harness without a lease on record, of others past the end in their tags."""
        return tuple(f"machines of {lease_id}" for _, lease_id in self._ownerless())

    def sweep(self) -> tuple[str, ...]:
        """See `Sweeping.sweep`."""
        swept = self._ownerless()
        for place, lease_id in swept:
            removal.remove_lease(self._client(place), lease_id, (), self._pace)
            shutil.rmtree(registry.key_dir(lease_id), ignore_errors=True)
        return tuple(f"machines of {lease_id}" for _, lease_id in swept)

    def roam(self) -> tuple[str, ...]:
        """See `Roaming.roam`: every region that is enabled for the account; one that cannot be searched is an error."""
        home, *_ = (*regions.recorded_regions(), *regions.possible_regions(self._given), Region("us-east-1"))
        with aws_errors("listing the account's regions"):
            found = self._client(home).describe_regions()["Regions"]
        self._roaming = tuple(Region(region["RegionName"], home.endpoint) for region in found)
        return tuple(place.region for place in self._roaming)

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> Estimate:
        """See `Pricing.estimate`."""
        options = self._options
        types = instance_types.names(options, requests)
        wanted = [types[request.type.name] for request in requests]
        return prices.estimate_cost(
            prices.load_prices(), regions.region_of_options(options).region, options, wanted, hours
        )

    def budget_usd(self) -> float:
        """See `Pricing.budget_usd`."""
        return self._options.budget_usd

    def connect(self, machine: Machine) -> Remote:
        """See `Connecting.connect`."""
        return connect(machine)

    @property
    def _options(self) -> Ec2Options:
        """The experiment's options; without any, what is missing is said by name."""
        return self._given or read_options(Ec2Options, self.name, {})

    def _rental(self, ec2: "EC2Client", lease: Lease, requests: Sequence[MachineRequest]) -> Rental:
        """Everything that can be refused is refused here; nothing is made yet."""
        machines.check_names(self.name, requests)
        self.estimate(requests, hours=1.0)
        plan = survey.make_plan(ec2, self._options, requests)
        return Rental(ec2, lease, self._options, plan, self._answers, self._pace)

    def _client(self, place: Region) -> "EC2Client":
        with self._lock:
            if place not in self._clients:
                self._clients[place] = regions.client(place)
            return self._clients[place]

    def _client_of(self, lease: Lease) -> "EC2Client":
        return self._client(regions.region_of_site(lease.site) or regions.region_of_options(self._options))

    def _check_account(self, place: Region, lease: Lease) -> None:
        """With another account's credentials nothing would be found, and the lease forgotten while its machines run."""
        made_by = lease.site.get("account")
        if made_by and (now := regions.account(place)) != made_by:
            raise ConfigurationError(
                f"ec2: lease {lease.lease_id} is of account {made_by}, these credentials are of {now}; use the first's"
            )

    def _remove(self, place: Region, lease: Lease, started: Collection[str] = ()) -> None:
        removal.remove_lease(self._client(place), lease.lease_id, started, self._pace)
        shutil.rmtree(registry.key_dir(lease.lease_id), ignore_errors=True)
        registry.hold_nothing(lease)

    def _take_back(self, ec2: "EC2Client", lease: Lease, names: Collection[str], started: Collection[str] = ()) -> None:
        removal.end_instances(ec2, lease.lease_id, started, self._pace, names)
        if registry.key_dir(lease.lease_id).exists():
            host_keys.remove_known_hosts(registry.key_dir(lease.lease_id), names)
        if registry.read(lease.lease_id) is not None:
            registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in names])

    def _after_failure(self, lease: Lease, clean_up: Callable[[], None]) -> None:
        """The failure itself matters more than one of the cleaning."""
        try:
            clean_up()
        except InventoryError as error:
            log.warning("lease %s: cleaning up failed, its release tries again: %s", lease.lease_id, error)

    def _tell_guard(self, machine: Machine, expires_s: float) -> None:
        with self.connect(machine) as remote:
            guard.prolong(remote, expires_s)

    def _ownerless(self) -> list[tuple[Region, str]]:
        used = dict.fromkeys((*regions.recorded_regions(), *self._roaming))
        found = [(place, lease_id) for place in used for lease_id in removal.ownerless_leases(self._client(place))]
        for place in regions.possible_regions(self._given):
            # Nobody has to have credentials for where nothing of this state folder was ever made.
            if place not in used:
                found += [(place, lease_id) for lease_id in self._ownerless_if_allowed(place)]
        return found

    def _ownerless_if_allowed(self, place: Region) -> tuple[str, ...]:
        try:
            return removal.ownerless_leases(self._client(place))
        except InventoryError as error:
            log.info("ec2: %s was not searched for leftovers: %s", place.region, error)
            return ()
