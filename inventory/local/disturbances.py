"""Disturbances of emulated machines, by Podman, the bridges and the kernel of the box.

Each can be ended without knowing whether it began, so that a harness can continue after one that died in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import processes
from inventory.local import lan
from inventory.local.podman import Podman
from inventory.machines import Machine
from inventory.remote.ssh import connect

LOAD = Path(__file__).with_name("cpu_load.py")
LOAD_ON_MACHINE = "/run/barograph-cpu-load.py"


@dataclass(frozen=True)
class DisturbedMachine:
    """A machine, its place on the LANs and the storage that its container is in."""

    machine: Machine
    lease_id: str
    seat: lan.LanEndpoint
    podman: Podman

    def begin(self, disturbance: Disturbance, others: Sequence[Machine]) -> None:
        amount, type = disturbance.amount or 0.0, self.machine.type
        match disturbance.kind:
            case "cpu_load":
                self._begin_load(amount)
            case "slow_cpu":
                self.podman.limit_cores(self.seat.netns, amount * type.cores)
            case "memory_limit":
                self.podman.limit_memory(self.seat.netns, round(amount))
            case "lan_cut":
                lan.cut_experiment_link(self.lease_id, self.seat)
            case "partition":
                for other in others:
                    lan.hide(self.lease_id, self.seat, lan.EXPERIMENT_INTERFACE, other.experiment_address)
            case "sample_loss":
                for other in others:
                    lan.hide(self.lease_id, self.seat, lan.CONTROL_INTERFACE, other.control_address)

    def end(self, disturbance: Disturbance, others: Sequence[Machine]) -> None:
        type = self.machine.type
        match disturbance.kind:
            case "cpu_load":
                self._end_load()
            case "slow_cpu":
                self.podman.limit_cores(self.seat.netns, type.cores)
            case "memory_limit":
                self.podman.limit_memory(self.seat.netns, type.memory_mb)
            case "lan_cut":
                lan.restore_experiment_link(self.lease_id, self.seat)
            case "partition":
                for other in others:
                    lan.show(self.lease_id, self.seat, lan.EXPERIMENT_INTERFACE, other.experiment_address)
            case "sample_loss":
                for other in others:
                    lan.show(self.lease_id, self.seat, lan.CONTROL_INTERFACE, other.control_address)

    def _begin_load(self, cores: float) -> None:
        """Start the load, instead of an earlier one."""
        self._end_load()
        with connect(self.machine) as remote:
            remote.put(LOAD, LOAD_ON_MACHINE)
            result = remote.run(["python3", LOAD_ON_MACHINE, f"{cores:g}"])
            if result.code != 0:
                reason = result.stderr.strip() or result.stdout.strip()
                raise InfrastructureError(f"local: no load could be put on {self.machine.name}: {reason}")

    def _end_load(self) -> None:
        """End the load from the box: a machine with such a load may refuse logins."""
        if survivors := processes.kill(lambda: set(filter(_is_load, self.podman.pids(self.seat.netns)))):
            raise InfrastructureError(f"local: the load on {self.machine.name} does not end: processes {survivors}")


def _is_load(pid: int) -> bool:
    try:
        return LOAD_ON_MACHINE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return False
