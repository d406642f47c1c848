"""Storm's own schedulers: the bridge lets the named one do all placing.

`rebalance: false` is Storm left alone: everything that runs stays where it is. `rebalance: true` asks Nimbus for a
rebalance at a scale-out or a reschedule, as a person would on the command line. A scheduler in the bridge (Storm's own,
or the `foreign` policy's) cannot choose machines to leave, so these policies answer no scale-in.

The data of the resource-aware scheduler is declared at deployment, in storm.yaml: each machine's resources, and for
every executor the same share of them, so that nothing is refused for room. An experiment that compares with it should
lay its components' measured needs over that (`topology.component.cpu.pcore.percent` and the like in `conf`).
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
    """Let a scheduler place. `rebalance`: at an event everything is placed anew; else running tasks stay. `called`: its
    name in words."""
    reasons = "; ".join(topology.unplaced_why for topology in observation.topologies if topology.unplaced_why)
    places = Decision(memory=memory, scheduler=scheduler, scheduler_conf=conf, reason=reasons)
    if observation.event is None or observation.event.kind == "scale_in":
        return places
    if not rebalance:
        return replace(places, settled=True, reason="Storm left alone: nothing moves without a rebalance")
    topologies = tuple(topology.topology_id for topology in observation.topologies if topology.placement)
    return replace(places, settled=True, rebalance=topologies, reason=f"rebalance: {called} places everything anew")


ISOLATION_MACHINES = "isolation.scheduler.machines"


@dataclass(frozen=True)
class StormParameters:
    scheduler: str = "default"
    rebalance: bool = False
    conf: Mapping[str, Any] = field(default_factory=dict)  # laid over Nimbus' conf and the topologies'

    def __post_init__(self) -> None:
        if self.scheduler not in STORM_SCHEDULERS:
            raise ValueError(f"scheduler is {self.scheduler!r}; allowed are {', '.join(STORM_SCHEDULERS)}")
        check_parameters(self)
        machines = self.conf.get(ISOLATION_MACHINES)
        numbers = machines.values() if isinstance(machines, Mapping) else ()
        if self.scheduler == "isolation" and not (numbers and all(type(n) is int and n >= 1 for n in numbers)):
            raise ValueError(
                f"conf has {ISOLATION_MACHINES} {machines!r}; isolation needs a number of machines, 1 or more, by"
                " topology name, such as {star: 4}"
            )


def decide(observation: Observation, memory: Memory, parameters: StormParameters = StormParameters()) -> Decision:
    name = parameters.scheduler
    words = f"Storm's {name} scheduler"
    return delegate(observation, memory, name, parameters.conf, rebalance=parameters.rebalance, called=words)
