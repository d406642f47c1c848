"""What is on EC2 that nobody owns: whose it is stands in its tags."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inventory import leases
from inventory.ec2 import instances, tags
from inventory.ec2.failures import said_by_aws
from inventory.harness import harness_id
from inventory.leases import Lease

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

# What belongs to another harness is left alone for so long after its end: its own guards and reaper come first.
MARGIN_S = 900.0


@dataclass(frozen=True)
class Remains:
    """What there is of one lease. `expires_s` is the latest end that any of it names."""

    lease_id: str
    harness: str
    expires_s: float | None

    def is_ours_to_end(self, mine: str, on_record: frozenset[str], now: float) -> bool:
        """Ours without a lease on record; anybody's after its own end (docs/decisions/0006)."""
        if self.lease_id in on_record:
            return False
        return self.harness == mine or (self.expires_s is not None and now > self.expires_s + MARGIN_S)


def ownerless(ec2: "EC2Client", now: float | None = None) -> tuple[str, ...]:
    """The leases that something is left of and that nobody holds, by id."""
    # What exists is listed before the leases are read: a lease is on record before it has anything.
    there = remains(ec2)
    on_record = frozenset(lease.lease_id for lease in leases.read_all())
    moment = time.time() if now is None else now
    return tuple(sorted(one.lease_id for one in there if one.is_ours_to_end(harness_id(), on_record, moment)))


def remains(ec2: "EC2Client") -> tuple[Remains, ...]:
    """Everything of any lease of any harness in the region."""
    by_lease: dict[str, list[dict[str, str]]] = {}
    for _, marks in _tagged(ec2):
        by_lease.setdefault(marks[tags.LEASE], []).append(marks)
    return tuple(
        Remains(
            lease_id,
            marked[0].get(tags.HARNESS, ""),
            max((end for marks in marked if (end := tags.expires_s(marks)) is not None), default=None),
        )
        for lease_id, marked in by_lease.items()
    )


def retag(ec2: "EC2Client", lease: Lease) -> None:
    """Everything of the lease says its new end."""
    ids = [id_ for id_, marks in _tagged(ec2, lease.lease_id) if marks[tags.LEASE] == lease.lease_id]
    if ids:
        with said_by_aws(f"tagging what lease {lease.lease_id} has with its new end"):
            ec2.create_tags(Resources=ids, Tags=tags.as_list({tags.EXPIRES: tags.expiry(lease)}))


def _tagged(ec2: "EC2Client", lease_id: str | None = None) -> Iterator[tuple[str, dict[str, str]]]:
    """Id and tags of everything of the lease (or of any) that exists."""
    which = tags.of(lease_id) if lease_id else tags.anybodys()
    for one in instances.live(ec2, which):
        yield one.instance_id, one.tags
    with said_by_aws("listing what carries Barograph's tags"):
        for volumes in ec2.get_paginator("describe_volumes").paginate(Filters=which):
            for volume in volumes["Volumes"]:
                yield volume["VolumeId"], tags.as_dict(volume.get("Tags"))
        for groups in ec2.get_paginator("describe_security_groups").paginate(Filters=which):
            for group in groups["SecurityGroups"]:
                yield group["GroupId"], tags.as_dict(group.get("Tags"))
        for pair in ec2.describe_key_pairs(Filters=which)["KeyPairs"]:
            yield pair["KeyPairId"], tags.as_dict(pair.get("Tags"))
