"""The events that an experiment plans: a line in `KINDS` for each kind (docs/extending.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from barograph.plan.events import faults, rates, scaling
from barograph.plan.events.kind import PlannedEvent

KINDS: dict[str, type[PlannedEvent]] = {
    "scale_out": scaling.ScaleOut,
    "scale_in": scaling.ScaleIn,
    "reschedule": scaling.Reschedule,
    "hold": scaling.AutonomousPhase,
    "rate": rates.RateChange,
    "arrival": scaling.Arrival,
    "departure": scaling.Departure,
    "sine": rates.Sine,
    "trace": rates.Trace,
    "crash": faults.Crash,
    "worker_crash": faults.WorkerCrash,
    "cpu_load": faults.CpuLoad,
    "slow_cpu": faults.SlowCpu,
    "memory_limit": faults.MemoryLimit,
    "lan_cut": faults.LanCut,
    "partition": faults.NetworkPartition,
    "sample_loss": faults.SampleLoss,
}

if TYPE_CHECKING:
    AnyEvent = PlannedEvent
else:
    AnyEvent = Annotated[Union[tuple(KINDS.values())], Field(discriminator="kind")]  # noqa: UP007 - made of the dict
