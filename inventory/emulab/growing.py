"""Classic Emulab with the abilities that `modexp` gives: an experiment that runs gets machines, or loses some."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from inventory import leases
from inventory.emulab import names, record
from inventory.emulab.access import Patience
from inventory.emulab.classic import Classic
from inventory.emulab.options import ClassicOptions, read
from inventory.emulab.testbed import EmulabTestbed
from inventory.errors import CapacityError
from inventory.leases import Lease
from inventory.machines import Machine, MachineRequest

log = logging.getLogger(__name__)


class ClassicEmulab(EmulabTestbed):
    """Emulab keeps the nodes of the machines that stay; the portal has no such promise, so it is not offered there."""

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Growing.grow`."""
        begun, access = time.monotonic(), self._classic()
        held, experiment = leases.held(lease), names.experiment_name(lease.lease_id)
        leases.refuse_held(lease, [request.name for request in requests])
        names.check_machines([*(MachineRequest(name, requests[0].type) for name in held), *requests])
        before = record.read(experiment).seats
        leases.hold(lease, [*held, *(request.name for request in requests)])
        try:
            access.modify(experiment, access.more_seats(experiment, requests))
            return self._machines(access, lease, requests, begun)
        except CapacityError:  # Emulab left the experiment as it was
            leases.hold(lease, held)
            raise
        except BaseException:
            access.modify(experiment, before)
            leases.hold(lease, held)
            raise

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `GivingBack.give_back`."""
        gone, held = {machine.name for machine in machines}, leases.held(lease)
        if not gone & set(held):
            return
        experiment = names.experiment_name(lease.lease_id)
        self._classic().modify(experiment, [one for one in record.read(experiment).seats if one.name not in gone])
        leases.hold(lease, [name for name in held if name not in gone])
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(sorted(gone)))

    def _classic(self) -> Classic:
        access = self._needed()
        assert isinstance(access, Classic)
        return access


def emulab_testbed(
    options: Mapping[str, object] | None = None,
    patience: Patience = Patience(),  # noqa: B008  # frozen
    sleep: Callable[[float], None] = time.sleep,
) -> EmulabTestbed:
    """The testbed with the abilities of the chosen access; without options what release and the reaper need."""
    chosen = read(options) if options else None
    kind = ClassicEmulab if isinstance(chosen, ClassicOptions) else EmulabTestbed
    return kind(chosen, patience, sleep)
