"""Ask any policy again what it would have decided, from a run's decision log.

Errors: ReplayError (blame: configuration) for a log that cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_plugins.model import Decision, Memory
from scheduler_plugins.policies import bind
from scheduler_plugins.refusal import refusal
from scheduler_plugins.wire import WireError, decision_json, observation_from

COMPARED = ("executors", "placement", "release", "acquire", "scheduler", "scheduler_conf", "rebalance")
NONE = decision_json(Decision())  # logs of before a word was known do not have it


class ReplayError(Exception):
    """The decision log is missing, damaged or empty."""

    blame = "configuration"


@dataclass(frozen=True)
class Replayed:
    """One round: what was decided then, what the replayed policy says, and why a driver would refuse that."""

    t: float
    event_id: str | None
    then: Mapping[str, Any]
    now: Mapping[str, Any]
    refused: str | None = None

    @property
    def same(self) -> bool:
        return all(_plain(self.then.get(key, NONE[key])) == _plain(self.now[key]) for key in COMPARED)


def replay(path: Path, policy: str, parameters: Mapping[str, Any] | None = None) -> tuple[Replayed, ...]:
    """Every round of the log through `policy`, each with the observation that was logged.

    The memory is the replayed policy's own, carried from round to round. Rounds after its first differing decision
    still show the state of the world that the logged policy made: a replay compares answers, it does not simulate.
    """
    decide = bind(policy, parameters or {})
    memory: Memory = {}
    replayed = []
    for line in logged_rounds(path):
        observation = observation_from(line["observation"])
        rebalancing = any(topology.rebalancing for topology in observation.topologies)
        decision = Decision(memory=memory) if rebalancing else decide(observation, memory)
        memory = decision.memory
        event = observation.event.event_id if observation.event else None
        refused = refusal(observation, decision)
        said = refused.message if refused else None
        replayed.append(Replayed(line["t"], event, line["decision"], decision_json(decision), said))
    return tuple(replayed)


def logged_rounds(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a decision log (docs/contracts.md, "What a run leaves"). Raises ReplayError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror}; give a run's decisions.jsonl") from error
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            body: dict[str, Any] = json.loads(line)
            observation_from(body["observation"])
        except (ValueError, KeyError, TypeError, WireError) as error:
            raise ReplayError(f"{path}, line {number}: not a decision log line ({error})") from error
        yield body


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
