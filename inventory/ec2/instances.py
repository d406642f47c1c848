"""A lease's instances as EC2 lists them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from inventory.ec2 import tags
from inventory.ec2.failures import said_by_aws

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef, InstanceTypeDef

LIVE = ("pending", "running", "stopping", "stopped", "shutting-down")
WORKING = ("pending", "running")
MOST_IDS = 200  # values of one filter


@dataclass(frozen=True)
class Instance:
    """One instance as it was listed."""

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
        return self.state in LIVE

    @property
    def is_ending(self) -> bool:
        return self.state == "shutting-down"


def of_lease(ec2: "EC2Client", lease_id: str) -> tuple[Instance, ...]:
    """Everything that carries the lease's tag, terminated ones included as long as EC2 lists them."""
    return tuple(_listed(ec2, tags.of(lease_id)))


def live(ec2: "EC2Client", which: "list[FilterTypeDef]") -> tuple[Instance, ...]:
    """What is there yet of what the filter finds."""
    return tuple(_listed(ec2, [*which, {"Name": "instance-state-name", "Values": list(LIVE)}]))


def with_ids(ec2: "EC2Client", ids: Iterable[str]) -> dict[str, Instance]:
    """Those of the instances that EC2 lists by now: it may not yet know one that it has just started."""
    wanted = sorted(ids)
    # A filter and no list of ids: an id that is not listed yet would be an error for all of them.
    pages = (wanted[start : start + MOST_IDS] for start in range(0, len(wanted), MOST_IDS))
    found = (one for page in pages for one in _listed(ec2, [{"Name": "instance-id", "Values": page}]))
    return {one.instance_id: one for one in found}


def last_words(ec2: "EC2Client", instance_id: str) -> str:
    """The end of the instance's console, or why there is none."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        output = ec2.get_console_output(InstanceId=instance_id).get("Output", "")
    except (ClientError, BotoCoreError) as error:
        return f"none ({error})"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-300:] or "none yet"


def newest_by_machine(found: Collection[Instance]) -> dict[str, Instance]:
    """One instance per machine: a name that was given back may be in use again."""
    ordered = sorted(found, key=lambda one: (one.is_live and not one.is_ending, str(one.launched)))
    return {one.machine: one for one in ordered}  # the last one wins


def _listed(ec2: "EC2Client", filters: Any) -> Iterator[Instance]:
    with said_by_aws("listing instances"):
        for page in ec2.get_paginator("describe_instances").paginate(Filters=filters):
            for reservation in page["Reservations"]:
                yield from (_read(each) for each in reservation.get("Instances", ()))


def _read(each: "InstanceTypeDef") -> Instance:
    marks = tags.as_dict(each.get("Tags"))
    reason = each.get("StateReason", {})
    return Instance(
        each.get("InstanceId", ""), marks.get(tags.MACHINE, ""), each.get("State", {}).get("Name", "pending"),
        each.get("SubnetId", ""), each.get("PublicIpAddress", ""), each.get("PrivateIpAddress", ""),
        each.get("LaunchTime"), each.get("SpotInstanceRequestId", ""),
        (reason.get("Code", ""), reason.get("Message", "")), marks,
    )  # fmt: skip
