"""A lease's resources on EC2: the tags on everything that we create (owner and expiry), instances as EC2 lists them,
which of them AWS takes away (spot interruption notices, or ended without us), what no lease owns, and the removal.

The security group is created first and removed last: while an instance uses it EC2 does not delete it, so an instance
that EC2 did not list yet is found before the lease is forgotten. A resource's owner is in its tags.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from barograph.errors import BarographError, InfrastructureError
from inventory.ec2.aws import aws_errors, call_when_visible, error_code, is_missing
from inventory.ec2.options import Ec2Timing
from inventory.leases import registry
from inventory.leases.registry import Lease, harness_id

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import ResourceTypeType
    from mypy_boto3_ec2.type_defs import FilterTypeDef, SecurityGroupTypeDef, TagSpecificationTypeDef, TagTypeDef

log = logging.getLogger(__name__)

LEASE_TAG, OWNER_TAG, SERIES_TAG = "barograph:lease", "barograph:owner", "barograph:series"
HARNESS_TAG, MACHINE_TAG, EXPIRES_TAG = "barograph:harness", "barograph:machine", "barograph:expires"
BUDGET_TAG = "barograph:budget-usd"
PLACEMENT_TAG = "barograph:placement"  # on a security group: there is a placement group of the lease's name
LONGEST_TAG_VALUE = 256  # characters of a tag's value
FORBIDDEN_CHARACTERS = re.compile(r"[^\w \-+=.:/@]", re.ASCII)  # what AWS refuses in some service's tags
ANY_LEASE: "list[FilterTypeDef]" = [{"Name": "tag-key", "Values": [LEASE_TAG]}]  # of any harness


def lease_tags(lease: Lease, budget_usd: float, machine: str | None = None) -> dict[str, str]:
    """Return the tags of one resource of the lease; `machine` names the machine that it belongs to."""
    tags = {
        "Name": f"barograph {lease.lease_id}" + (f" {machine}" if machine else ""),
        LEASE_TAG: lease.lease_id,
        OWNER_TAG: FORBIDDEN_CHARACTERS.sub("_", lease.owner)[:LONGEST_TAG_VALUE],
        SERIES_TAG: FORBIDDEN_CHARACTERS.sub("_", lease.series_id)[:LONGEST_TAG_VALUE],
        HARNESS_TAG: harness_id(),
        EXPIRES_TAG: f"{lease.expires_s:.0f}",
        BUDGET_TAG: f"{budget_usd:g}",
    }
    return tags | ({MACHINE_TAG: machine} if machine else {})


def expiry_of_tags(tags: Mapping[str, str]) -> float | None:
    """Return the expiry in the tags (epoch); None if they have none."""
    value = tags.get(EXPIRES_TAG, "")
    return float(value) if value.isdigit() else None


def tag_specifications(kinds: Iterable["ResourceTypeType"], tags: Mapping[str, str]) -> "list[TagSpecificationTypeDef]":
    """Return the tags for each kind of resource that one call creates."""
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": tags[key]} for key in tags]} for kind in kinds]


def tag_dict(tags: "Sequence[TagTypeDef] | None") -> dict[str, str]:
    """Return the tags of an answer as a dict."""
    return {tag.get("Key", ""): tag.get("Value", "") for tag in tags or ()}


def lease_filter(lease_id: str) -> "list[FilterTypeDef]":
    """Return the filter for a lease's resources."""
    return [{"Name": f"tag:{LEASE_TAG}", "Values": [lease_id]}]


LIVE_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")
WORKING_STATES = ("pending", "running")
MOST_IDS = 200  # values of one filter


@dataclass(frozen=True)
class Instance:
    """One instance as EC2 listed it."""

    instance_id: str
    machine: str
    state: str
    subnet: str
    public_address: str
    private_address: str
    launched: datetime | None
    spot_request: str
    reason: tuple[str, str]  # code and message of why it is in its state
    tags: dict[str, str]

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_STATES

    @property
    def is_ending(self) -> bool:
        """Return True if it is gone or ending: it does not answer any more and costs nothing."""
        return not self.is_live or self.state == "shutting-down"


def instances_of_lease(ec2: "EC2Client", lease_id: str) -> list[Instance]:
    """Return all instances with the lease's tag, terminated ones included as long as EC2 lists them."""
    return list(_list_instances(ec2, lease_filter(lease_id)))


def live_instances(ec2: "EC2Client", which: "list[FilterTypeDef]") -> list[Instance]:
    """Return the live instances that match the filter."""
    return list(_list_instances(ec2, [*which, {"Name": "instance-state-name", "Values": list(LIVE_STATES)}]))


def instances_with_ids(ec2: "EC2Client", ids: Iterable[str]) -> dict[str, Instance]:
    """Return the instances that EC2 lists by now: it may not know one yet that it has just started."""
    sorted_ids = sorted(ids)
    # A filter and no list of ids: an id that is not listed yet would be an error for all of them.
    pages = (sorted_ids[start : start + MOST_IDS] for start in range(0, len(sorted_ids), MOST_IDS))
    instances = (one for page in pages for one in _list_instances(ec2, [{"Name": "instance-id", "Values": page}]))
    return {one.instance_id: one for one in instances}


def _list_instances(ec2: "EC2Client", filters: Any) -> Iterator[Instance]:
    with aws_errors("listing instances"):
        for page in ec2.get_paginator("describe_instances").paginate(Filters=filters):
            for each in (each for reservation in page["Reservations"] for each in reservation.get("Instances", ())):
                marks, reason = tag_dict(each.get("Tags")), each.get("StateReason", {})
                state = each.get("State", {}).get("Name", "pending")
                yield Instance(
                    each.get("InstanceId", ""), marks.get(MACHINE_TAG, ""), state, each.get("SubnetId", ""),
                    each.get("PublicIpAddress", ""), each.get("PrivateIpAddress", ""),
                    each.get("LaunchTime"), each.get("SpotInstanceRequestId", ""),
                    (reason.get("Code", ""), reason.get("Message", "")), marks,
                )  # fmt: skip


def console_end(ec2: "EC2Client", instance_id: str) -> str:
    """Return the end of the instance's console, or why there is none."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        output = ec2.get_console_output(InstanceId=instance_id).get("Output", "")
    except (ClientError, BotoCoreError) as error:
        return f"none ({error})"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-300:] or "none yet"


# Status codes of a spot request whose instance is about to end or has ended by AWS' will, not by ours.
NOTICE_CODES = ("marked-for-", "instance-terminated-by-price", "instance-terminated-no-capacity",
             "instance-terminated-capacity-oversubscribed", "instance-terminated-launch-group-constraint",
             "instance-stopped-", "instance-hibernated")  # fmt: skip


class Recalls:
    """Ask EC2 at most every `every_s` seconds for each lease, and keep its answer in between."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._answers: dict[str, tuple[float, tuple[str, ...]]] = {}

    def of(self, lease_id: str, held: Collection[str], ask: "Callable[[], EC2Client]") -> tuple[str, ...]:
        """Return the machines among `held` that were announced to end, or ended; the last answer's if EC2 is silent."""
        asked_at, last = self._answers.get(lease_id, (float("-inf"), ()))
        if time.monotonic() - asked_at >= self._every_s:
            try:
                last = _recalled_machines(ask(), lease_id, held)
            except BarographError as error:  # failing to ask AWS is no reason to end a run
                log.warning("lease %s: %s", lease_id, error)
            self._answers[lease_id] = (time.monotonic(), last)
        return tuple(name for name in last if name in held)


def _recalled_machines(ec2: "EC2Client", lease_id: str, held: Collection[str]) -> tuple[str, ...]:
    # A released name may be in use again: its last instance counts, which is the last in this order.
    ordered = sorted(instances_of_lease(ec2, lease_id), key=lambda one: (not one.is_ending, str(one.launched)))
    by_machine = {one.machine: one for one in ordered}
    instances = [by_machine[name] for name in held if name in by_machine]
    notices: set[str] = set()
    if ids := [one.spot_request for one in instances if one.spot_request]:
        with aws_errors("asking for spot interruption notices"):
            answer = ec2.describe_spot_instance_requests(Filters=[{"Name": "spot-instance-request-id", "Values": ids}])
        for request in answer["SpotInstanceRequests"]:
            if request.get("Status", {}).get("Code", "").startswith(NOTICE_CODES):
                notices.add(request["SpotInstanceRequestId"])
    return tuple(one.machine for one in instances if one.state not in WORKING_STATES or one.spot_request in notices)


# Resources of another harness are left alone for this long after their end: its own guards and reaper come first.
MARGIN_S = 900.0
IN_USE = ("DependencyViolation", "InvalidGroup.InUse", "InvalidPlacementGroup.InUse", "VolumeInUse")


@dataclass(frozen=True)
class LeaseRemains:
    """Remaining resources of one lease. `expires_s` is the latest end that any of them names."""

    lease_id: str
    harness: str
    expires_s: float | None

    def is_ours_to_end(self, mine: str, on_record: Collection[str], now: float) -> bool:
        """Return True if it is ours without a lease on record, or anybody's past its end
        (docs/decisions/leases_and_money.md).
        """
        if self.lease_id in on_record:
            return False
        return self.harness == mine or (self.expires_s is not None and now > self.expires_s + MARGIN_S)


def ownerless_leases(ec2: "EC2Client") -> list[str]:
    """Return the ids of leases that have resources and that nobody holds."""
    # Resources are listed before the leases are read: a lease is on record before it has any.
    by_lease: dict[str, list[dict[str, str]]] = {}
    for _, marks in _tagged_resources(ec2, ANY_LEASE):
        by_lease.setdefault(marks[LEASE_TAG], []).append(marks)
    on_record = registry.ids_on_record()
    remains = []
    for lease_id, marked in by_lease.items():
        ends = [end for marks in marked if (end := expiry_of_tags(marks)) is not None]
        remains.append(LeaseRemains(lease_id, marked[0].get(HARNESS_TAG, ""), max(ends, default=None)))
    return sorted(one.lease_id for one in remains if one.is_ours_to_end(harness_id(), on_record, time.time()))


def retag(ec2: "EC2Client", lease: Lease, timing: Ec2Timing) -> None:
    """Write the lease's new end into the tags of all its resources, listed anew where one is gone meanwhile."""

    def tag() -> None:
        if ids := [id_ for id_, _ in _tagged_resources(ec2, lease_filter(lease.lease_id))]:
            ec2.create_tags(Resources=ids, Tags=[{"Key": EXPIRES_TAG, "Value": f"{lease.expires_s:.0f}"}])

    call_when_visible(f"tagging what lease {lease.lease_id} has with its new end", tag, timing)


def _tagged_resources(ec2: "EC2Client", which: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield id and tags of every existing resource of these leases."""
    for one in live_instances(ec2, which):
        yield one.instance_id, one.tags
    with aws_errors("listing what carries Barograph's tags"):
        for volumes in ec2.get_paginator("describe_volumes").paginate(Filters=which):
            for volume in volumes["Volumes"]:
                yield volume["VolumeId"], tag_dict(volume.get("Tags"))
        for groups in ec2.get_paginator("describe_security_groups").paginate(Filters=which):
            for group in groups["SecurityGroups"]:
                yield group["GroupId"], tag_dict(group.get("Tags"))
        for pair in ec2.describe_key_pairs(Filters=which)["KeyPairs"]:
            yield pair["KeyPairId"], tag_dict(pair.get("Tags"))


def resource_name(lease_id: str) -> str:
    """Return the name of a lease's key pair, security group and placement group."""
    return f"barograph-{lease_id}"


def remove_lease(ec2: "EC2Client", lease_id: str, known: Collection[str], timing: Ec2Timing) -> None:
    """End everything with the lease's tag. `known`: instances that were started and may not be listed yet."""
    deadline, name = time.monotonic() + timing.gone_s, resource_name(lease_id)
    of_lease: Any = lease_filter(lease_id)
    while True:
        end_instances(ec2, lease_id, known, timing, until_gone=True)
        with aws_errors(f"cancelling spot requests of lease {lease_id}"):
            # An open request could still start an instance; an active one closes when its instance ends.
            filters = [*of_lease, {"Name": "state", "Values": ["open", "active"]}]
            requests = ec2.describe_spot_instance_requests(Filters=filters)["SpotInstanceRequests"]
            if ids := [request["SpotInstanceRequestId"] for request in requests]:
                ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=ids)
        with aws_errors(f"listing disks of lease {lease_id}"):
            # Those that were created and never attached; others go with their
            filters = [*of_lease, {"Name": "status", "Values": ["available"]}]
            volumes = [one["VolumeId"] for one in ec2.describe_volumes(Filters=filters)["Volumes"]]
        for volume in volumes:
            _delete_or_in_use(f"deleting the disk {volume}", partial(ec2.delete_volume, VolumeId=volume))
        groups = security_groups(ec2, lease_id)
        if any(has_placement_group(group) for group in groups):
            delete = partial(ec2.delete_placement_group, GroupName=name)
            _delete_or_in_use(f"deleting the placement group {name}", delete)
        with aws_errors(f"deleting the key pair of lease {lease_id}"):
            ec2.delete_key_pair(KeyName=name)  # no error if there is none
        deletions = [
            _delete_or_in_use(f"deleting the security group {id_}", partial(ec2.delete_security_group, GroupId=id_))
            for id_ in [group["GroupId"] for group in groups]
        ]
        if all(deletions):
            return
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"ec2: the security group {name} is still in use after {timing.gone_s:.0f} s and no "
                "instance of the lease is listed; `barograph reap` tries again"
            )
        time.sleep(timing.poll_s)


def end_instances(
    ec2: "EC2Client", lease_id: str, known: Collection[str], timing: Ec2Timing,
    machines: Collection[str] | None = None, until_gone: bool = False,
) -> None:  # fmt: skip
    """End the lease's instances, only those of `machines` if given, and wait until each is ending, or gone (only then
    has it left its groups)."""
    start = time.monotonic()
    while True:
        by_id = {
            one.instance_id: one
            for one in instances_of_lease(ec2, lease_id)
            if machines is None or one.machine in machines
        } | (instances_with_ids(ec2, known) if known else {})
        rest = [one for one in by_id.values() if (one.is_live if until_gone else not one.is_ending)]
        waited_s = time.monotonic() - start
        unlisted_ids = set(known) - by_id.keys() if waited_s < timing.lag_s else set()
        if not rest and not unlisted_ids:
            return
        if waited_s > timing.gone_s:
            raise InfrastructureError(
                f"ec2: {', '.join(one.instance_id for one in rest)} of lease {lease_id} still there after "
                f"{timing.gone_s:.0f} s; `barograph reap` tries again"
            )
        _terminate(ec2, {one.instance_id for one in rest if not one.is_ending} | unlisted_ids)
        time.sleep(timing.poll_s)


def _terminate(ec2: "EC2Client", ids: Collection[str]) -> None:
    from botocore.exceptions import ClientError

    if not ids:
        return
    with aws_errors(f"ending {', '.join(sorted(ids))}"):
        try:
            ec2.terminate_instances(InstanceIds=sorted(ids))
        except ClientError as error:
            if not is_missing(error):
                raise
            # An id that EC2 does not know (yet) would fail the call for all.
            for each in ids if len(ids) > 1 else ():
                _terminate(ec2, [each])


def security_groups(ec2: "EC2Client", lease_id: str) -> "list[SecurityGroupTypeDef]":
    """Return the lease's security group, if it exists."""
    with aws_errors(f"listing security groups of lease {lease_id}"):
        return ec2.describe_security_groups(Filters=lease_filter(lease_id))["SecurityGroups"]


def has_placement_group(group: "SecurityGroupTypeDef") -> bool:
    """Return True if the lease of this security group also has, or was about to have, a placement group."""
    return PLACEMENT_TAG in tag_dict(group.get("Tags"))


def _delete_or_in_use(doing: str, delete: Callable[[], object]) -> bool:
    """Run `delete` and return True; return False while the resource is in use."""
    from botocore.exceptions import ClientError

    with aws_errors(doing):
        try:
            delete()
        except ClientError as error:
            if error_code(error) in IN_USE:
                log.info("ec2: %s: it is still in use (%s)", doing, error_code(error))
                return False
            if not is_missing(error):
                raise
    return True
