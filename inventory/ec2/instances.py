"""A lease's instances as EC2 lists them: the tags on everything that we create (owner and expiry), the states of
instances, and which of them AWS takes away (spot interruption notices, or ended without us).
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from barograph.errors import BarographError
from inventory.ec2.aws import aws_errors
from inventory.leases.registry import Lease, harness_id

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import ResourceTypeType
    from mypy_boto3_ec2.type_defs import FilterTypeDef, TagSpecificationTypeDef, TagTypeDef

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
