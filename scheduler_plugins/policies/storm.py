"""Storm's own schedulers: the bridge lets the one that is named do all placing.

`rebalance: false` is Storm left alone: what runs stays where it is. `rebalance: true` asks Nimbus for a rebalance
at a scale-out or a reschedule, as a person would on the command line. A scheduler in the bridge (Storm's own, or the
`foreign` policy's) cannot say which machines are to leave, so these policies answer no scale-in.

What the resource-aware scheduler reads is declared at deployment, in storm.yaml: what each machine has, and for every
executor the same share of it, so that nothing is refused for room. An experiment that compares with it should lay
what its components were measured to need over that (`topology.component.cpu.pcore.percent` and the like in `conf`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_plugins.model import STORM_SCHEDULERS, Decision, Memory, Observation
from scheduler_plugins.policies.parameters import check_parameters


def delegate(
    observation: Observation, memory: Memory, scheduler: str, conf: Mapping[str, Any], *, rebalance: bool, called: str
) -> Decision:
    """`rebalance`: at an event everything is placed anew; else what runs stays. `called`: in words."""
    places = Decision(memory=memory, scheduler=scheduler, scheduler_conf=conf, reason=_unplaced_reasons(observation))
    if observation.event is None or observation.event.kind == "scale_in":
        return places
    if not rebalance:
        return replace(places, settled=True, reason="Storm left alone: nothing moves without a rebalance")
    topologies = tuple(topology.topology_id for topology in observation.topologies if topology.placement)
    return replace(places, settled=True, rebalance=topologies, reason=f"rebalance: {called} places everything anew")


def _unplaced_reasons(observation: Observation) -> str:
    return "; ".join(topology.unplaced_why for topology in observation.topologies if topology.unplaced_why)


ISOLATION_MACHINES = "isolation.scheduler.machines"


@dataclass(frozen=True)
class Parameters:
    scheduler: str = "default"
    rebalance: bool = False
    conf: Mapping[str, Any] = field(default_factory=dict)  # laid over Nimbus' conf and the topologies'

    def __post_init__(self) -> None:
        if self.scheduler not in STORM_SCHEDULERS:
            raise ValueError(f"scheduler is {self.scheduler!r}; allowed are {', '.join(STORM_SCHEDULERS)}")
        check_parameters(self)
        if self.scheduler == "isolation" and not _machines_by_topology(self.conf.get(ISOLATION_MACHINES)):
            raise ValueError(
                f"conf has {ISOLATION_MACHINES} {self.conf.get(ISOLATION_MACHINES)!r}; isolation"
                f" needs a number of machines, 1 or more, "
                "by topology name, such as {star: 4}"
            )


def _machines_by_topology(value: object) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in value.values())


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    name = parameters.scheduler
    called = f"Storm's {name} scheduler"
    return delegate(observation, memory, name, parameters.conf, rebalance=parameters.rebalance, called=called)
