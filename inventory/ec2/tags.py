"""What everything that is made on EC2 carries from birth: whose it is, and when it ends."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from inventory.harness import harness_id
from inventory.leases import Lease

if TYPE_CHECKING:
    from mypy_boto3_ec2.literals import ResourceTypeType
    from mypy_boto3_ec2.type_defs import FilterTypeDef, TagSpecificationTypeDef, TagTypeDef

LEASE, OWNER, SERIES, HARNESS = "barograph:lease", "barograph:owner", "barograph:series", "barograph:harness"
MACHINE, EXPIRES, BUDGET = "barograph:machine", "barograph:expires", "barograph:budget-usd"
PLACEMENT = "barograph:placement"  # on a security group: there is a placement group of the lease's name
LONGEST = 256  # characters of a tag's value
FOREIGN = re.compile(r"[^\w \-+=.:/@]", re.ASCII)  # what AWS refuses in some service's tags


def of_lease(lease: Lease, budget_usd: float, machine: str | None = None) -> dict[str, str]:
    """The tags of one thing of the lease; `machine` names the one that it belongs to."""
    tags = {
        "Name": f"barograph {lease.lease_id}" + (f" {machine}" if machine else ""),
        LEASE: lease.lease_id,
        OWNER: _allowed(lease.owner),
        SERIES: _allowed(lease.series_id),
        HARNESS: harness_id(),
        EXPIRES: expiry(lease),
        BUDGET: f"{budget_usd:g}",
    }
    return tags | ({MACHINE: machine} if machine else {})


def expiry(lease: Lease) -> str:
    return f"{lease.expires_s:.0f}"


def expires_s(tags: Mapping[str, str]) -> float | None:
    """When what carries the tags ends; None if they do not say it."""
    value = tags.get(EXPIRES, "")
    return float(value) if value.isdigit() else None


def specifications(kinds: Iterable["ResourceTypeType"], tags: Mapping[str, str]) -> "list[TagSpecificationTypeDef]":
    """The tags for each kind of thing that one call makes."""
    return [{"ResourceType": kind, "Tags": as_list(tags)} for kind in kinds]


def as_list(tags: Mapping[str, str]) -> "list[TagTypeDef]":
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def as_dict(tags: "Sequence[TagTypeDef] | None") -> dict[str, str]:
    """Tags as an answer has them."""
    return {tag.get("Key", ""): tag.get("Value", "") for tag in tags or ()}


def of(lease_id: str) -> "list[FilterTypeDef]":
    """The filter that finds what a lease has."""
    return [{"Name": f"tag:{LEASE}", "Values": [lease_id]}]


def anybodys() -> "list[FilterTypeDef]":
    """The filter that finds what any lease of any harness has."""
    return [{"Name": "tag-key", "Values": [LEASE]}]


def _allowed(text: str) -> str:
    return FOREIGN.sub("_", text)[:LONGEST]
