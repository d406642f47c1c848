"""The policy service without HTTP: what it holds, and what each call does to it.

One run at a time: `configure` forgets everything of the run before. Every scheduling round is one line of the
decision log, so that any run can be replayed through any policy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler_plugins.model import Decision, Memory, Observation, Policy, ScaleEvent
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.samples import Samples
from scheduler_plugins.wire import answer_of, decision_json, observation_json, observation_of


class Refused(Exception):
    """A call that cannot be served now or with these values; `status` is the HTTP status."""

    blame = "configuration"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Desk:
    """Holds the run's policy, memory, samples and pending event. Not thread-safe: the service serialises calls."""

    log_dir: Path
    clock: Callable[[], float] = time.time
    run_id: str = ""
    policy_name: str = "even"
    policy: Policy = field(default_factory=lambda: bind("even", {}))
    memory: Memory = field(default_factory=dict)
    samples: Samples = field(default_factory=Samples)
    event: ScaleEvent | None = None
    decisions: list[dict[str, Any]] = field(default_factory=list)
    policy_error: str | None = None
    damaged_lines: int = 0
    _machines: tuple[str, ...] = ()
    _tasks: tuple[int, int] = (0, 0)
    _slots: tuple[str, ...] = ()
    _events_seen: set[str] = field(default_factory=set)

    @property
    def log_path(self) -> Path:
        return self.log_dir / "decisions.jsonl"

    def configure(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a run: its id, policy, parameters and rate window. Refused (400) for an unknown policy or parameter."""
        try:
            policy = bind(str(body["policy"]), body.get("parameters") or {})
        except (PolicyError, KeyError) as error:
            raise Refused(400, f"configure: {error}") from error
        self.run_id, self.policy_name, self.policy = str(body["run_id"]), str(body["policy"]), policy
        self.memory, self.samples = {}, Samples(window_s=float(body.get("window_s") or 60.0))
        self.event, self.decisions, self.policy_error, self.damaged_lines = None, [], None, 0
        self._machines, self._tasks, self._slots, self._events_seen = (), (0, 0), (), set()
        return {"run_id": self.run_id}

    def scale(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Accept a scale event. Refused: 409 while one is pending, 400 if this policy does not answer such events."""
        if self.event is not None:
            raise Refused(409, f"scale: event {self.event.event_id} is still pending; wait for its decision")
        kind = str(body.get("kind"))
        if kind not in POLICIES[self.policy_name].events:
            allowed = ", ".join(sorted(POLICIES[self.policy_name].events))
            raise Refused(400, f"scale: kind is {kind!r}; {self.policy_name} answers {allowed}")
        unknown = sorted(set(body.get("joined") or ()) - set(self._machines))
        if unknown:
            raise Refused(409, f"scale: machine {unknown[0]} is not known to Nimbus yet; known are {self._machines}")
        if kind == "scale_out" and not body.get("joined"):
            raise Refused(400, "scale: a scale_out without machines that joined; name them in `joined`")
        event_id = str(body["event_id"])
        self.event = ScaleEvent(event_id, kind, tuple(body.get("joined") or ()), int(body.get("leave") or 0))  # type: ignore[arg-type]  # checked above
        return {"event_id": event_id, "t": self.clock()}

    def take_samples(self, lines: Iterable[str]) -> None:
        self._take(lines, self.samples.add_worker)

    def take_machine_samples(self, lines: Iterable[str]) -> None:
        self._take(lines, self.samples.add_machine)

    def _take(self, lines: Iterable[str], add: Callable[[Mapping[str, Any]], None]) -> None:
        for line in lines:
            try:
                if line.strip():
                    add(json.loads(line))
            except (ValueError, KeyError, TypeError):
                self.damaged_lines += 1  # the file on the machine is the record; here a line is only counted

    def schedule(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One scheduling round: ask the policy, log it, answer with what changes; one that throws moves nothing."""
        started = self.clock()
        self._note(request)
        observation = observation_of(request, self.samples, self.event)
        before = self.memory
        decision = self._ask(observation)
        decision_id = self._accept(decision, observation)
        self._log(request, observation, before, decision, started)
        return answer_of(decision, decision_id, self.policy_name)

    def _note(self, request: Mapping[str, Any]) -> None:
        self._machines = tuple(m["name"] for m in request["machines"] if m.get("alive", True))
        topologies = request["topologies"]
        if topologies and topologies[0]["id"] != self.samples.topology_id:
            self.samples = Samples(window_s=self.samples.window_s, topology_id=topologies[0]["id"])
            self.samples.sinks = _sinks(topologies[0])
        self._tasks = (
            sum(len(t["placement"]) for t in topologies),
            sum(len(c["tasks"]) for t in topologies for c in t["components"]),
        )
        self._slots = tuple(sorted({slot for t in topologies for slot in t["placement"].values()}))

    def _ask(self, observation: Observation) -> Decision:
        if any(topology.rebalancing for topology in observation.topologies):
            return Decision(memory=self.memory, reason="a rebalance is under way")
        try:
            return self.policy(observation, self.memory)
        except Exception as error:  # noqa: BLE001 - whatever a policy raises is a result about the policy
            self.policy_error = f"{type(error).__name__}: {error}"
            return Decision(memory=self.memory, reason=f"policy failed: {self.policy_error}")

    def _accept(self, decision: Decision, observation: Observation) -> str | None:
        self.memory = decision.memory
        event_id = observation.event.event_id if observation.event else None
        if decision.settled:
            self.event = None
        if not decision.changes() and not decision.settled:
            return None
        decision_id = f"d{len(self.decisions) + 1}"
        self.decisions.append(
            {
                "decision_id": decision_id,
                "t": self.clock(),
                "event_id": event_id,
                "reason": decision.reason,
                # What changes nothing needs no rebalance, so there is nothing left to apply.
                "applied": not decision.changes(),
                "applied_t": None if decision.changes() else self.clock(),
                "message": "",
            }
        )
        return decision_id

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        for decision in self.decisions:
            if decision["decision_id"] == body["decision_id"]:
                decision.update(
                    applied=bool(body["ok"]), applied_t=float(body["t"]), message=str(body.get("message", ""))
                )
        return {}

    def state(self) -> dict[str, Any]:
        """What the harness watches (docs/contracts.md, "State")."""
        now = self.clock()
        return {
            "run_id": self.run_id,
            "t": now,
            "policy": self.policy_name,
            "machines": list(self._machines),
            "samples_age_s": self.samples.age_s(now, self._slots),
            "workers_reporting": self.samples.reporting(now),
            "tasks_placed": self._tasks[0],
            "tasks_total": self._tasks[1],
            "pending_event": self.event.event_id if self.event else None,
            "decisions": self.decisions,
            "series": self.samples.series(now),
            "policy_error": self.policy_error,
            "damaged_lines": self.damaged_lines,
        }

    def _log(
        self, request: Mapping[str, Any], observation: Observation, before: Memory, decision: Decision, started: float
    ) -> None:
        line = {
            "t": started,
            "run_id": self.run_id,
            "request": request,
            "observation": observation_json(observation),
            "memory": before,
            "decision": decision_json(decision),
            "duration_ms": (self.clock() - started) * 1000,
        }
        with self.log_path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line, separators=(",", ":")) + "\n")


def _sinks(topology: Mapping[str, Any]) -> frozenset[str]:
    sources = {edge["source"] for edge in topology["edges"]}
    return frozenset(edge["target"] for edge in topology["edges"] if edge["target"] not in sources)
