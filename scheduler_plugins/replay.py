"""Replay a run's decision log: ask policies again what they would have decided.

`replay` asks any policy at every round. `ablate` asks each variant of Stela at the run's scale events, on the
observations of that time: where all rows of an event agree, the difference between paper and code does not matter
there. A row compares answers: the effect of the variant's answer needs an experiment. Errors: ReplayError (blame:
configuration) for a log that cannot be read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import Decision, Memory, Observation, Topology, executor_ranges, is_all_under_way
from scheduler_plugins.policies import POLICIES, bind
from scheduler_plugins.policies.stela import VARIANTS
from scheduler_plugins.service.messages import MessageError, observation_from_log, with_memories
from scheduler_plugins.service.refusal import refusal
from scheduler_plugins.traffic import TrafficNotLogged

COMPARISON_KEYS = ("executors", "placement", "release", "acquire", "scheduler", "scheduler_conf", "rebalance", "wait_s")


class ReplayError(Exception):
    """The decision log is missing, damaged or empty."""

    blame = "configuration"


@dataclass(frozen=True)
class RoundReplay:
    """A round: the logged decision, the replayed policy's, and why a driver would refuse the latter."""

    t: float
    event_id: str | None
    then: Mapping[str, Any]
    now: Mapping[str, Any]
    refused: str | None = None

    @property
    def same(self) -> bool:
        return all(_json_data(self.then[key]) == _json_data(self.now[key]) for key in COMPARISON_KEYS)


def replay(path: Path, policy: str, parameters: Mapping[str, Any] | None = None) -> tuple[RoundReplay, ...]:
    """Replay every round of the log with `policy`, each with the observation that was logged.

    The memory is the replayed policy's own, carried from round to round. Rounds after its first differing decision
    still show the state under the logged policy: a replay compares answers, it does not simulate.
    """
    decide = bind(policy, parameters or {})
    memory: Memory = {}
    rows = []
    for line, observation in _read_rounds(path):
        event = observation.event.event_id if observation.event else None
        decision, problem = Decision(memory=memory), None
        try:
            decision = decision if is_all_under_way(observation) else decide(observation, memory)
        except TrafficNotLogged as error:
            problem = str(error)
        memory = decision.memory
        if reason_against := refusal(observation, decision):
            problem = reason_against.message
        rows.append(RoundReplay(line["t"], event, line["decision"], to_json(decision), problem))
    return tuple(rows)


def read_rounds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a decision log (docs/contracts.md, "What a run leaves"). Raises ReplayError."""
    return (line for line, _ in _read_rounds(path))


def _read_rounds(path: Path) -> Iterator[tuple[dict[str, Any], Observation]]:
    """Yield each line of a decision log, with its memories, and its observation."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror}; give a run's decisions.jsonl") from error
    number = 0
    try:
        for body in with_memories(map(json.loads, text.splitlines())):
            yield body, observation_from_log(body["observation"])
            number += 1
    except (ValueError, KeyError, TypeError, AttributeError, MessageError) as error:
        raise ReplayError(f"{path}, line {number + 1}: not a decision log line ({error})") from error


def _json_data(value: Any) -> Any:
    return json.loads(json.dumps(value))


AblationRow = dict[str, Any]


def ablate(
    rounds: Iterable[Mapping[str, Any]],
    common: Mapping[str, Any] = MappingProxyType({}),
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS,
) -> list[AblationRow]:
    """Return a row (JSON data) per variant and scale event of these lines of a decision log; the others differ from
    "paper".

    `common`: parameters of `stela` that the run had and that no variant changes, such as `congestion`. A row: event_id,
    kind, t, variant, settled, reason, refused, executors {topology: {component: [before, after]}} of the changes,
    per_machine {topology: {machine: executors after}}, moved (tasks), release, same_as_paper (null if `variants` has no
    "paper"). The observation is that of the round in which the logged policy decided (the last one on the event if it
    never did). Raises ReplayError for a round of an older version, PolicyError for bad parameters.
    """
    policies = {name: bind("stela", {**common, **parameters}) for name, parameters in variants.items()}
    rows: list[AblationRow] = []
    for t, observation in _event_rounds(rounds):
        decisions = {name: decide(observation, {}) for name, decide in policies.items()}
        paper = decisions.get("paper")
        rows += [_ablation_row(t, observation, name, decision, paper) for name, decision in decisions.items()]
    return rows


def _event_rounds(rounds: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, Observation]]:
    """Yield the round that settled each event, by an answer that arrived; during a rebalance no policy is asked."""
    rounds_by_event: dict[str, tuple[float, Observation]] = {}
    settled: dict[str, str | None] = {}  # event → decision
    for line in rounds:
        settled = {event: decision for event, decision in settled.items() if decision != line.get("withdrawn", "")}
        try:
            observation = observation_from_log(line["observation"])
        except (KeyError, TypeError, MessageError) as error:
            raise ReplayError(f"a round without an observation as it is written today ({error})") from error
        if (
            observation.event is None
            or observation.event.kind not in POLICIES["stela"].events
            or any(topology.rebalancing for topology in observation.topologies)
        ):
            continue
        event_id = observation.event.event_id
        if event_id not in settled:
            rounds_by_event[event_id] = (line["t"], observation)
        if line["decision"].get("settled"):
            settled[event_id] = line.get("decision_id")
    yield from rounds_by_event.values()


def _ablation_row(
    t: float, observation: Observation, variant: str, decision: Decision, paper: Decision | None
) -> AblationRow:
    assert observation.event is not None
    reason_against = refusal(observation, decision)
    return {
        "event_id": observation.event.event_id,
        "kind": observation.event.kind,
        "t": t,
        "variant": variant,
        "settled": decision.settled,
        "reason": decision.reason,
        "refused": reason_against.message if reason_against else None,
        "executors": {
            topology.topology_id: _executor_changes(topology, decision) for topology in observation.topologies
        },
        "per_machine": {
            topology.topology_id: _executors_per_machine(topology, decision) for topology in observation.topologies
        },
        "moved": sum(len(tasks) for tasks in decision.placement.values()),
        "release": list(decision.release),
        "same_as_paper": None if paper is None else _comparison_of(decision) == _comparison_of(paper),
    }


def _comparison_of(decision: Decision) -> tuple[Any, ...]:
    """Return the parts to compare: changes of executors and slots, and the machines that leave, in any order."""
    executors = {topology: dict(mine) for topology, mine in decision.executors.items() if mine}
    placement = {topology: dict(mine) for topology, mine in decision.placement.items() if mine}
    return executors, placement, sorted(decision.release)


def _executor_changes(topology: Topology, decision: Decision) -> dict[str, list[int]]:
    counts = {component.name: len(component.executors) for component in topology.components}
    return {name: [counts[name], count] for name, count in decision.executors.get(topology.topology_id, {}).items()}


def _executors_per_machine(topology: Topology, decision: Decision) -> dict[str, int]:
    """Return executors by machine once the decision is applied."""
    slots_after = {**topology.placement, **decision.placement.get(topology.topology_id, {})}
    new_counts = decision.executors.get(topology.topology_id, {})
    counts: Counter[str] = Counter()
    for component in topology.components:
        ranges = executor_ranges(component.tasks, new_counts.get(component.name, len(component.executors)))
        counts.update(slots_after[first].machine for first, _ in ranges if first in slots_after)
    return dict(sorted(counts.items()))
