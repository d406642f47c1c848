"""The `ec2` testbed: AWS instances, each with an expiry (docs/decisions/leases_and_money.md)."""

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from barograph.errors import BarographError, ConfigurationError
from inventory import machines
from inventory.ec2 import aws, instances, survey
from inventory.ec2.aws import CONNECTIONS, Region, aws_errors
from inventory.ec2.instances import Recalls
from inventory.ec2.launch import ReadinessCheck, Rental, check_over_ssh, launch_parameters
from inventory.ec2.options import Ec2Options, Ec2Timing, estimate_cost
from inventory.leases import guard, registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote import ssh
from inventory.remote.ssh import connect
from inventory.testbed import Place, PriceEstimate, leftover_names, read_options

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


log = logging.getLogger(__name__)
REMAINS = " (remains)"  # marks a machine whose start and removal failed both: the next start removes it, or the release


class Ec2Testbed:
    """Rented machines. `readiness_check` and `timing` are for tests."""

    name = aws.TESTBED
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
        region = aws.region_of_options(self._options)
        return {**region.site(), "account": aws.account(region)}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: prices, credentials, region, types, zones, image, permissions, quota."""
        options = self._options
        machines.check_names(self.name, requests)
        self.estimate(requests, hours=1.0)
        region = aws.region_of_options(options)
        aws.account(region)
        ec2 = self._client(region)
        survey.check_region(ec2, region)
        plan = survey.make_plan(ec2, options, requests)
        survey.warn_of_burstable_types(plan.types)
        trial = launch_parameters(options, plan, plan.zones[0], requests[0])
        survey.check_permissions(ec2, options, plan, trial)
        survey.check_quota(region, options, [plan.types[request.type.name] for request in requests])

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`: every machine answers ssh and has its guard when this returns."""
        region = aws.region_of_options(self._options)
        rental = self._rental(self._client(region), lease, requests)
        keys = registry.key_dir(lease.lease_id)
        registry.require_new(lease, keys.exists())
        try:
            aws.record_region(region)
            ssh.make_key_folder(keys, lease.lease_id)
            registry.hold(lease, [request.name for request in requests])
            return rental.start_first(requests)
        except BaseException:
            self._is_cleaned_up(lease, lambda: self._remove(region, lease, rental.started))
            raise

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`. The lease's keys go too; the record of the lease is `registry.drop`'s."""
        owner = lease.site.get("account")
        for region in aws.regions_of_lease(lease):
            # With another account's credentials the lease would look empty and be forgotten while its machines run.
            if owner and (now := aws.account(region)) != owner:
                raise ConfigurationError(
                    f"ec2: lease {lease.lease_id} is of account {owner}, these credentials are of {now}; use the"
                    " first's"
                )
            self._remove(region, lease)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`: in the zone of the lease's machines."""
        ec2 = self._client_of(lease)
        if remains := [name for name in registry.lease_machines(lease) if name.endswith(REMAINS)]:
            self._take_back(ec2, lease, [name.removesuffix(REMAINS) for name in remains])
            registry.let_go(lease, remains)
        earlier_names = registry.lease_machines(lease)
        names = [request.name for request in requests]
        registry.refuse_names_in_use(lease, names)
        rental = self._rental(ec2, lease, requests)
        try:
            registry.hold(lease, [*earlier_names, *names])
            return rental.start_more(requests)
        except BaseException:
            if not self._is_cleaned_up(lease, lambda: self._take_back(ec2, lease, names, rental.started)):
                with suppress(BarographError):  # a lease that ends needs no names
                    registry.hold(lease, [*earlier_names, *(f"{name}{REMAINS}" for name in names)])
            raise

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGrow.give_back`: when this returns they are shutting down and cost nothing more."""
        names = [machine.name for machine in machines]
        for region in aws.regions_of_lease(lease):
            self._take_back(self._client(region), lease, names)
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(names))

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsProlong.prolong`: first the tags, so that no sweep takes a lease that is being prolonged."""
        instances.retag(self._client_of(lease), lease, self._timing)
        try:
            self._admit_this_box(lease)
        except BarographError as error:
            log.warning("lease %s: whether this box has another address is not known: %s", lease.lease_id, error)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(lambda machine: self._tell_guard(machine, lease.expires_s), machines))

    def _admit_this_box(self, lease: Lease) -> None:
        """Let this box in from its present address, which its provider may have changed since the acquisition."""
        if self._options.ingress_from or self._options.addresses != "public":
            return
        ec2, network = self._client_of(lease), survey.public_network()
        for group in instances.security_groups(ec2, lease.lease_id):
            ranges = [each["CidrIp"] for port in group["IpPermissions"] for each in port.get("IpRanges", ())]
            if network not in ranges:
                log.warning("lease %s: this box is %s now", lease.lease_id, network)
                with aws_errors(f"letting {network} in"):
                    permissions = survey.ports_for(network)
                    ec2.authorize_security_group_ingress(GroupId=group["GroupId"], IpPermissions=permissions)

    def _tell_guard(self, machine: Machine, expires_s: float) -> None:
        with connect(machine) as remote:
            guard.prolong(remote, expires_s)

    def recalled(self, lease: Lease) -> tuple[str, ...]:
        """See `SupportsRecall.recalled`: spot requests and instance states, from an answer of the last 15 s."""
        return self._recalls.of(lease.lease_id, registry.lease_machines(lease), lambda: self._client_of(lease))

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: of this harness without a lease on record, of others past the end in their tags."""
        return leftover_names(lease_id for _, lease_id in self._ownerless())

    def sweep(self) -> tuple[str, ...]:
        leases = self._ownerless()
        for region, lease_id in leases:
            instances.remove_lease(self._client(region), lease_id, (), self._timing)
            shutil.rmtree(registry.key_dir(lease_id), ignore_errors=True)
        return leftover_names(lease_id for _, lease_id in leases)

    def roam(self) -> tuple[str, ...]:
        """See `SupportsRoam.roam`: every enabled region of the account; one that cannot be searched is an error."""
        possible_regions = aws.possible_regions(self._options_of_experiment)
        home = [*aws.recorded_regions(), *possible_regions, Region("us-east-1")][0]
        with aws_errors("listing the account's regions"):
            descriptions = self._client(home).describe_regions()["Regions"]
        self._roaming = tuple(Region(region["RegionName"], home.endpoint) for region in descriptions)
        return tuple(region.name for region in self._roaming)

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> PriceEstimate:
        types = survey.type_names(self._options, requests)
        names = [types[request.type.name] for request in requests]
        return estimate_cost(aws.region_of_options(self._options).name, self._options, names, hours)

    def budget_usd(self) -> float:
        return self._options.budget_usd

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
                self._clients[region] = aws.client(region)
            return self._clients[region]

    def _client_of(self, lease: Lease) -> "EC2Client":
        return self._client(aws.region_of_site(lease.site) or aws.region_of_options(self._options))

    def _remove(self, region: Region, lease: Lease, started: Collection[str] = ()) -> None:
        instances.remove_lease(self._client(region), lease.lease_id, started, self._timing)
        shutil.rmtree(registry.key_dir(lease.lease_id), ignore_errors=True)
        registry.hold_nothing(lease)

    def _take_back(self, ec2: "EC2Client", lease: Lease, names: Collection[str], started: Collection[str] = ()) -> None:
        instances.end_instances(ec2, lease.lease_id, started, self._timing, names)
        if registry.key_dir(lease.lease_id).exists():
            ssh.remove_known_hosts(registry.key_dir(lease.lease_id), names)
        if registry.read(lease.lease_id) is not None:
            registry.let_go(lease, names)

    def _is_cleaned_up(self, lease: Lease, clean_up: Callable[[], None]) -> bool:
        """Clean up after a failure, which matters more: an error in here is logged. Return whether it succeeded."""
        try:
            clean_up()
        except BarographError as error:
            log.warning("lease %s: cleaning up failed, its release tries again: %s", lease.lease_id, error)
            return False
        return True

    def _ownerless(self) -> list[tuple[Region, str]]:
        regions, leases = dict.fromkeys((*aws.recorded_regions(), *self._roaming)), []
        for region in dict.fromkeys([*regions, *aws.possible_regions(self._options_of_experiment)]):
            try:
                leases += [(region, lease_id) for lease_id in instances.ownerless_leases(self._client(region))]
            except BarographError as error:
                if region in regions:
                    raise
                # Nobody needs credentials for a region where this state folder never created anything.
                log.info("ec2: %s was not searched for leftovers: %s", region.name, error)
        return leases
