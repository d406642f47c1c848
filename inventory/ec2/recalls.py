"""Which machines AWS takes away: spot interruption notices, and instances that ended without us."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from inventory.ec2 import instances
from inventory.ec2.failures import said_by_aws
from inventory.ec2.instances import WORKING, Instance
from inventory.errors import InventoryError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

log = logging.getLogger(__name__)

# Status codes of a spot request whose instance is about to end or has ended by AWS' will, not by ours.
ANNOUNCED = ("marked-for-", "instance-terminated-by-price", "instance-terminated-no-capacity",
             "instance-terminated-capacity-oversubscribed", "instance-terminated-launch-group-constraint",
             "instance-stopped-", "instance-hibernated")  # fmt: skip


class Recalls:
    """Asks EC2 at most every `every_s` seconds for each lease, and remembers its answer in between."""

    def __init__(self, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._answers: dict[str, tuple[float, tuple[str, ...]]] = {}

    def of(self, lease_id: str, held: Sequence[str], ask: "Callable[[], EC2Client]") -> tuple[str, ...]:
        """The machines among `held` that were announced to end, or ended; those of the last answer if EC2 is silent."""
        asked_at, last = self._answers.get(lease_id, (float("-inf"), ()))
        if self._clock() - asked_at >= self._every_s:
            try:
                last = recalled(ask(), lease_id, held)
            except InventoryError as error:  # that AWS cannot be asked is no reason to end a run
                log.warning("lease %s: %s", lease_id, error)
            self._answers[lease_id] = (self._clock(), last)
        return tuple(name for name in last if name in held)


def recalled(ec2: "EC2Client", lease_id: str, held: Sequence[str]) -> tuple[str, ...]:
    """As `Recalling.recalled`, asked now."""
    by_machine = instances.newest_by_machine(instances.of_lease(ec2, lease_id))
    present = [by_machine[name] for name in held if name in by_machine]
    notices = _notices(ec2, [one for one in present if one.spot_request])
    return tuple(one.machine for one in present if one.state not in WORKING or one.spot_request in notices)


def _notices(ec2: "EC2Client", spot: Sequence[Instance]) -> set[str]:
    """The spot requests whose instances AWS has announced to end."""
    if not spot:
        return set()
    ids = [one.spot_request for one in spot]
    with said_by_aws("asking for spot interruption notices"):
        found = ec2.describe_spot_instance_requests(Filters=[{"Name": "spot-instance-request-id", "Values": ids}])[
            "SpotInstanceRequests"
        ]
    return {
        request["SpotInstanceRequestId"]
        for request in found
        if request.get("Status", {}).get("Code", "").startswith(ANNOUNCED)
    }
