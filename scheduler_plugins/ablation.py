"""What each variant of Stela would have decided at the scale events of a run, on what was observed then.

Where all rows of an event agree, the difference between paper and code does not matter there. A row compares answers:
what the variant's answer would have led to is for an experiment to measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scheduler_plugins.model import Decision, Observation, Policy, Topology, executor_ranges
from scheduler_plugins.policies import bind
from scheduler_plugins.policies.variants_of_stela import VARIANTS
from scheduler_plugins.refusal import refusal
from scheduler_plugins.replay import logged_rounds
from scheduler_plugins.wire import observation_from

Row = dict[str, Any]


def ablate(
    path: Path, common: Mapping[str, Any] = MappingProxyType({}), variants: Mapping[str, Mapping[str, Any]] = VARIANTS
) -> list[Row]:
    """A row (JSON data) per scale event of the decision log and variant; "paper" is the one the others differ from.

    `common`: parameters of `stela` that the run had and that no variant is about, such as `congestion`.
    A row: event_id, kind, t, variant, settled, reason, refused, executors {topology: {component: [before, after]}} of
    what changes, per_machine {topology: {machine: executors after}}, moved (tasks), release, same_as_paper (null if
    `variants` has no "paper"). The observation is that of the round in which the logged policy decided (the last one
    on the event if it never did). Raises ReplayError for a log that cannot be read, PolicyError for bad parameters.
    """
    policies = {name: bind("stela", {**common, **parameters}) for name, parameters in variants.items()}
    return [row for event in _events(path) for row in _rows(*event, policies)]


def _events(path: Path) -> Iterator[tuple[float, Observation]]:
    """The round that settled each event; while a rebalance is under way nobody is asked."""
    found: dict[str, tuple[float, Observation]] = {}
    settled: set[str] = set()
    for line in logged_rounds(path):
        observation = observation_from(line["observation"])
        if observation.event is None or any(topology.rebalancing for topology in observation.topologies):
            continue
        event_id = observation.event.event_id
        if event_id not in settled:
            found[event_id] = (line["t"], observation)
        if line["decision"].get("settled"):
            settled.add(event_id)
    yield from found.values()


def _rows(t: float, observation: Observation, policies: Mapping[str, Policy]) -> list[Row]:
    decisions = {name: decide(observation, {}) for name, decide in policies.items()}
    paper = decisions.get("paper")
    return [_row(t, observation, name, decision, paper) for name, decision in decisions.items()]


def _row(t: float, observation: Observation, variant: str, decision: Decision, paper: Decision | None) -> Row:
    assert observation.event is not None
    refused = refusal(observation, decision)
    return {
        "event_id": observation.event.event_id,
        "kind": observation.event.kind,
        "t": t,
        "variant": variant,
        "settled": decision.settled,
        "reason": decision.reason,
        "refused": refused.message if refused else None,
        "executors": {topology.topology_id: _grown(topology, decision) for topology in observation.topologies},
        "per_machine": {topology.topology_id: _per_machine(topology, decision) for topology in observation.topologies},
        "moved": sum(len(tasks) for tasks in decision.placement.values()),
        "release": list(decision.release),
        "same_as_paper": None if paper is None else _answer(decision) == _answer(paper),
    }


def _answer(decision: Decision) -> tuple[Any, ...]:
    """What counts as the same: executors and slots that change, and the machines that leave, in whatever order."""
    executors = {topology: dict(mine) for topology, mine in decision.executors.items() if mine}
    placement = {topology: dict(mine) for topology, mine in decision.placement.items() if mine}
    return executors, placement, sorted(decision.release)


def _grown(topology: Topology, decision: Decision) -> dict[str, list[int]]:
    before = {component.name: len(component.executors) for component in topology.components}
    return {name: [before[name], count] for name, count in decision.executors.get(topology.topology_id, {}).items()}


def _per_machine(topology: Topology, decision: Decision) -> dict[str, int]:
    """Executors by machine once the decision is applied."""
    after = {**topology.placement, **decision.placement.get(topology.topology_id, {})}
    grown = decision.executors.get(topology.topology_id, {})
    counts: Counter[str] = Counter()
    for component in topology.components:
        ranges = executor_ranges(component.tasks, grown.get(component.name, len(component.executors)))
        counts.update(after[first].machine for first, _ in ranges if first in after)
    return dict(sorted(counts.items()))
