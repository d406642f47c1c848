"""A cluster that exists in memory: the whole flow without machines, in no time. Passes for Cluster and ServiceClient.

Each topology is a spout and a sink at a steady rate, in proportion to the machines and to the input rate; none slows
another. A policy lets the machines with the highest numbers go. Faults are set by name. Its files are as the contracts
have them: one worker of each topology with a spout and a sink, whose numbers are those of every other one's. In a hold
its policy asks for machines where the fault `asks` says so; the limits and the answers are those of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.record import worker_files
from barograph.errors import RunBroken
from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import RunningWorker
from barograph.plan.experiment import TopologyChoice
from barograph.policy_service import (
    LostTasks,
    ServiceClient,
    ServiceDecision,
    ServiceRefused,
    ServiceState,
    ServiceUnreachable,
    TopologyStatus,
    TupleCounts,
    WorkerRestart,
    policy_request,
)
from barograph.run.cluster import ClusterFacts, Collection, MachineSupply
from barograph.run.fake_clock import FakeClock
from barograph.run.fake_hold import FakeHold
from barograph.run.fake_records import decision_line, machine_line, worker_line, write_lines
from inventory.testbed import Disturbance
from playbooks.clock import ClockOffset
from playbooks.cluster import NO_SAMPLES
from scheduler_plugins.emission_records import EVERYWHERE, InputRates, wrong_changes
from scheduler_plugins.machine_requests import RequestRefusal, RequestStatus

RATE_OF_A_MACHINE = 50.0  # tuples/s
WITHHELD_S = 2
DECIDE_S, APPLY_S, RESTART_S = 1.0, 2.0, 5.0
LEAVE_S = 3.0
NOTICE_S = 30.0  # until Nimbus gives a machine up and places its tasks elsewhere
BOOT_S = 40.0
POSTING_S = 3.0  # until workers whose posts were lost have sent the next
NEVER = float("inf")


@dataclass(frozen=True)
class ScaleRequest:
    """A scale request, and what becomes of it."""

    event_id: str
    t: float
    release: tuple[str, ...]
    refused: str


@dataclass
class FakeStorm(ServiceClient):
    """`faults`: name → value, such as {"dead": ("m2",)}; what each does is where it is read."""

    clock: FakeClock
    starting: tuple[str, ...]
    workers: tuple[str, ...]
    topologies: tuple[str, ...] = ("star",)
    joining: str = "ready"  # or booted, as in `testbed.joining`
    testbed: MachineSupply | None = None
    faults: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)  # by call, those of the last one
    returned: set[str] = field(default_factory=set)  # to the testbed, and not booted again
    _booted: set[str] = field(default_factory=set)
    _run_id: str = ""
    _policy: str = ""
    _wait_s: int = 0  # before a rebalance, as the policy's parameters ask for
    _machines: list[str] = field(default_factory=list)
    _placed_among: tuple[str, ...] = ()
    _submitted: dict[str, float] = field(default_factory=dict)  # topology → since when
    _killed: dict[str, float] = field(default_factory=dict)
    _requests: list[ScaleRequest] = field(default_factory=list)
    _down: dict[str, float] = field(default_factory=dict)  # crashed machine, or one off the LAN → since when
    _disturbed: dict[str, float] = field(default_factory=dict)  # kind of disturbance → since when
    _back_s: float = 0.0  # the newest restart
    _lost_for_s: float = 0.0  # samples, the last time
    _heard_again_s: float = 0.0  # since when they arrive
    _hold: FakeHold = field(default_factory=FakeHold)
    _input_rates: InputRates = field(default_factory=lambda: InputRates(0.0))
    _rates: list[tuple[float, float]] = field(default_factory=list)  # from when on, tuples/s

    # As Cluster

    def deploy(self) -> None:
        self._note_call("deploy")

    def reset(self, run: PlannedRun) -> None:
        code = run.variant.code
        self._note_call("reset", run_id=run.run_id, code=code.commit if code else None)
        if code is not None and code.commit in self.faults.get("broken_code", ()):
            raise RunBroken(f"{code.label}: Nimbus does not start with the code of this run")
        assert not self.returned & set(self.starting), "a run on machines that the testbed has back"
        self._machines = list(self.starting)
        self._submitted, self._killed = {}, {}
        self._requests, self._rates, self._down, self._disturbed = [], [], {}, {}
        self._hold = FakeHold()

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        """With the fault `unplaced` topologies of these names find no slot."""
        self._note_call("submit", run_id=run.run_id, topology=topology.name)
        assert topology.name in self.topologies and topology.name not in self._submitted, topology.name
        unknown = self.faults.pop("unknown_at_submission", ())
        self._placed_among = tuple(name for name in self._machines if name not in unknown)
        self._submitted[topology.name] = self.clock.now()
        if len(self._submitted) == 1:
            self._flows_from(self.clock.now())

    def kill(self, topology: str) -> None:
        self._note_call("kill", topology=topology)
        self._killed[topology] = self.clock.now()

    def join(self, machines: Sequence[str]) -> None:
        self._note_call("join", machines=tuple(machines))
        there = self._booted if self.joining == "booted" else set(self.workers)
        assert set(machines) <= there | set(self.starting), f"{machines} were not booted"
        assert not set(machines) & set(self._machines), f"{machines} are in the cluster already"
        if not self.faults.get("never_registers"):
            self._machines.extend(machines)

    def grow(self, machines: Sequence[str]) -> Mapping[str, float | None]:
        assert not self._booted & set(machines), f"{machines} are there already"
        self._note_call("grow", machines=tuple(machines))
        if self.testbed is not None:
            self.testbed.grow(machines)
        try:
            self.clock.sleep(BOOT_S)
        except BaseException:
            self.give_back(machines)
            raise
        self._booted.update(machines)
        self.returned.difference_update(machines)
        return dict.fromkeys(machines, BOOT_S)

    def leave(self, machines: Sequence[str]) -> None:
        self._note_call("leave", machines=tuple(machines))
        self.clock.sleep(LEAVE_S)
        self._machines = [name for name in self._machines if name not in machines]

    def give_back(self, machines: Sequence[str]) -> bool:
        self._note_call("give_back", machines=tuple(machines))
        if self.testbed is not None:
            self.testbed.give_back(machines)
        self.returned.update(machines)
        self._booted.difference_update(machines)
        return True

    def crash(self, machine: str) -> None:
        self._note_call("crash", machine=machine)
        now = self.clock.now()
        self._down[machine] = now
        self._stand_still(now, now + NOTICE_S)

    def restart(self, machine: str) -> None:
        self._note_call("restart", machine=machine)
        del self._down[machine]
        self._back_s = self.clock.now()
        self._flows_from(self.clock.now() + RESTART_S)

    def disturb(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """Nothing comes from machines off the LAN, and no sample where these are lost; other kinds slow nobody."""
        self._note_call("disturb", machines=tuple(machines), disturbance=disturbance)
        now = self.clock.now()
        self._disturbed[disturbance.kind] = now
        if disturbance.kind == "lan_cut":
            self._down |= dict.fromkeys(machines, now)
            self._stand_still(now, now + NOTICE_S)

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        self._note_call("end_disturbance", machines=tuple(machines), disturbance=disturbance)
        since_s = self._disturbed.pop(disturbance.kind, None)
        if since_s is not None and disturbance.kind == "sample_loss":
            self._lost_for_s, self._heard_again_s = self.clock.now() - since_s, self.clock.now() + POSTING_S
        if since_s is None or disturbance.kind != "lan_cut":
            return
        for name in machines:
            self._down.pop(name, None)
        self._back_s = self.clock.now()
        self._flows_from(self.clock.now() + RESTART_S)

    @contextmanager
    def worker_on(self, machine: str) -> Iterator[RunningWorker]:
        self._note_call("worker_on", machine=machine)

        def kill() -> None:
            self._note_call("kill_worker", machine=machine)
            self._stand_still(self.clock.now(), self.clock.now() + RESTART_S)

        yield RunningWorker(f"{machine}:6700", kill)

    def stop(self) -> None:
        self._note_call("stop")
        self._killed = dict.fromkeys(self._submitted, self.clock.now()) | self._killed

    def collect(self, folder: Path, machines: Sequence[str]) -> Collection:
        self._note_call("collect", machines=tuple(machines))
        absent = set() if self.joining == "ready" else set(self.workers) - set(self.starting) - self._booted
        unreachable = (set(machines) & (self.returned | set(self._down) | absent)) - {"master"}
        assert not unreachable, f"files of {unreachable}, which cannot be reached"
        if not self._submitted:
            return Collection((NO_SAMPLES,))
        measured = sorted({t for topology in self._submitted for t in self._seconds(topology)})
        for name in set(machines) - {"master"}:
            write_lines(folder / "machines" / f"{name}.jsonl", [machine_line(name, t) for t in measured])
        for topology in self._submitted if "m1" in machines else ():
            port, seconds = self._port(topology), enumerate(self._seconds(topology))
            lines = [worker_line(number, t, int(self._rate(topology, t)), topology, port) for number, t in seconds]
            since_ms = int(1000 * self._submitted[topology])
            worker_files.write(folder / "workers" / f"m1-{port}-{since_ms}.avro", lines)
        if "master" in machines:
            self._collect_master(folder)
        missing = () if (folder / "workers").exists() else (NO_SAMPLES,)
        return Collection((*missing, *self.faults.get("missing", ())))

    def clock_offsets_ms(self, machines: Sequence[str], now: Callable[[], float]) -> Mapping[str, ClockOffset | None]:
        """The fault `clock_offset_ms` is by machine; `clock_step_ms` too, from `clock_step_after_s` on, and
        `clock_unknown_after_s`, since when a clock cannot be asked. `clock_error_ms` is everybody's.

        The machines' clocks are right by this cluster's own, and `now` may have been shifted to them.
        """
        offsets = dict(self.faults.get("clock_offset_ms", {}))
        if self._since_submission() >= self.faults.get("clock_step_after_s", 0.0):
            for name, step in self.faults.get("clock_step_ms", {}).items():
                offsets[name] = offsets.get(name, 0.0) + step
        ahead_ms = (now() - self.clock.unshifted()) * 1000
        known = {name: offsets.get(name, 0.0) for name in machines}
        for name, after_s in self.faults.get("clock_unknown_after_s", {}).items():
            known[name] = None if self._since_submission() >= after_s else known.get(name, 0.0)
        error_ms = self.faults.get("clock_error_ms", 0.0)
        asked = {name: known[name] for name in machines}
        return {name: None if ms is None else ClockOffset(ms - ahead_ms, error_ms) for name, ms in asked.items()}

    def silent_machines(self) -> tuple[str, ...]:
        gone = () if self.joining == "booted" else sorted(self.returned)
        return (*self.faults.get("dead", ()), *self._down, *gone)

    def recalled(self) -> tuple[str, ...]:
        """The fault `recalled` is a name, `recalled_after_s` since when (s after the submission)."""
        if self._since_submission() < self.faults.get("recalled_after_s", 0) or "recalled" not in self.faults:
            return self.testbed.recalled() if self.testbed else ()
        return (str(self.faults["recalled"]),)

    def make_whole(self) -> bool:
        """With the fault `replaces` lost machines are replaced."""
        self._note_call("make_whole")
        needed = {"master", *(self.starting if self.joining == "booted" else self.workers)}
        lost = needed & (self.returned | {*self.recalled(), *self.faults.get("dead", ())})
        if self.faults.get("replaces"):
            self.returned -= lost
            for fault in ("recalled", "dead"):
                self.faults.pop(fault, None)
            return True
        return not needed & {*self.returned, *self.recalled()}

    def facts(self) -> ClusterFacts:
        machine = {"type": "type_1", "cores": 0.25, "memory_mb": 768, "bandwidth_mbit": 100, "slots": 4}
        names = dict.fromkeys((*self.workers, *sorted(self._booted)))
        machines = {name: {**machine, "joins_at_scale": name not in self.starting} for name in names}
        return ClusterFacts(machines, {"storm": "none: a fake cluster"}, {})

    # As ServiceClient

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        assert body is not None, "the state is made below"
        name, take = self._calls()[path]
        self._note_call("input_rate_changes" if "changes" in body else name, **body)
        take(body)

    def _calls(self) -> Mapping[str, tuple[str, Callable[[Mapping[str, Any]], None]]]:
        """By path: the client's method, and what it does here."""
        return {
            "/configure": ("configure", self._begin_run),
            "/scale": ("scale", self._scale),
            "/rounds": ("decide_every", self._change_rounds),
            "/machines": ("end_machine_request", self._end_machine_request),
            "/input_rate": ("input_rate", self._change_rates),
        }

    def _begin_run(self, body: Mapping[str, Any]) -> None:
        self._run_id, self._policy, self._input_rates = body["run_id"], body["policy"], InputRates(0.0)
        self._wait_s = body["parameters"].get("wait_s", 0)

    def _scale(self, body: Mapping[str, Any]) -> None:
        if self._pending() is not None:
            raise ServiceRefused("/scale of the policy service answered 409: an event is pending")
        refused = self.faults.get("refused", "") or self._dies_deciding()
        release = tuple(self._machines[-body["leave"] :]) if body["leave"] else ()
        request = ScaleRequest(body["event_id"], self.clock.now(), self.faults.get("release", release), refused)
        self._requests.append(request)
        if not refused:
            staying = set(self._machines) - set(request.release)
            self._stand_still(request.t + APPLY_S, request.t + self._wait_s + RESTART_S, staying)

    def _change_rounds(self, body: Mapping[str, Any]) -> None:
        """With the fault `acts` the policy moves something in each round, and nothing stands still for it."""
        self._ask()
        self._hold.change(self.clock.now(), body, acts=self._acts())

    def _end_machine_request(self, body: Mapping[str, Any]) -> None:
        if self._is_anew():
            raise ServiceRefused("/machines of the policy service answered 409: no request is under way")
        self._ask()
        try:
            self._hold.requests.end(body, self.clock.now())
        except RequestRefusal as refused:
            raise ServiceRefused(f"/machines of the policy service answered {refused.status}: {refused}") from refused
        self._flows_from(self.clock.now() + RESTART_S)

    def _ask(self) -> None:
        """The fault `asks`: what the policy asks for in a hold."""
        self._hold.ask(self.faults.get("asks", ()), self.clock.now(), self._listed())

    def _acts(self) -> bool:
        return bool(self.faults.get("acts"))

    def _is_ready(self, status: RequestStatus) -> bool:
        """Tasks are moved before machines leave."""
        return status.request.kind == "acquire" or self.clock.now() >= status.t + APPLY_S

    def _change_rates(self, body: Mapping[str, Any]) -> None:
        if "changes" in body and (wrong := wrong_changes(body, self.clock.now())):
            raise ServiceRefused(f"/input_rate of the policy service answered 400: {wrong}")
        self._input_rates.take(body, self.clock.now())

    def state(self) -> ServiceState:
        self._raise_fault("state")
        since_s = self._since_submission()
        if since_s >= self.faults.get("unreachable_after_s", NEVER):
            raise ServiceUnreachable("the policy service at http://fake does not answer")
        topologies = tuple(map(self._status, self._submitted))
        self._ask()
        requests = self._hold.requests.json(self._is_ready)
        pending, failed = self._pending(), since_s >= self.faults.get("policy_fails_after_s", NEVER)
        return ServiceState(
            run_id="" if self._is_anew() else self._run_id,
            t=self.clock.now(),
            policy=self._policy,
            machines=self._listed(),
            samples_age_s=self._samples_age_s(),
            workers_reporting=len(self._submitted),
            tasks_placed=sum(each.tasks_placed for each in topologies if each.running),
            tasks_total=sum(each.tasks_total for each in topologies if each.running),
            pending_event=pending,
            decisions=self._decisions(),
            policy_error="ZeroDivisionError: division by zero" if failed else None,
            waiting_for=self.faults.get("held") if pending else None,
            input_rate_factor=self._input_rates.factor(EVERYWHERE, self.clock.now()),
            nimbus_age_s=max(1.0, since_s - self.faults.get("nimbus_silent_after_s", NEVER)),
            worker_restarts=tuple(restart for restart in self._restarts() if restart.t <= self.clock.now()),
            lost_tasks=self._lost_tasks(since_s),
            window_fault="m1:6700 has not reported yet" if since_s < self.faults.get("no_window_until_s", 0) else "",
            topologies=topologies,
            machine_requests=tuple(map(policy_request, requests)),
            policy_hang={"run_id": self._run_id, "why": "its decide hung"} if self._has_hung() else None,
        )

    def _has_hung(self) -> bool:
        return self._is_over("policy_hangs_after_s")

    def _is_anew(self) -> bool:
        return self._has_hung() or self._is_over("service_restarts_after_s")

    def _is_over(self, fault: str) -> bool:
        """Whether a time after the submission, that a fault names, is over."""
        return self._since_submission() >= float(self.faults.get(fault, NEVER))

    def _status(self, topology: str) -> TopologyStatus:
        placed = 0 if topology in self.faults.get("unplaced", ()) else self.faults.get("placed", 2)
        running, among = topology not in self._killed, self._placed_among
        counts = self._series(topology)
        return TopologyStatus(topology, counts, running=running, tasks_placed=placed, tasks_total=2, placed_among=among)

    def _restarts(self) -> Iterable[WorkerRestart]:
        """`restarts`, `restarts_after_scale`: (seconds after submission or request, slot, spouts' tasks)."""
        for after_s, slot, spouts in self.faults.get("restarts", ()):
            yield WorkerRestart(min(self._submitted.values(), default=0.0) + after_s, slot, spouts)
        for after_s, slot, spouts in self.faults.get("restarts_after_scale", ()) if self._requests else ():
            yield WorkerRestart(self._requests[0].t + after_s, slot, spouts)

    def _lost_tasks(self, since_s: float) -> tuple[LostTasks, ...]:
        """The fault `lost_after_s` happens once, in one run."""
        if since_s < self.faults.get("lost_after_s", NEVER):
            return ()
        del self.faults["lost_after_s"]
        return (LostTasks(self.clock.now(), 2, ("m2",)),)

    def _note_call(self, name: str, **arguments: Any) -> None:
        self.calls.append(name)
        self.arguments[name] = arguments
        self._raise_fault(name)

    def _raise_fault(self, name: str) -> None:
        """A fault named like the call is a list of what its next calls raise, None for nothing."""
        errors = self.faults.get(name)
        if errors and (error := errors.pop(0)) is not None:
            raise error

    def _since_submission(self) -> float:
        """Of the first topology; -1 before that."""
        return self.clock.now() - min(self._submitted.values()) if self._submitted else -1.0

    def _listed(self) -> tuple[str, ...]:
        """Nimbus gives a machine up some time after it died. The fault `missed`: whom, from and until when (s)."""
        now, since_s = self.clock.now(), self._since_submission()
        dead = self.faults.get("dead", ()) if since_s >= self.faults.get("dies_after_s", 0) else ()
        name, from_s, until_s = self.faults.get("missed", ("", NEVER, NEVER))
        dead = (*dead, name) if from_s <= since_s < until_s else dead
        noticed = {name for name, since_s in self._down.items() if now >= since_s + NOTICE_S}
        return tuple(name for name in self._machines if name not in noticed and name not in dead)

    def _samples_age_s(self) -> float:
        """Of the oldest worker: one on a machine that is down is silent until its tasks have another place."""
        now = self.clock.now()
        silent_s = max(0.0, self._since_submission() - float(self.faults.get("silent_after_s", NEVER)))
        waiting = [now - since_s for since_s in self._down.values() if now < since_s + NOTICE_S]
        lost_s = now - self._disturbed["sample_loss"] if "sample_loss" in self._disturbed else 0.0
        if now < self._heard_again_s:
            lost_s = now - self._heard_again_s + POSTING_S + self._lost_for_s
        return 0.8 + max([silent_s, lost_s, *waiting])

    def _pending(self) -> str | None:
        if not self._requests:
            return None
        newest = self._requests[-1]
        stuck = self.faults.get("never_decides") or self.faults.get("held")
        return newest.event_id if stuck or self.clock.now() < newest.t + DECIDE_S else None

    def _decisions(self) -> tuple[ServiceDecision, ...]:
        answered = self._requests[: -1 if self._pending() else None]
        own = self._hold.decided(self.clock.now(), acts=self._acts())
        asked = (self._decision(number, request) for number, request in enumerate(answered, start=1))
        return (*asked, *map(self._own_decision, own))

    def _own_decision(self, t: float) -> ServiceDecision:
        applied_s = t + APPLY_S if self.clock.now() >= t + APPLY_S else None
        applied = applied_s is not None
        return ServiceDecision(f"own-{t:.0f}", t, None, "moves on", applied, applied_s, "", slots=(), own=True)

    def _decision(self, number: int, request: ScaleRequest) -> ServiceDecision:
        apply_s = request.t + self._wait_s + APPLY_S
        done_s = apply_s if self.clock.now() >= apply_s else None
        expired = done_s is not None and bool(self.faults.get("unanswered"))
        applied = done_s is not None and not request.refused and not expired
        reason, slots = self.faults.get("reason", "dealt again"), self.faults.get("slots")
        return ServiceDecision(
            f"d{number}", request.t + DECIDE_S, request.event_id, reason, applied, done_s, request.refused,
            request.release, expired, slots=slots,
        )  # fmt: skip

    def _dies_deciding(self) -> str:
        """The fault is a list: who dies while the next request is decided, None for nobody."""
        dying = self.faults.get("dies_deciding")
        if not dying or (name := dying.pop(0)) is None:
            return ""
        self.faults["dead"] = (*self.faults.get("dead", ()), name)
        return f"slot {name}:6700 is lost"

    def _seconds(self, topology: str) -> range:
        """In which its worker has counted."""
        if topology in self.faults.get("unplaced", ()):
            return range(0)
        end_s = self._killed.get(topology, self.clock.now() - WITHHELD_S)
        return range(int(self._submitted[topology]) + 1, int(end_s))

    def _port(self, topology: str) -> int:
        return 6700 + self.topologies.index(topology)

    def _series(self, topology: str) -> TupleCounts:
        seconds = tuple(self._seconds(topology))
        rates = tuple(self._rate(topology, t) for t in seconds)
        return TupleCounts(seconds, rates, rates, rates)

    def _flows_from(self, t: float, machines: set[str] | None = None) -> None:
        """From `t` on these machines work (those of the cluster that are up), unless something happens again."""
        working = set(self._machines) if machines is None else machines
        self._rates = [step for step in self._rates if step[0] < t]
        self._rates.append((t, RATE_OF_A_MACHINE * len(working - set(self._down))))

    def _stand_still(self, from_s: float, until_s: float, machines: set[str] | None = None) -> None:
        self._rates.append((from_s, 0.0))
        self._flows_from(until_s, machines)

    def _rate(self, topology: str, t: int) -> float:
        if self.faults.get("no_tuples") or (self.faults.get("unsteady") and t // 20 % 2):
            return 0.0
        factor = self._input_rates.factor((topology, "spout_1"), t)
        return factor * next((rate for since_s, rate in reversed(self._rates) if t >= since_s), 0.0)

    def _collect_master(self, folder: Path) -> None:
        """A round for each submission."""
        ports = [(name, self._port(name)) for name in self._submitted]
        rounds = (
            decision_line(begin_s, self._run_id, self._policy, dict(ports[:number]), self.starting)
            for number, begin_s in enumerate(self._submitted.values(), start=1)
        )
        write_lines(folder / "decisions.jsonl", rounds)
        now, reasons = self.clock.now(), self.faults.get("fallback", ())
        write_lines(folder / "bridge.jsonl", ({"t": now, "kind": "fallback", "reason": why} for why in reasons))
        with (folder / "bridge.jsonl").open("a", encoding="utf-8") as bridge:
            bridge.write(self.faults.get("damaged_bridge_line", ""))
