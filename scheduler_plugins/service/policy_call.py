"""A policy's call in a scheduling round: its input, and its decision or the reason why there is none.

A decision that no driver may carry out (refusal.py) is a failure of the policy, and so is an unasked change. Whatever a
policy raises is a result.
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
    """A scheduling round that has begun. `decision`: set if it is known without asking the policy."""

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
    """The reason why a round does not count: the policy could not answer, through no fault of its own."""

    why: str


Outcome = Decision | PolicyFailure | Postponement


def decide(round: Round) -> Decision | PolicyFailure:
    """Ask the policy; touches nothing else, so that other calls may run beside it."""
    if round.decision is not None:
        return round.decision
    try:
        decision: Any = round.policy(round.observation, round.memory)
    except Exception as error:  # noqa: BLE001 - whatever a policy raises is a result about the policy
        return PolicyFailure(f"{type(error).__name__}: {error}")
    try:
        if not isinstance(decision, Decision):
            return PolicyFailure(f"its decision is no Decision: {decision!r:.200}")
        reason = refusal(round.observation, decision)
        why = reason.message if reason else _unasked_change(round.observation, decision)
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
    """Return the policy's change without an event or permission to act by itself; empty: none. It would affect one
    variant before the first event, and its baseline not."""
    rest_s: Any = decision.rest_s  # a policy's value may be anything
    is_number = isinstance(rest_s, int | float) and not isinstance(rest_s, bool)
    if not (is_number and 0 <= rest_s <= LONGEST_ROUND_S):
        return f"rest_s is {decision.rest_s!r}; allowed are 0 to {LONGEST_ROUND_S:g}"
    if decision.release and observation.event is None and not observation.may_act:
        return f"it releases {', '.join(decision.release)} and nobody asked for that"
    if decision.acquire and not observation.may_act:
        return f"it acquires {decision.acquire} machines and may not act by itself"
    if observation.event is not None or observation.may_act:
        return ""
    names = [topology.name for topology in observation.topologies if topology.placement and _moves(topology, decision)]
    if names:
        return f"it changes {', '.join(names)} and nobody asked for that"
    return ""


def _moves(topology: Topology, decision: Decision) -> bool:
    """Return whether the decision changes running parts of the topology, beyond giving a slot to tasks without one."""
    slots = decision.placement.get(topology.topology_id, {})
    moves = any(topology.placement.get(task, slot) != slot for task, slot in slots.items())
    return moves or bool(decision.executors.get(topology.topology_id)) or topology.topology_id in decision.rebalance
