"""Names of our experiments on Emulab: they carry the harness and the lease, so that either is found by name alone.

16 characters: classic Emulab allows 19 (`experiments.eid`, together with a project of 12), the portal's own pages 16.
"""

import re
from collections.abc import Iterable, Sequence

from inventory import leases, machine_names
from inventory.errors import ConfigurationError
from inventory.harness import harness_id
from inventory.machines import MachineRequest

MACHINE = re.compile(r"[a-z][a-z0-9]{0,14}")  # a Tcl variable in the NS file, a label of a host name, a column of 15


def prefix() -> str:
    """What the names of all experiments of this harness begin with."""
    return f"bg{harness_id()[:6]}"


def experiment_name(lease_id: str) -> str:
    return f"{prefix()}{lease_id}"


def lease_of(experiment: str) -> str | None:
    """The lease that an experiment's name carries; None if it is not this harness's."""
    ours = re.fullmatch(rf"{prefix()}([0-9a-f]{{8}})", experiment)
    return ours[1] if ours else None


def without_lease(experiments: Iterable[str]) -> list[str]:
    """Lease ids of this harness's experiments that are not on record. `experiments` was listed before this call."""
    recorded = {lease.lease_id for lease in leases.read_all()}
    return sorted({found for name in experiments if (found := lease_of(name))} - recorded)


def check_machines(requests: Sequence[MachineRequest]) -> None:
    if len(requests) < 2:
        raise ConfigurationError(
            f"emulab: {len(requests)} machine(s) asked for; ask for master and at least one worker (a LAN joins them)"
        )
    machine_names.check("emulab", requests, MACHINE, "lower case letters and digits, at most 15, a letter first")
