"""The state of the policy service, without HTTP: its data, and the effect of each call.

One run at a time, of any number of topologies: `configure` forgets the run before. Every scheduling round is one line
of the decision log, so that any run can be replayed through any policy. A request to /scale becomes a ScaleEvent or is
refused. The decision tracker has the run's decisions and their outcomes: the bridge reports once for each topology
whether it was applied. A decision whose answer did not reach Nimbus was never made; one without a report of Nimbus
expires.

A round is in three steps, so that the service can answer others while the policy decides: `begin_round`, `decide`
(which touches nothing of the state), `end_round`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import (
    LONGEST_ROUND_S,
    SHORTEST_ROUND_S,
    SINKS,
    Decision,
    Failure,
    MachineLimits,
    Memory,
    Observation,
    Policy,
    ScaleEvent,
    ServiceLevel,
    is_all_under_way,
    topologies_to_place,
    unplaced_tasks,
    with_topology_as_before,
)
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.service.decision_tracker import EXPIRY_S, DecisionStatus, DecisionTracker
from scheduler_plugins.service.emission_records import (
    EVERYWHERE,
    LEAST_FACTOR,
    MOST_FACTOR,
    InputRates,
    is_factor,
    wrong_changes,
)
from scheduler_plugins.service.messages import (
    Answer,
    Request,
    answer_json,
    answer_of,
    log_line,
    observation_of,
    request_from_json,
)
from scheduler_plugins.service.policy_call import Outcome, PolicyFailure, Postponement, Round, ask_policy
from scheduler_plugins.service.refusal import restarting_slots
from scheduler_plugins.service.run_snapshot import RunSnapshot, oldest
from scheduler_plugins.service.samples import AHEAD_S, WINDOW_S, MachineSamples
from scheduler_plugins.service.scale_requests import (
    CallRefusal,
    MachineRequests,
    RequestStatus,
    limits_from,
    scale_event_from,
    why_refused,
)
from scheduler_plugins.service.topology_state import TopologyState

PostedLine = str | Mapping[str, Any]  # JSON, or its value
SHOWN_S = 3600.0  # of finished items that grow with the run: by then the harness has them on record
ANEW_S = 15.0  # no round for so long: Nimbus has ended, and one that takes over has its 60 s anew


@dataclass
class ServiceState:
    """The run's policy, memory, topologies and pending event. Not thread-safe: the service serialises calls.

    `sample_s`: how often the cluster's workers and machines write, in whole seconds (samples.SAMPLE_LENGTHS_S).
    `is_simulated`: the clock is simulated and stands still in a round, so that no duration of a round is measured.
    """

    log_dir: Path
    clock: Callable[[], float] = time.time
    sample_s: int = 1
    is_simulated: bool = False
    run_id: str = ""
    policy_name: str = "even"
    policy: Policy = field(default_factory=lambda: bind("even", {}))
    memory: Memory = field(default_factory=dict)
    topologies: dict[str, TopologyState] = field(default_factory=dict)  # by id, all that the run has had
    machine_samples: MachineSamples = field(default_factory=MachineSamples)
    event: ScaleEvent | None = None
    held: str | None = None
    decisions: DecisionTracker = field(default_factory=DecisionTracker)
    requests: MachineRequests = field(default_factory=MachineRequests)
    policy_error: str | None = None
    policy_hang: Mapping[str, str] | None = None  # `run_id` and `why`, where a policy ended the process before this one
    damaged_lines: int = 0
    _machines: tuple[str, ...] = ()
    _machines_since: dict[str, float] = field(default_factory=dict)  # the first round that had each, of these
    _released: frozenset[str] = frozenset()  # released, and still known to Nimbus
    _window_s: float = WINDOW_S
    _memory_logged: Memory | None = None  # as the last line of the decision log leaves it
    _final_error: str | None = None  # of a policy, or of the scheduler that places for it, which is not asked again
    _events_seen: set[str] = field(default_factory=set)
    _configured: int = 0  # how often
    _round_t: float | None = None  # when Nimbus last asked
    _decide_every_s: float | None = None  # how often the policy may act by itself; None: not at all
    _acts_next_s: float = 0.0
    _limits: tuple[int, int] | None = None  # the fewest and the most machines that a policy may have by itself
    _failures: tuple[Failure, ...] = ()  # not reported to the policy yet
    _unplaceable: frozenset[str] = frozenset()  # topology ids: the policy was asked, and found them no slot
    _service_levels: Mapping[str, ServiceLevel] = field(default_factory=dict)  # by the topology's name
    _throughput: Mapping[str, str] = field(default_factory=dict)  # the same: where it is measured, if not at the sinks
    _groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of machines at the start, by name
    _input_rates: InputRates = field(default_factory=lambda: InputRates(0.0))  # as far back as a spout may be

    @property
    def log_path(self) -> Path:
        return self.log_dir / "decisions.jsonl"

    def configure(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a run and its decision log: its id, policy, parameters and rate window.

        Nimbus asks between two runs too; those rounds are in no log. The machines' cores stay known from run to run.
        Refused (400) for an unknown policy or parameter.
        """
        try:
            policy = bind(str(body["policy"]), body.get("parameters") or {})
            levels = {str(n): ServiceLevel(**level) for n, level in (body.get("service_levels") or {}).items()}
            throughput = dict(body.get("throughput") or {})
            groups = {str(name): tuple(map(str, machines)) for name, machines in (body.get("groups") or {}).items()}
        except (PolicyError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise CallRefusal(400, f"configure: {error}") from error
        self.run_id, self.policy_name, self.policy = str(body["run_id"]), str(body["policy"]), policy
        self.memory, self.topologies, self._window_s = {}, {}, _window_s(body)
        cores_by_machine = {name: cores for name, cores in self.machine_samples.cores.items() if name in self._machines}
        self.machine_samples = MachineSamples(self._window_s, cores_by_machine, self.sample_s)
        self.event, self.held, self.decisions = None, None, DecisionTracker()
        self.policy_error, self.policy_hang, self.damaged_lines, self._final_error = None, None, 0, None
        self._machines, self._released, self._events_seen = (), frozenset(), set()
        self._machines_since = {}
        self._round_t, self._configured = None, self._configured + 1
        self._decide_every_s, self._failures, self._service_levels, self._throughput = None, (), levels, throughput
        self._limits, self.requests, self._unplaceable = None, MachineRequests(), frozenset()
        self._groups, self._input_rates = groups, InputRates(self.clock())
        self.log_path.unlink(missing_ok=True)
        self._memory_logged = None
        return {"run_id": self.run_id}

    def scale(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Accept a scale event. Refused: 409 while one is pending, 400 if this policy does not answer such events."""
        if self.event is not None:
            raise CallRefusal(409, f"scale: event {self.event.event_id} is still pending; wait for its decision")
        if str(body["event_id"]) in self._events_seen:
            raise CallRefusal(
                409, f"scale: event {body['event_id']} was decided already; send it again under another id"
            )
        released = self._released - set(body.get("joined") or ())
        staying = tuple(machine for machine in self._machines if machine not in released)
        self.event = scale_event_from(body, POLICIES[self.policy_name].events, self.policy_name, staying)
        self.held, self._released = "held: no scheduling round since the event", released
        self._events_seen.add(self.event.event_id)
        return {"event_id": self.event.event_id, "t": self.clock()}

    def change_rounds(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Let the policy act by itself from the next round on, at this interval; null: no longer. Refused (400) for
        invalid lengths."""
        every = body.get("decide_every_s")
        is_number = isinstance(every, int | float) and not isinstance(every, bool)
        if every is not None and not (is_number and SHORTEST_ROUND_S <= every <= LONGEST_ROUND_S):
            limits = f"null, or {SHORTEST_ROUND_S:g} to {LONGEST_ROUND_S:g} seconds"
            raise CallRefusal(400, f"rounds: decide_every_s is {every!r}; allowed is {limits}")
        self._limits = limits_from(body.get("machines"))
        self._decide_every_s, self._acts_next_s = every, self.clock()
        return {"decide_every_s": every, "t": self._acts_next_s}

    def end_machine_request(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take the outcome of the request that is under way; a repetition has no effect. Refused: 409 for any other,
        400 for an invalid one."""
        now, is_new = self.clock(), self.requests.is_under_way(body.get("request_id"))
        request = self.requests.end(body, now)
        if is_new and request.kind == "release" and request.outcome != "done":
            self._released -= set(request.machines)  # they stay, and may be used again
        return {"request_id": request.request_id, "t": now}

    def change_input_rate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change the input rate. `factor`: for all sources, from now on. Or `changes` of a course with their times, for
        all sources or those of a `topology` or a `source`. Spouts get it in the answer to their next samples. Refused
        (400) for factors that they cannot follow, and for distant times."""
        now, rates = self.clock(), self._input_rates
        spouts = [each.samples.emissions for each in self.topologies.values() if each.is_running]
        oldest_s = min((t for each in spouts if (t := each.oldest_s()) is not None), default=now)
        rates.prune(oldest_s, now, {t for each in spouts for t in each.times_s()})
        if "changes" in body:
            problem = wrong_changes(body, now)
            if not problem and "factor" in body:
                problem = f"factor is {body['factor']!r} beside changes; give one of them"
            if problem:
                raise CallRefusal(400, f"input_rate: {problem}")
            rates.take(body, now)
            rates.is_timed = True
            return {"until": float(body["changes"][-1][0]), "t": now}
        factor = body.get("factor")
        if not is_factor(factor):
            limits = f"a number from {LEAST_FACTOR:g} to {MOST_FACTOR:g}, times the submitted rate"
            raise CallRefusal(400, f"input_rate: factor is {factor!r}; allowed is {limits}")
        rates.take(body, now)
        return {"factor": float(factor), "t": now}

    @property
    def input_rate_factor(self) -> float:
        """Return the present factor of sources without a course of their own."""
        return self._input_rates.factor(EVERYWHERE, self.clock())

    def due_seconds(self, topology: str, source: str, from_s: float, until_s: float) -> float:
        """Return how long the submitted rate takes for the tuples of a source due between two times."""
        return self._input_rates.due_seconds((topology, source), from_s, until_s)

    def take_samples(self, lines: Iterable[PostedLine], topology_id: str = "") -> dict[str, Any]:
        """Take lines of a worker of that topology. One that begins posts nothing: it gets its spouts' records of
        earlier processes. Once a rate follows a course, every worker gets the coming changes."""
        nonempty_lines = [line for line in lines if not isinstance(line, str) or line.strip()]

        def add(line: Mapping[str, Any]) -> None:
            if (each := self.topologies.get(line["topology"])) is not None:  # else of an earlier run
                each.samples.add_worker(line)

        self._add_lines(nonempty_lines, add)
        topology, now = self.topologies.get(topology_id), self.clock()
        name = topology.name if topology else None
        answer: dict[str, Any] = {"input_rate_factor": self._input_rates.factor((name, None), now)}
        if nonempty_lines:
            return answer | (self._input_rates.json(name, now) if self._input_rates.is_timed else {})
        schedules = topology.samples.emissions.json() if topology else {}
        records = {"topology": topology.topology_id if topology else None, "schedules": schedules}
        return answer | records | self._input_rates.json(name)

    def note_sources(self, sources: str) -> None:
        """Record that sources begin, `TASK,… TOPOLOGY`. One without a record gets one: should its worker die before its
        first line arrives, the next process continues instead of beginning once more."""
        tasks, _, topology_id = sources.partition(" ")
        topology = self.topologies.get(topology_id)
        if topology is not None:
            new_tasks = {int(task) for task in tasks.split(",") if task.isdecimal()}
            topology.samples.emissions.begin(new_tasks & topology.spout_tasks, self.clock())

    def take_machine_samples(self, lines: Iterable[PostedLine]) -> dict[str, Any]:
        self._add_lines(lines, self.machine_samples.add)
        return {}

    def _add_lines(self, lines: Iterable[PostedLine], add: Callable[[Mapping[str, Any]], None]) -> None:
        latest_s = self.clock() + AHEAD_S
        for item in lines:
            try:
                if not isinstance(item, str) or item.strip():
                    line = json.loads(item) if isinstance(item, str) else item
                    if not float(line["t"]) <= latest_s:
                        raise ValueError(f"t is {line['t']}; allowed: until {latest_s}")
                    add(line)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                self.damaged_lines += 1  # the file on the machine is the record; here a line is only counted

    def schedule(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Do one scheduling round: ask the policy, log it, answer with the changes; one that throws moves nothing."""
        round = self.begin_round(request_from_json(body))
        return answer_json(self.end_round(round, ask_policy(round)))

    def begin_round(self, request: Request) -> Round:
        begin_s = self.clock()
        if self._silence_s(begin_s) > ANEW_S:
            self.decisions.give_again(begin_s)
        self._round_t = begin_s
        self._expire_decisions()
        withdrawal = self._withdraw_unless_arrived(request)
        self._record_request(request)
        observation, without = self._observe(request), None
        if is_all_under_way(observation):
            without = Decision(memory=self.memory, reason="held: a rebalance is under way" if self.event else "")
        elif self._final_error is not None:
            without = Decision(memory=self.memory, reason=f"policy failed: {self._final_error}")
        withdrawn_id = withdrawal.decision_id if withdrawal else None
        return Round(begin_s, self._configured, request, observation, self.policy, self.memory, without, withdrawn_id)

    def end_round(self, round: Round, outcome: Outcome) -> Answer:
        """End the round and return the answer. Nothing is decided if the run, or a decision underlying this one, is
        gone."""
        if round.configured != self._configured:
            return answer_of(Decision(reason="held: another run has begun"), None, self.policy_name)
        if isinstance(outcome, PolicyFailure):
            self.policy_error = outcome.why
            self._final_error = outcome.why if outcome.final else self._final_error
        reason = f"held: {outcome.why}" if isinstance(outcome, Postponement) else f"policy failed: {self.policy_error}"
        decision = outcome if isinstance(outcome, Decision) else Decision(memory=self.memory, reason=reason)
        if self.memory is not round.memory:
            decision = Decision(memory=self.memory, reason="held: the decision before it has failed meanwhile")
        elif outcome is decision and round.decision is None:  # the policy has seen failures and waiting topologies
            self._failures = self._failures[len(round.observation.failures) :]
            waiting_ids = (t.topology_id for t in topologies_to_place(round.observation))
            self._unplaceable = frozenset(each for each in waiting_ids if not decision.placement.get(each))
            if round.observation.may_act and self._decide_every_s is not None:
                self._acts_next_s = round.started + max(self._decide_every_s, decision.rest_s)
        granted = self._without_refused_request(decision, round.observation)
        if round.observation.may_act and self._decide_every_s is None and granted.changes():
            granted = Decision(memory=self.memory, reason="held: the policy may act by itself no more")
        decision_id = self._accept(granted, round.observation)
        answer = answer_of(granted, decision_id, self.policy_name)
        self._log(round, decision, answer)
        return answer

    def _record_request(self, request: Request) -> None:
        self._machines = tuple(machine.name for machine in request.machines if machine.alive)
        self._released &= set(self._machines)  # one that has left may come back as a new one
        now, topologies = self.clock(), {topology.topology_id: topology for topology in request.topologies}
        self._machines_since = {name: self._machines_since.get(name, now) for name in self._machines}
        for topology_id, topology in topologies.items():
            if topology_id not in self.topologies:
                place = self._throughput.get(topology.name, SINKS)
                state = TopologyState.first(topology, self._window_s, self._machines, self.sample_s, place)
                self.topologies[topology_id] = state
            self.topologies[topology_id].record(topology, now)
        for topology_id in self.topologies.keys() - topologies.keys():
            self.topologies[topology_id].end()
        error = next(iter(request.scheduler_errors.values()), None)
        if error is not None and self._final_error is None:
            self._final_error = self.policy_error = error

    def _observe(self, request: Request) -> Observation:
        """Return the policy's observation. A released machine is missing, though Nimbus knows it.

        The event is withheld while a task has no slot: lost tasks are placed first, as without an event, and no policy
        has to decide on a scale event and a crash in one. The same holds during a rebalance. A topology for which the
        policy has found no slot withholds neither the event nor a hold from others that run.
        """
        samples = {topology_id: each.samples for topology_id, each in self.topologies.items()}
        observation = observation_of(request, samples, self.machine_samples, self.event)
        machines = tuple(replace(m, alive=m.alive and m.name not in self._released) for m in observation.machines)
        levels = self._service_levels
        topologies = tuple(replace(t, service_level=levels.get(t.name)) for t in observation.topologies)
        observation = replace(observation, machines=machines, topologies=topologies)
        waiting_ids = [topology.topology_id for topology in topologies_to_place(observation)]
        is_waiting = bool(waiting_ids) and not (
            len(waiting_ids) < len(topologies) and self._unplaceable.issuperset(waiting_ids)
        )
        is_moving = is_waiting or any(topology.rebalancing for topology in topologies)
        may_act = self._decide_every_s is not None and self.clock() >= self._acts_next_s and self.event is None
        limits = self._limits and MachineLimits(*self._limits, sum(machine.alive for machine in machines))
        return replace(
            observation, event=None if is_moving else observation.event,
            may_act=may_act and not is_waiting, failures=self._failures,
            machine_requests=self.requests.shown(), machine_limits=limits, groups=self._groups,
        )  # fmt: skip

    def explain_failure(self, round: Round, why: str) -> None:
        """Add details to a known failure, if its run still goes on."""
        if round.configured == self._configured and self._final_error is not None:
            self.policy_error = self._final_error = why

    def _without_refused_request(self, decision: Decision, observation: Observation) -> Decision:
        """Return the decision without a refused machine request, which goes on record."""
        if not observation.may_act or not (decision.acquire or decision.release):
            return decision
        open_ = self.requests.under_way()
        why = why_refused(observation, decision, open_.request if open_ else None)
        if self._decide_every_s is None:
            why = "the policy may not act by itself any more"
        if not why:
            return decision
        self.requests.refuse(decision, why, self.clock())
        return replace(decision, acquire=0, release=())

    def _accept(self, decision: Decision, observation: Observation) -> str | None:
        before, self.memory = self.memory, decision.memory
        if decision.settled and observation.event is not None:
            self.event = None
        self.held = self._why_held(decision, observation)
        if not decision.changes() and not decision.settled:
            return None
        self._released |= set(decision.release)
        slots = restarting_slots(observation, decision)
        heard = (observation.may_act, observation.failures)
        now = self.clock()
        # Tasks without a slot are placed before the event is decided on: the outcome of that is not the event's.
        event = observation.event if decision.settled or not _only_places_first(decision, observation) else None
        decision_id = self.decisions.add(decision, now, event, before, slots, *heard)
        if observation.may_act and (decision.acquire or decision.release):
            self.requests.add(decision, decision_id, now)
        return decision_id

    def _is_ready(self, status: RequestStatus) -> bool:
        """Return whether a request's decision stands: machines are acquired once Nimbus has the decision, and leave
        once it is carried out. Else a withdrawn one would be requested twice."""
        decision = self.decisions.find(status.decision_id)
        if decision is None or status.request.kind == "acquire":
            return decision is not None and (decision.arrived or not decision.waiting)
        return not decision.waiting and not decision.failed

    def _why_held(self, decision: Decision, observation: Observation) -> str | None:
        if self.event is None:
            return None
        if observation.event is not None:
            return decision.reason or "held: the policy does not say why"
        if any(topology.rebalancing for topology in observation.topologies):
            return "held: a rebalance is under way"
        number = sum(map(len, map(unplaced_tasks, observation.topologies)))
        reasons = "; ".join(each.unplaced_why for each in self.topologies.values() if each.unplaced_why)
        return f"held: {number} tasks without a slot are placed first{f' ({reasons})' if reasons else ''}"

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take the bridge's report on a decision; it may come more than once."""
        status = self.decisions.record_outcome(body)
        if status is not None:
            self._forget(status, [str(body["topology"])], str(body.get("message", "")))
        return {}

    def _forget(self, failed: DecisionStatus, topology_ids: Collection[str], why: str) -> None:
        """Forget the failed parts of a decision, as if it never was: its event is over, and the policy's memory of
        these topologies is reset; where nothing of it was carried out, all of the memory."""
        self._released = self._released & self.decisions.released()
        if not failed.waiting and not failed.applied and self.decisions.is_last(failed):
            self.memory = failed.memory_before
        self.requests.fail_release(failed.decision_id, why, self.clock())
        self._failures += tuple(Failure(failed.decision_id, each, why) for each in sorted(topology_ids))
        for topology_id in topology_ids:
            self.memory = with_topology_as_before(self.memory, failed.memory_before, topology_id)
        if self.event is not None and self.event.event_id == failed.event_id:
            self.event, self.held = None, None

    def _expire_decisions(self) -> None:
        now = self.clock()
        if ANEW_S < self._silence_s(now) < EXPIRY_S:
            return  # a Nimbus that takes over may still carry it out; the harness waits for one no longer
        time_text = "never" if self._round_t is None else f"{now - self._round_t:.0f} s ago"
        for status in self.decisions.expire(now, time_text):
            topology_ids, status.waiting = status.waiting, set()
            self._forget(status, topology_ids, "Nimbus has not said what became of it")

    def _silence_s(self, now: float) -> float:
        return 0.0 if self._round_t is None else now - self._round_t

    def _withdraw_unless_arrived(self, request: Request) -> DecisionStatus | None:
        if request.last_decision == "":
            return None
        withdrawal = self.decisions.withdraw_unless_arrived(request.last_decision)
        if withdrawal is not None:
            self.memory, self._released = withdrawal.memory_before, self._released & self.decisions.released()
            self.event = self.event or withdrawal.event
            self.requests.withdraw(withdrawal.decision_id)
            self._failures = withdrawal.heard + self._failures
            self._acts_next_s = min(self._acts_next_s, self.clock()) if withdrawal.own else self._acts_next_s
        return withdrawal

    def state(self) -> dict[str, Any]:
        """Return the state for the harness, as JSON data."""
        body: dict[str, Any] = to_json(self.snapshot())
        return body

    def snapshot(self) -> RunSnapshot:
        self._expire_decisions()
        now, since_s, states = self.clock(), self.clock() - SHOWN_S, self.topologies.values()
        topologies = [each.snapshot(now, each.topology_id in self._unplaceable) for each in states]
        running_topologies = [topology for topology in topologies if topology.running]
        placeable = [topology for topology in running_topologies if not topology.unplaceable] or running_topologies
        return RunSnapshot(
            run_id=self.run_id,
            t=now,
            sample_s=self.sample_s,
            policy=self.policy_name,
            machines=self._machines,
            machines_since=dict(self._machines_since),
            topologies=tuple(topologies),
            samples_age_s=oldest([topology.samples_age_s for topology in placeable]),
            window_fault=next((topology.window_fault for topology in placeable if topology.window_fault), ""),
            workers_reporting=sum(topology.workers_reporting for topology in running_topologies),
            tasks_placed=sum(topology.tasks_placed for topology in running_topologies),
            tasks_total=sum(topology.tasks_total for topology in running_topologies),
            worker_restarts=tuple(restart for each in states for restart in each.restarts() if restart.t > since_s),
            lost_tasks=tuple(loss for each in states for loss in each.lost if loss.t > since_s),
            moves=tuple(move for each in states for move in each.moves if move.t > since_s),
            pending_event=self.event.event_id if self.event else None,
            decisions=tuple(each.snapshot() for each in self.decisions.statuses if not each.was_over(since_s)),
            machine_requests=self.requests.snapshot(self._is_ready),
            held=self.held,
            input_rate_factor=self.input_rate_factor,
            policy_error=self.policy_error,
            policy_hang=self.policy_hang,
            damaged_lines=self.damaged_lines,
            nimbus_age_s=None if self._round_t is None else now - self._round_t,
        )

    def _log(self, round: Round, decision: Decision, answer: Answer) -> None:
        duration_ms = None if self.is_simulated else (self.clock() - round.started) * 1000
        head = {"t": round.started, "run_id": self.run_id, "duration_ms": duration_ms}
        parts = (round.request, round.observation, round.memory, decision, answer, self._memory_logged)
        line, self._memory_logged = head | log_line(*parts), decision.memory
        if round.withdrawn is not None:
            line["withdrawn"] = round.withdrawn
        with self.log_path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line, separators=(",", ":")) + "\n")


def _only_places_first(decision: Decision, observation: Observation) -> bool:
    """Return whether the only changes are slots for tasks without one."""
    placements = {topology.topology_id: topology.placement for topology in observation.topologies}
    moves = any(task in placements.get(name, ()) for name, slots in decision.placement.items() for task in slots)
    return not (moves or any(decision.executors.values()) or decision.release or decision.rebalance)


def _window_s(body: Mapping[str, Any]) -> float:
    """Return the longest window of rates: the policy's own where its parameters have one."""
    window_s = (body.get("parameters") or {}).get("window_s")
    return float(window_s or body.get("window_s") or WINDOW_S)
