"""Asking a policy in a scheduling round: what it is given, and its decision or why there is none.

A decision that no driver may carry out (refusal.py) is a failure of the policy, and so is one that changes something
unasked. Whatever a policy raises is a result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation, Policy, Topology
from scheduler_plugins.service.messages import Request
from scheduler_plugins.service.refusal import refusal


@dataclass(frozen=True)
class Round:
    """A scheduling round that has begun. `decision`: without asking the policy, where that is known already."""

    started: float
    configured: int
    request: Request
    observation: Observation
    policy: Policy
    memory: Memory
    decision: Decision | None = None
    withdrawn: str | None = None  # the decision whose answer did not reach Nimbus


@dataclass(frozen=True)
class PolicyFailure:
    """A policy's failure to decide. `final`: it is not asked again in this run."""

    why: str
    final: bool = False


@dataclass(frozen=True)
class Postponement:
    """The reason why a round counts for nobody: the policy was not heard, and that is not its fault."""

    why: str


Outcome = Decision | PolicyFailure | Postponement


def decide(round: Round) -> Decision | PolicyFailure:
    """Ask the policy; touches nothing else, so that it may take place beside other calls."""
    if round.decision is not None:
        return round.decision
    try:
        decision: Any = round.policy(round.observation, round.memory)
    except Exception as error:  # noqa: BLE001 - whatever a policy raises is a result about the policy
        return PolicyFailure(f"{type(error).__name__}: {error}")
    try:
        if not isinstance(decision, Decision):
            return PolicyFailure(f"its decision is no Decision: {decision!r:.200}")
        refused = refusal(round.observation, decision)
        why = refused.message if refused else _unasked_change(round.observation, decision)
    except Exception as error:  # noqa: BLE001 - and so is whatever it puts into its decision
        return PolicyFailure(f"its decision is not as the contract has it: {type(error).__name__}: {error}")
    if why:
        return PolicyFailure(f"its decision is refused: {why}")
    try:
        json.dumps(decision.memory)
    except (TypeError, ValueError) as error:
        return PolicyFailure(f"its memory is no JSON data: {error}")
    return decision


def _unasked_change(observation: Observation, decision: Decision) -> str:
    """Return what the policy changes though nobody asked for it and it may not act by itself; empty: nothing. Else one
    variant would be changed before the first event, and its baseline not."""
    rest_s: Any = decision.rest_s  # whatever a policy put there
    is_number = isinstance(rest_s, int | float) and not isinstance(rest_s, bool)
    if not (is_number and 0 <= rest_s <= LONGEST_ROUND_S):
        return f"rest_s is {decision.rest_s!r}; allowed are 0 to {LONGEST_ROUND_S:g}"
    if decision.release and observation.event is None and not observation.may_act:
        return f"it releases {', '.join(decision.release)} and nobody asked for that"
    if decision.acquire and not observation.may_act:
        return f"it acquires {decision.acquire} machines and may not act by itself"
    if observation.event is not None or observation.may_act:
        return ""
    changed = [
        topology.name for topology in observation.topologies if topology.placement and _moves(topology, decision)
    ]
    if changed:
        return f"it changes {', '.join(changed)} and nobody asked for that"
    return ""


def _moves(topology: Topology, decision: Decision) -> bool:
    """Return whether the decision changes what runs of the topology, beyond giving a slot to what has none."""
    slots = decision.placement.get(topology.topology_id, {})
    moved = any(topology.placement.get(task, slot) != slot for task, slot in slots.items())
    return moved or bool(decision.executors.get(topology.topology_id)) or topology.topology_id in decision.rebalance
