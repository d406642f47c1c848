"""What a policy answers that lets a scheduler in the bridge do all placing: Storm's own, or one that is not ours.

Such schedulers cannot say which machines are to leave, so these policies answer no scale-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler_plugins.model import Decision, Memory, Observation


def decide_for(
    observation: Observation, memory: Memory, scheduler: str, conf: Mapping[str, Any], *, rebalance: bool, called: str
) -> Decision:
    """`rebalance`: after a scale-out everything is placed anew; else what runs stays. `called`: in words."""
    places = Decision(memory=memory, scheduler=scheduler, scheduler_conf=conf, reason=_unplaced(observation))
    if observation.event is None or observation.event.kind != "scale_out":
        return places
    if not rebalance:
        return replace(places, settled=True, reason="Storm left alone: nothing moves without a rebalance")
    topologies = tuple(topology.topology_id for topology in observation.topologies)
    return replace(places, settled=True, rebalance=topologies, reason=f"rebalance: {called} places everything anew")


def _unplaced(observation: Observation) -> str:
    return "; ".join(topology.unplaced_why for topology in observation.topologies if topology.unplaced_why)
