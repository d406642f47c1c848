"""The events that an experiment plans: a file for each kind, and its line in `KINDS` (docs/extending.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from barograph.plan.events.crash import Crash
from barograph.plan.events.disturbances import (
    CpuLoad,
    LanCut,
    MemoryLimit,
    NetworkPartition,
    SampleLoss,
    SlowCpu,
    WorkerCrash,
)
from barograph.plan.events.hold import AutonomousPhase
from barograph.plan.events.kind import EventTime, EventTimes, PlannedEvent
from barograph.plan.events.order import (
    all_workers,
    joining_workers,
    limit_errors,
    machines_at_end,
    names_after,
    order_errors,
    rest_s,
    starting_workers,
    topologies_after,
    topologies_at_start,
    working_machines_after,
)
from barograph.plan.events.rate_change import RateChange, Sine, Trace
from barograph.plan.events.reschedule import Reschedule
from barograph.plan.events.scale_in import ScaleIn
from barograph.plan.events.scale_out import ScaleOut
from barograph.plan.events.topologies import Arrival, Departure

KINDS: dict[str, type[PlannedEvent]] = {
    "scale_out": ScaleOut,
    "scale_in": ScaleIn,
    "reschedule": Reschedule,
    "hold": AutonomousPhase,
    "rate": RateChange,
    "arrival": Arrival,
    "departure": Departure,
    "sine": Sine,
    "trace": Trace,
    "crash": Crash,
    "worker_crash": WorkerCrash,
    "cpu_load": CpuLoad,
    "slow_cpu": SlowCpu,
    "memory_limit": MemoryLimit,
    "lan_cut": LanCut,
    "partition": NetworkPartition,
    "sample_loss": SampleLoss,
}

if TYPE_CHECKING:
    AnyEvent = PlannedEvent
else:
    AnyEvent = Annotated[Union[tuple(KINDS.values())], Field(discriminator="kind")]  # noqa: UP007 - made of the dict

__all__ = [
    "KINDS",
    "AnyEvent",
    "Crash",
    "EventTime",
    "EventTimes",
    "PlannedEvent",
    "RateChange",
    "ScaleIn",
    "ScaleOut",
    "Sine",
    "Trace",
    "all_workers",
    "joining_workers",
    "limit_errors",
    "machines_at_end",
    "names_after",
    "order_errors",
    "rest_s",
    "starting_workers",
    "topologies_after",
    "topologies_at_start",
    "working_machines_after",
]
