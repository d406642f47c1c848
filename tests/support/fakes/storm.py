"""A cluster that exists in memory: the whole flow without machines, in no time. Passes for Cluster and ServiceClient.

The policy service is the real one in process, Nimbus and the bridge in front of it are `scheduler_plugins.driver`'s.
Fake are the machines, what runs on them, and the policy, whichever the run names: what it answers is set by name, as
all faults are. Each topology is a spout and a sink at a steady rate, in proportion to the machines and to the input
rate; none slows another. Its files are as the contracts have them.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from analysis.record import worker_files
from barograph.errors import RunBroken
from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import Disturbance, RunningWorker
from barograph.plan.topologies import TopologyChoice
from barograph.policy_service import ServiceUnreachable
from barograph.run.cluster import ClusterFacts, Collection, MachineSupply
from barograph.run.simulation import InProcessService, SimulatedClock
from playbooks.clock import ClockOffset
from playbooks.cluster import NO_SAMPLES
from scheduler_plugins.driver.cluster import Supervisor, worker_changes
from scheduler_plugins.driver.nimbus import Nimbus, NimbusSettings, StormRefusal
from scheduler_plugins.driver.rounds import Rounds, ServiceFailed, ServiceInProcess
from scheduler_plugins.model import Slot
from scheduler_plugins.service.messages import Answer, Request
from scheduler_plugins.service.policy_call import Outcome, PolicyFailure, Round
from scheduler_plugins.service.run_snapshot import RunSnapshot
from scheduler_plugins.service.state import ServiceState
from tests.support.fakes.policy import NEVER, FakePolicy
from tests.support.fakes.records import SINK, fake_topology, machine_line, restart_line, worker_line, write_lines

RATE_OF_A_MACHINE = 50.0  # tuples/s
FIRST_PORT = 6700
ROUND_S = 2.0
RESTART_S, LEAVE_S, BOOT_S = 5.0, 3.0, 40.0
LOST_S = 30.0  # until Nimbus places the tasks of a machine elsewhere, which it has no more
CLIENT_METHODS = {"/rounds": "decide_every", "/machines": "end_machine_request"}  # others are called like their paths


@dataclass
class FakeStorm(InProcessService):
    """`faults`: name → value, such as {"dead": ("m2",)}; what each does is where it is read."""

    clock: SimulatedClock
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

    def __post_init__(self) -> None:
        super().__init__(lambda: self.service)
        self._folder = Path(tempfile.mkdtemp(prefix="barograph-fake-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._begin()

    def _begin(self) -> None:
        """Nothing runs, nobody knows of anything."""
        self._t = self.clock.now()  # so far the cluster's time has passed
        limits = NimbusSettings(ROUND_S, session_s=0.0, task_timeout_s=LOST_S, task_launch_s=0.0)
        self.nimbus = Nimbus(limits, self._t)
        self.bridge = self.nimbus.scheduler = Rounds(self, self._rebalance, self.nimbus.clock)
        self._serve()
        self.service.log_path.unlink(missing_ok=True)
        self._machines = list(self.starting)
        self._registered: set[str] = set()
        self._unknown: tuple[Sequence[str], float] = ((), 0.0)  # to Nimbus, until when
        self._down: set[str] = set()  # crashed machines, and those off the LAN
        self._mute: set[str] = set()  # machines whose samples are lost
        self._submitted: dict[str, float] = {}  # topology → since when
        self._rates: list[tuple[float, float]] = []  # from when on, tuples/s
        self._pids = count(4000)
        self._workers: dict[tuple[str, Slot], tuple[int, str]] = {}  # topology's id and slot → process, its file
        self._files: set[str] = set()  # of all processes that have begun
        self._lines: dict[str, list[dict[str, Any]]] = {}  # by file
        self._scaled_s = NEVER  # when the first scale request came
        ports = {name: FIRST_PORT + number for number, name in enumerate(self.topologies)}
        self.policy = FakePolicy(self.faults, ports)

    def _serve(self, hang: Mapping[str, str] | None = None) -> None:
        """A policy service begins; `hang`: of the one before."""
        self.service = ServiceState(self._folder, lambda: self._t, is_simulated=True, policy_hang=hang)
        self._anew = hang is not None

    # As Cluster

    def deploy(self) -> None:
        self._note_call("deploy")

    def reset(self, run: PlannedRun) -> None:
        code = run.variant.code
        self._note_call("reset", run_id=run.run_id, code=code.commit if code else None)
        if code is not None and code.commit in self.faults.get("broken_code", ()):
            raise RunBroken(f"{code.label}: Nimbus does not start with the code of this run")
        assert not self.returned & set(self.starting), "a run on machines that the testbed has back"
        self._begin()

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        self._note_call("submit", run_id=run.run_id, topology=topology.name)
        assert topology.name in self.topologies and topology.name not in self._submitted, topology.name
        if unknown := self.faults.pop("unknown_at_submission", ()):
            self._unknown = (unknown, self._t + 1.5 * ROUND_S)
        self._submitted[topology.name] = self._t
        self.nimbus.submit(fake_topology(topology.name))
        if len(self._submitted) == 1:
            self._flows_from(self._t)
        self._round()

    def kill(self, topology: str) -> None:
        self._note_call("kill", topology=topology)
        self.nimbus.kill(topology, wait_s=0.0)
        self._catch_up()
        self._round()

    def join(self, machines: Sequence[str]) -> None:
        self._note_call("join", machines=tuple(machines))
        there = self._booted if self.joining == "booted" else set(self.workers)
        assert set(machines) <= there | set(self.starting), f"{machines} were not booted"
        assert not set(machines) & set(self._machines), f"{machines} are in the cluster already"
        if not self.faults.get("never_registers"):
            self._machines.extend(machines)
            self._round()

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
        self._machines = [name for name in self._machines if name not in machines]
        self.clock.sleep(LEAVE_S)

    def give_back(self, machines: Sequence[str]) -> bool:
        self._note_call("give_back", machines=tuple(machines))
        if self.testbed is not None:
            self.testbed.give_back(machines)
        self.returned.update(machines)
        self._booted.difference_update(machines)
        return True

    def crash(self, machine: str) -> None:
        self._note_call("crash", machine=machine)
        self._go_down([machine])

    def restart(self, machine: str) -> None:
        self._note_call("restart", machine=machine)
        self._down.remove(machine)
        self._start_workers_on(machine)
        self._flows_from(self._t + RESTART_S)
        self._round()

    def disturb(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """Nothing comes from machines off the LAN, and no sample where these are lost; other kinds slow nobody."""
        self._note_call("disturb", machines=tuple(machines), disturbance=disturbance)
        if disturbance.kind == "sample_loss":
            self._mute.update(machines)
        if disturbance.kind == "lan_cut":
            self._go_down(machines)

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        self._note_call("end_disturbance", machines=tuple(machines), disturbance=disturbance)
        if disturbance.kind == "sample_loss":
            self._mute.difference_update(machines)
        if disturbance.kind == "lan_cut" and self._down.intersection(machines):
            self._down.difference_update(machines)
            self._flows_from(self._t + RESTART_S)
            self._round()

    @contextmanager
    def worker_on(self, machine: str) -> Iterator[RunningWorker]:
        self._note_call("worker_on", machine=machine)

        def kill() -> None:
            self._note_call("kill_worker", machine=machine)
            self._start_workers_on(machine)
            self._stand_still(self._t, self._t + RESTART_S)

        yield RunningWorker(f"{machine}:{FIRST_PORT}", kill)

    def stop(self) -> None:
        self._note_call("stop")
        for topology_id in self.nimbus.topology_ids():
            self.nimbus.kill(self.nimbus.topology(topology_id).name, wait_s=0.0)

    def collect(self, folder: Path, machines: Sequence[str]) -> Collection:
        self._note_call("collect", machines=tuple(machines))
        absent = set() if self.joining == "ready" else set(self.workers) - set(self.starting) - self._booted
        unreachable = (set(machines) & (self.returned | self._down | absent)) - {"master"}
        assert not unreachable, f"files of {unreachable}, which cannot be reached"
        if not self._submitted:
            return Collection((NO_SAMPLES,))
        measured = range(int(min(self._submitted.values())) + 1, int(self._t))
        for name in set(machines) - {"master"}:
            write_lines(folder / "machines" / f"{name}.jsonl", [machine_line(name, t) for t in measured])
        for file, lines in self._lines.items():
            if lines[0]["machine"] in machines:
                worker_files.write(folder / "workers" / file, lines)
        if "master" in machines:
            if self.service.log_path.exists():
                shutil.copyfile(self.service.log_path, folder / "decisions.jsonl")
            fallbacks = [{"t": self._t, "kind": "fallback", "reason": why} for why in self.faults.get("fallback", ())]
            write_lines(folder / "bridge.jsonl", [*self.bridge.events, *fallbacks])
            with (folder / "bridge.jsonl").open("a", encoding="utf-8") as bridge:
                bridge.write(self.faults.get("damaged_bridge_line", ""))
        missing = () if (folder / "workers").exists() else (NO_SAMPLES,)
        return Collection((*missing, *self.faults.get("missing", ())))

    def clock_offsets_ms(self, machines: Sequence[str], now: Callable[[], float]) -> Mapping[str, ClockOffset | None]:
        """The fault `clock_offset_ms` is by machine; `clock_step_ms` too, from `clock_step_after_s` on, and
        `clock_unknown_after_s`, since when a clock cannot be asked. `clock_error_ms` is everybody's.

        The machines' clocks are right by this cluster's own, and `now` may have been shifted to them.
        """
        self._catch_up()
        ahead_ms = (now() - self.clock.unshifted()) * 1000
        steps = self.faults.get("clock_step_ms", {}) if self._is_over("clock_step_after_s", 0.0) else {}
        offsets, unknown = self.faults.get("clock_offset_ms", {}), self.faults.get("clock_unknown_after_s", {})
        found: dict[str, ClockOffset | None] = {}
        for name in machines:
            ms, is_unknown = offsets.get(name, 0.0), self._since_submission() >= unknown.get(name, NEVER)
            error_ms = self.faults.get("clock_error_ms", 0.0)
            found[name] = None
            if ms is not None and not is_unknown:
                found[name] = ClockOffset(ms + steps.get(name, 0.0) - ahead_ms, error_ms)
        return found

    def silent_machines(self) -> tuple[str, ...]:
        gone = () if self.joining == "booted" else sorted(self.returned)
        return (*self.faults.get("dead", ()), *sorted(self._down), *gone)

    def machine_faults(self, since_s: float, reporting: int | None) -> Mapping[str, str]:  # noqa: ARG002 - the contract's
        return dict(self.faults.get("machines", {}))

    def recalled(self) -> tuple[str, ...]:
        """The fault `recalled` is a name, `recalled_after_s` since when (s after the submission)."""
        self._catch_up()
        if "recalled" in self.faults and self._is_over("recalled_after_s", 0.0):
            return (str(self.faults["recalled"]),)
        return self.testbed.recalled() if self.testbed else ()

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

    # As ServiceClient: what is asked of the real service, and faults laid over its state

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        self._catch_up()
        if body is not None:
            name = CLIENT_METHODS.get(path, path[1:])
            self._note_call("input_rate_changes" if "changes" in body else name, **body)
        answer = super().call(path, body)
        if path == "/configure" and body is not None:
            self.policy.wait_s = body["parameters"].get("wait_s", 0)
        if path == "/scale":
            self._scaled_s = min(self._scaled_s, self._t)
        if path == "/rounds" and body is not None and body["decide_every_s"] is not None:
            self.policy.hold_s = self._t
        if path == "/machines":
            self._flows_from(self._t + RESTART_S)
        return answer

    def state(self) -> RunSnapshot:
        """`release`, `slots`: of decisions for an event. `silent_after_s`: of samples that come all the same."""
        self._raise_fault("state")
        state, since_s, faults = super().state(), self._since_submission(), self.faults
        if self._is_over("unreachable_after_s"):
            raise ServiceUnreachable("the policy service at http://fake does not answer")
        said = {name: faults[name] for name in ("release", "slots") if name in faults}
        decisions = tuple(each if each.own else replace(each, **said) for each in state.decisions)
        if state.samples_age_s is not None and self._is_over("silent_after_s"):
            state = replace(state, samples_age_s=state.samples_age_s + since_s - faults["silent_after_s"])
        if "placed" in faults and state.topologies:
            state = replace(state, tasks_placed=faults["placed"])
        if since_s < faults.get("no_window_until_s", 0):
            state = replace(state, window_fault="m1:6700 has not reported yet")
        return replace(state, decisions=decisions)

    def _note_call(self, name: str, **arguments: Any) -> None:
        self._catch_up()
        self.calls.append(name)
        self.arguments[name] = arguments
        self._raise_fault(name)

    def _raise_fault(self, name: str) -> None:
        """A fault named like the call is a list of what its next calls raise, None for nothing."""
        errors = self.faults.get(name)
        if errors and (error := errors.pop(0)) is not None:
            raise error

    # Between the bridge and the service, and between the bridge and Nimbus

    def schedule(self, request: Request) -> Answer:
        def decide(round: Round) -> Outcome:
            if self._is_over("policy_fails_after_s"):
                return PolicyFailure("ZeroDivisionError: division by zero")
            return self.policy.decide(round.observation, round.memory)

        return ServiceInProcess(self.service, decide).schedule(request)

    def applied(self, report: Mapping[str, Any]) -> object:
        """With the fault `unanswered` the service never hears it. For an event everything stands still for a while, but
        machines that may leave."""
        if self.faults.get("unanswered"):
            raise ServiceFailed("applied: no answer")
        decided = self.service.decisions.find(report["decision_id"])
        if report["ok"] and decided is not None and decided.event is not None:
            self._stand_still(self._t, self._t + RESTART_S, set(self._machines) - set(decided.decision.release))
        return ServiceInProcess(self.service).applied(report)

    def _rebalance(self, name: str, executors: Mapping[str, int], wait_s: int) -> None:
        """The fault `refused`: in whose words Nimbus refuses it."""
        if refused := self.faults.get("refused"):
            raise StormRefusal(str(refused))
        self.nimbus.rebalance(name, executors, wait_s)

    # Storm's world

    def _catch_up(self) -> None:
        """Let the cluster's time pass until now."""
        until = max(self._t, self.clock.now())
        while True:
            second, is_silent = math.floor(self._t) + 1, self._is_over("nimbus_silent_after_s")
            self._t = min(until, second, max(self._t, NEVER if is_silent else self.nimbus.next_s))
            self._register()
            if not self._anew and self._is_over("policy_hangs_after_s"):
                self._serve({"run_id": self.service.run_id, "why": "its decide hung"})
            elif not self._anew and self._is_over("service_restarts_after_s"):
                self._serve()
                self._anew = True
            if not self._is_over("nimbus_silent_after_s"):
                for change in self.nimbus.advance(self._t):
                    workers = worker_changes(change.before, change.after)
                    for slot in workers.stopped:
                        del self._workers[change.topology_id, slot]
                    for slot in (*workers.started, *workers.restarted):
                        self._start_worker(change.topology_id, slot)
            if self._t == second:
                for name in self._submitted:
                    if fake_topology(name).topology_id in self.nimbus.topology_ids():
                        self._write_lines(name, second)
                self._raise_events(second)
            if self._t >= until:
                return

    def _round(self) -> None:
        """Now, so that Nimbus and the policy service know at once what has changed."""
        self._register()
        self.nimbus.round()

    def _register(self) -> None:
        listed = set(self._listed())
        ports = tuple(range(FIRST_PORT, FIRST_PORT + 2 * len(self.topologies)))
        for name in sorted(listed - self._registered):
            self.nimbus.machine_up(Supervisor(name, name.rjust(8, "0"), ports))  # m2 is before m10
        for name in self._registered - listed:
            self.nimbus.machine_down(name)
        self._registered = listed

    def _raise_events(self, t: int) -> None:
        """`restarts`, `restarts_after_scale`: (seconds after submission or request, slot, spouts' tasks).
        `lost_after_s` happens once, in one run. `forgotten_after_s`: Nimbus has the first topology no more.
        `nimbus_restarts_after_scale_s`: another one takes over."""
        begin_s, first = min(self._submitted.values(), default=NEVER), next(iter(self._submitted), "")
        for name, zero_s in (("restarts", begin_s), ("restarts_after_scale", self._scaled_s)):
            for after_s, slot, spouts in self.faults.get(name, ()):
                if t - 1 < zero_s + after_s <= t:
                    topology_id, pid = fake_topology(first).topology_id, next(self._pids)
                    self.service.take_samples([restart_line(t, Slot.parse(slot), pid, topology_id, spouts)])
        if self._is_over("lost_after_s"):
            del self.faults["lost_after_s"]
            self.nimbus.lose_executors(fake_topology(first).topology_id, [(SINK, SINK)])
        if self._is_over("forgotten_after_s") and fake_topology(first).topology_id in self.nimbus.topology_ids():
            self.nimbus.kill(first, wait_s=0.0)
        if t - 1 < self._scaled_s + self.faults.get("nimbus_restarts_after_scale_s", NEVER) <= t:
            self.bridge = self.bridge.successor()
            self.nimbus.restart(self.bridge)

    def _start_workers_on(self, machine: str) -> None:
        for topology_id, slot in list(self._workers):
            if slot.machine == machine:
                self._start_worker(topology_id, slot)

    def _start_worker(self, topology_id: str, slot: Slot) -> None:
        """Its file is named by when it begins; a millisecond later where there is such a file."""
        since_ms = int(1000 * self._t)
        while (file := f"{slot.machine}-{slot.port}-{since_ms}{worker_files.SUFFIX}") in self._files:
            since_ms += 1
        self._files.add(file)
        self._workers[topology_id, slot] = (next(self._pids), file)

    def _write_lines(self, topology: str, t: int) -> None:
        """Of each of its workers; nothing comes out while a task has no place, or has a machine that is down."""
        topology_id = fake_topology(topology).topology_id
        places = {first: slot for (first, _), slot in self.nimbus.assignment(topology_id).items()}
        dead = {*self._down, *self._dead()}
        works = len(places) == SINK and not dead & {slot.machine for slot in places.values()}
        works = works and self.nimbus.status(topology_id) == "ACTIVE"
        rate = int(self._rate(topology, t)) if works else 0
        for slot in sorted(set(places.values())):
            if slot.machine in dead:
                continue
            pid, file = self._workers[topology_id, slot]
            lines = self._lines.setdefault(file, [])
            lines.append(worker_line(len(lines), t, rate, topology_id, slot, pid, places))
            if slot.machine not in self._mute:
                self.service.take_samples(lines[-1:])

    def _go_down(self, machines: Sequence[str]) -> None:
        self._down.update(machines)
        self._stand_still(self._t, self._t + LOST_S)

    def _since_submission(self) -> float:
        """Of the first topology; -1 before that."""
        return self._t - min(self._submitted.values()) if self._submitted else -1.0

    def _is_over(self, fault: str, without: float = NEVER) -> bool:
        """Whether a time after the submission, that a fault names, is over."""
        return self._since_submission() >= float(self.faults.get(fault, without))

    def _dead(self) -> tuple[str, ...]:
        """The fault `dead` says who, `dies_after_s` when."""
        names: tuple[str, ...] = self.faults.get("dead", ())
        return names if self._is_over("dies_after_s", 0.0) else ()

    def _listed(self) -> tuple[str, ...]:
        """Whom Nimbus has. The fault `missed`: whom it has not, from and until when (s)."""
        missed, from_s, until_s = self.faults.get("missed", ("", NEVER, NEVER))
        unknown, unknown_until_s = self._unknown
        gone = {*self._dead(), *self._down}
        gone |= {missed} if from_s <= self._since_submission() < until_s else set()
        gone |= set(unknown) if self._t < unknown_until_s else set()
        return tuple(name for name in self._machines if name not in gone)

    def _flows_from(self, t: float, machines: set[str] | None = None) -> None:
        """From `t` on these machines work (those of the cluster that are up), unless something happens again."""
        working = set(self._machines) if machines is None else machines
        self._rates = [step for step in self._rates if step[0] < t]
        self._rates.append((t, RATE_OF_A_MACHINE * len(working - self._down)))

    def _stand_still(self, from_s: float, until_s: float, machines: set[str] | None = None) -> None:
        self._rates.append((from_s, 0.0))
        self._flows_from(until_s, machines)

    def _rate(self, topology: str, t: int) -> float:
        """Tuples due in the second before `t`."""
        if self.faults.get("no_tuples") or (self.faults.get("unsteady") and t // 20 % 2):
            return 0.0
        factor = self.service.due_seconds(topology, "spout_1", t - 1, t)
        return factor * next((rate for since_s, rate in reversed(self._rates) if t >= since_s), 0.0)
