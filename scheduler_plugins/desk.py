"""The policy service without HTTP: what it holds, and what each call does to it.

One run at a time: `configure` forgets everything of the run before. Every scheduling round is one line of the
decision log, so that any run can be replayed through any policy.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scheduler_plugins.made import Decisions
from scheduler_plugins.model import Decision, Memory, Observation, Policy, ScaleEvent, unplaced_tasks
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.refusal import refusal
from scheduler_plugins.samples import Samples
from scheduler_plugins.scale_events import Refused, scale_event
from scheduler_plugins.wire import answer_of, decision_json, observation_json, observation_of


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
    held: str | None = None
    decisions: Decisions = field(default_factory=Decisions)
    input_rate_factor: float = 1.0
    policy_error: str | None = None
    damaged_lines: int = 0
    _machines: tuple[str, ...] = ()
    _placed_among: tuple[str, ...] = ()  # what Nimbus knew when it first had the topology to place
    _left: frozenset[str] = frozenset()  # released, and still known to Nimbus
    _tasks: tuple[int, int] = (0, 0)
    _slots: tuple[str, ...] = ()
    _unplaced_why: str | None = None
    _scheduler_error: str | None = None  # what the bridge says of the scheduler that places; it is not asked again
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
        self.event, self.held, self.decisions, self.input_rate_factor = None, None, Decisions(), 1.0
        self.policy_error, self.damaged_lines, self._unplaced_why, self._scheduler_error = None, 0, None, None
        self._machines, self._left, self._tasks, self._slots, self._events_seen = (), frozenset(), (0, 0), (), set()
        self._placed_among = ()
        return {"run_id": self.run_id}

    def scale(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Accept a scale event. Refused: 409 while one is pending, 400 if this policy does not answer such events."""
        if self.event is not None:
            raise Refused(409, f"scale: event {self.event.event_id} is still pending; wait for its decision")
        if str(body["event_id"]) in self._events_seen:
            raise Refused(409, f"scale: event {body['event_id']} was decided already; send it again under another id")
        back = self._left - set(body.get("joined") or ())
        staying = tuple(machine for machine in self._machines if machine not in back)
        self.event = scale_event(body, POLICIES[self.policy_name].events, self.policy_name, staying)
        self.held, self._left = "held: no scheduling round since the event", back
        self._events_seen.add(self.event.event_id)
        return {"event_id": self.event.event_id, "t": self.clock()}

    def change_input_rate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Spouts hear of it with the answer to their next samples. Refused (400) for a factor that is not above 0."""
        factor = body.get("factor")
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < math.inf:
            raise Refused(
                400, f"input_rate: factor is {factor!r}; allowed is a number above 0, times the submitted rate"
            )
        self.input_rate_factor = float(factor)
        return {"factor": self.input_rate_factor, "t": self.clock()}

    def take_samples(self, lines: Iterable[str]) -> dict[str, Any]:
        self._take(lines, self.samples.add_worker)
        return {"input_rate_factor": self.input_rate_factor}

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
        observation = self._observe(request)
        before = self.memory
        decision = self._ask(observation)
        decision_id = self._accept(decision, observation)
        self._log(request, observation, before, decision, started)
        return answer_of(decision, decision_id, self.policy_name)

    def _note(self, request: Mapping[str, Any]) -> None:
        self._machines = tuple(m["name"] for m in request["machines"] if m.get("alive", True))
        self._left &= set(self._machines)  # one that has left may come back as a new one
        topologies = request["topologies"]
        if topologies and not self._placed_among:
            self._placed_among = self._machines
        if topologies and topologies[0]["id"] != self.samples.topology_id:
            self.samples = Samples(window_s=self.samples.window_s, topology_id=topologies[0]["id"])
            self.samples.sinks = _sinks(topologies[0])
        self._tasks = (
            sum(len(t["placement"]) for t in topologies),
            sum(len(c["tasks"]) for t in topologies for c in t["components"]),
        )
        self._unplaced_why = "; ".join(t["unplaced_why"] for t in topologies if t.get("unplaced_why")) or None
        self._hear_of_failure(topologies)
        self._slots = tuple(sorted({slot for t in topologies for slot in t["placement"].values()}))

    def _hear_of_failure(self, topologies: Iterable[Mapping[str, Any]]) -> None:
        said = next((t["scheduler_error"] for t in topologies if t.get("scheduler_error")), None)
        if said is not None and self._scheduler_error is None:
            self._scheduler_error = self.policy_error = str(said)

    def _observe(self, request: Mapping[str, Any]) -> Observation:
        """What the policy sees. A machine that was released is not there for it any more, though Nimbus knows it.

        The event is kept from it while a task has no slot: what was lost is placed first, as without an event, and
        no policy has to decide on a scale event and a crash in one.
        """
        seen = observation_of(request, self.samples, self.event)
        machines = tuple(replace(m, alive=m.alive and m.name not in self._left) for m in seen.machines)
        unplaced = any(unplaced_tasks(topology) for topology in seen.topologies)
        return replace(seen, machines=machines, event=None if unplaced else seen.event)

    def _ask(self, observation: Observation) -> Decision:
        if any(topology.rebalancing for topology in observation.topologies):
            return Decision(memory=self.memory, reason="held: a rebalance is under way" if self.event else "")
        if self._scheduler_error is not None:
            return Decision(memory=self.memory, reason=f"policy failed: {self._scheduler_error}")
        try:
            decision = self.policy(observation, self.memory)
        except Exception as error:  # noqa: BLE001 - whatever a policy raises is a result about the policy
            return self._failed(f"{type(error).__name__}: {error}")
        refused = refusal(observation, decision)
        return self._failed(f"its decision is refused: {refused.message}") if refused else decision

    def _failed(self, why: str) -> Decision:
        self.policy_error = why
        return Decision(memory=self.memory, reason=f"policy failed: {why}")

    def _accept(self, decision: Decision, observation: Observation) -> str | None:
        before, self.memory = self.memory, decision.memory
        event_id = observation.event.event_id if observation.event else None
        if decision.settled and event_id is not None:
            self.event = None
        self.held = self._why_held(decision, observation)
        if not decision.changes() and not decision.settled:
            return None
        self._left |= set(decision.release)
        return self.decisions.add(decision, self.clock(), event_id, before)

    def _why_held(self, decision: Decision, observation: Observation) -> str | None:
        if self.event is None:
            return None
        unplaced = sum(len(unplaced_tasks(topology)) for topology in observation.topologies)
        if unplaced and observation.event is None:
            why = f" ({self._unplaced_why})" if self._unplaced_why else ""
            return f"held: {unplaced} tasks without a slot are placed first{why}"
        return decision.reason or "held: the policy does not say why"

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the bridge says of a decision. One that failed never was: its event is over, its memory forgotten."""
        failed = self.decisions.told(body)
        if failed is not None:
            self._left = self._left & self.decisions.released()
            if self.decisions.is_last(failed):
                self.memory = failed.memory_before
            if self.event is not None and self.event.event_id == failed.event_id:
                self.event, self.held = None, None
        return {}

    def state(self) -> dict[str, Any]:
        """What the harness watches (docs/contracts.md, "State")."""
        now = self.clock()
        return {
            "run_id": self.run_id,
            "t": now,
            "policy": self.policy_name,
            "machines": list(self._machines),
            "placed_among": list(self._placed_among),
            "samples_age_s": self.samples.age_s(now, self._slots),
            "workers_reporting": self.samples.reporting(now),
            "tasks_placed": self._tasks[0],
            "tasks_total": self._tasks[1],
            "pending_event": self.event.event_id if self.event else None,
            "decisions": [made.json() for made in self.decisions.made],
            "held": self.held,
            "input_rate_factor": self.input_rate_factor,
            "unplaced_why": self._unplaced_why,
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
