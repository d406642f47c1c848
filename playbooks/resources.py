"""What Storm's resource-aware scheduler is told, so that it can place the papers' topologies on any machines.

It places by declared numbers alone, and Storm's defaults (a tenth of a core and 128 MB an executor) do not fit machines
of a fifth of a core. A machine declares what it has; an executor that its topology says nothing about declares an
equal share of a slot of the smallest machine. It fills one machine before it takes the next, so the fewer executors are
to share a slot (the setting `storm_executors_per_slot`), the further they are spread. No other scheduler reads this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from playbooks.storm_home import commands

# SP table I, scale-in of page load: 7 components of 15 executors end on 4 machines of 4 slots, which is 7 a slot.
EXECUTORS_PER_SLOT = 8


@dataclass(frozen=True)
class Declared:
    """The default demand of an executor, and the heap that executors of one worker share. 100 % is one core."""

    executor_cpu_percent: float
    executor_heap_mb: float
    worker_heap_mb: int


def declared(workers: Sequence[Mapping[str, float]], executors_per_slot: int = EXECUTORS_PER_SLOT) -> Declared:
    """`workers` are the host variables of the machines that have slots, at least one."""
    heap_mb = min(commands.worker_heap_mb(int(w["machine_memory_mb"]), int(w["machine_slots"])) for w in workers)
    cpu_percent = min(100 * w["machine_cores"] / w["machine_slots"] for w in workers)
    return Declared(_down(cpu_percent / executors_per_slot), _down(heap_mb / executors_per_slot), heap_mb)


def _down(value: float) -> float:
    """Two decimals, never more than the value: a full machine must not be over its capacity by a rounding error."""
    return math.floor(value * 100 + 1e-9) / 100
