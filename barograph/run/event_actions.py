"""Actions of a run for the events of its plan (`RunActions` in `barograph.plan.events.kind`), on its cluster and its
policy service: machines join, leave, crash and boot, the policy scales, the input rate changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.record.files import SeriesPaths
from barograph.errors import ExperimentError, MachineLost, NoFreshSamples, OutcomeUnknown, RunBroken
from barograph.plan.events.courses import Course, sha256_of
from barograph.plan.events.kind import (
    APPLY_S,
    DRAIN_S,
    EVENT_LINE,
    FAILOVER_S,
    FRESH_SAMPLES_S,
    OUTCOME_S,
    SCALE_ATTEMPTS,
    Disturbance,
    EventTimes,
    RunningWorker,
)
from barograph.policy_service import ScaleOutcome, absent_machines, first_tuple_s, recovery_obstacle, scale_outcome
from barograph.run import machine_changes
from barograph.run.context import RunContext
from barograph.run.machine_changes import wait_in_time, wait_until_registered
from barograph.run.monitor import FAILOVER_PATIENCE, RESTART_PATIENCE, stale_samples
from scheduler_plugins.service.run_snapshot import RunSnapshot
from scheduler_plugins.service.samples import limit_for


@dataclass(frozen=True)
class EventActions:
    """The actions for the event at one place of the plan."""

    run: RunContext
    place: int

    @property
    def event_id(self) -> str:
        return f"e{self.place + 1}"

    @property
    def joining(self) -> tuple[str, ...]:
        return self.run.context.experiment.joining(self.place)

    def now(self) -> float:
        return self.run.now()

    @contextmanager
    def phase(self, name: str, expected_s: float = 0.0, planned_s: float = 0.0) -> Iterator[object]:
        with self.run.record.phase(name, expected_s) as entry:
            entry["planned_s"] = planned_s
            yield entry

    @contextmanager
    def zero(self, line: str = EVENT_LINE, *, at_s: float | None = None, **facts: Any) -> Iterator[float]:
        zero_s = self.run.mark_zero(at_s)
        yield zero_s
        if line == EVENT_LINE:
            event = self.run.context.experiment.events[self.place]
            facts = {"event": event.kind, "label": event.words(), **facts}
        self.run.record.event(line, t=zero_s, event_id=self.event_id, **facts)

    def note(self, line: str, **facts: Any) -> None:
        self.run.record.event(line, event_id=self.event_id, **facts)

    def wait_until(self, t: float) -> None:
        def due(_state: RunSnapshot) -> bool | None:
            return self.run.now() >= t or None

        machines = self.run.machines
        patience = FAILOVER_PATIENCE if machines.down or machines.disturbed else RESTART_PATIENCE
        machine_changes.wait_for(self.run, due, patience)

    def require_present(self, machine: str) -> None:
        names = self.run.machines.present
        if machine not in names:
            raise ExperimentError(
                f"events.{self.place} names {machine}, but the policy had let it leave; there are {', '.join(names)}:"
                " name another one, or let this happen before the scale_in"
            )

    def add_machines(self, machines: Sequence[str]) -> None:
        run = self.run
        if not run.machines.later.isdisjoint(machines):
            # Before the request, whose zero it does not move: the duration of a boot says nothing about a policy.
            with run.record.phase("boot", expected_s=90):
                machine_changes.boot(run, machines)
        with run.record.phase("join", expected_s=5):
            machine_changes.join(run, machines)

    def scale(self, kind: str, joined: Sequence[str] = (), leave: int = 0) -> tuple[EventTimes, tuple[str, ...]]:
        """Scale; an answer that was lost with its machines is aborted and requested again.

        For a scheduler that places in the policy's place the join itself is the request, unless it waits for a
        rebalance: then that is the zero.
        """
        run = self.run
        with run.record.phase("scale", expected_s=20), _without_hold(run):
            for attempt in range(1, SCALE_ATTEMPTS + 1):
                name = self.event_id if attempt == 1 else f"{self.event_id}.{attempt}"
                _wait_until_decidable(run, again=attempt > 1)
                since_s = run.monitor.state.machines_since if run.monitor.state else {}
                known_s = [run.on_our_clock(since_s[machine]) for machine in joined if machine in since_s]
                by_itself = run.policy_entry().is_host and not run.plan.variant.parameters.get("rebalance")
                zero_s = run.mark_zero(min(known_s) if by_itself and known_s else None)
                run.context.service.scale(name, kind, joined, leave)
                facts = {"event": kind, "joined": list(joined), "leave": leave}
                run.record.event("scale_requested", t=zero_s, event_id=name, **facts)
                outcome = _wait_until_applied(run, name)
                if outcome.failed is None:
                    break
                joined = _abort(run, name, outcome, joined, leave)
            else:
                raise MachineLost(
                    f"scale event {self.event_id} was aborted {SCALE_ATTEMPTS} times, each time because a machine died"
                )
        released = outcome.release
        if leave and (len(released) != leave or not set(released) <= set(run.machines.present)):
            what = f"released {', '.join(released)}" if released else "released none"
            reason, policy = outcome.reason or "no reason given", run.plan.variant.policy
            raise RunBroken(f"policy {policy} was asked to let {leave} machines leave and {what}: {reason}")
        return EventTimes(zero_s, outcome.last_t or zero_s), outcome.release

    def decide_every(self, seconds: float | None) -> None:
        run = self.run
        if seconds is not None:
            machine_changes.close(run, "another hold begins")
        run.context.service.decide_every(seconds, run.context.experiment.machines.limits if seconds else None)
        run.decide_every_s = seconds
        if seconds is None:
            machine_changes.close(run, "the hold is over")
            _wait_until_carried_out(run)
        else:
            run.hold_id = self.event_id

    def remove_machines(self, machines: Sequence[str]) -> None:
        run = self.run
        machine_changes.drain(run, machines)
        given_back = run.last and run.context.cluster.give_back(machines)
        if given_back:
            run.machines.away.update(machines)
        run.record.event("machines_left", machines=list(machines), given_back=given_back)

    def change_rate(self, factor: float) -> None:
        self.run.courses.change(self.event_id, factor)

    def begin_course(self, course: Course, topology: str | None, source: str | None) -> float:
        zero_s = self.run.courses.begin(self.event_id, course, (topology, source))
        self.wait_until(zero_s)
        return zero_s

    def trace_file(self, sha256: str) -> Path:
        path = SeriesPaths(self.run.record.folder.parents[1]).trace(sha256)
        if not path.is_file() or sha256_of(path) != sha256:
            reason = "has changed" if path.is_file() else "is missing"
            raise ExperimentError(f"{path} {reason}; it is the trace of this series: begin anew with --new")
        return path

    def crash(self, machine: str) -> None:
        self.run.machines.leave([machine])  # first: from here on it is not missed
        self.run.machines.down.add(machine)
        self.run.allow_restarts(self.now())
        self.run.context.cluster.crash(machine)

    def restart(self, machine: str) -> None:
        self.run.context.cluster.restart(machine)
        self.run.join([machine])

    def disturb(self, machines: Sequence[str], disturbance: Disturbance, *, lose: bool) -> None:
        run, names = self.run, tuple(machines)
        run.machines.disturbed.append((names, disturbance))  # first: a half begun one is ended too
        run.disturbed_s = min(run.disturbed_s, self.now())
        run.allow_restarts(self.now())
        if lose:
            run.machines.hidden |= set(names)
        run.context.cluster.disturb(names, disturbance)

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        run, names = self.run, tuple(machines)
        run.context.cluster.end_disturbance(names, disturbance)
        run.machines.disturbed.remove((names, disturbance))
        if not run.machines.disturbed:
            run.disturbed_s = math.inf
        self.note("disturbance_ended", machines=list(names))
        back = run.machines.hidden & set(names)
        if back:
            run.join(sorted(back))
            wait_until_registered(run, sorted(back))

    @contextmanager
    def worker_on(self, machine: str) -> Iterator[RunningWorker]:
        self.run.allow_restarts(self.now())
        with self.run.context.cluster.worker_on(machine) as worker:
            yield worker

    def submit(self, topology: str) -> None:
        run = self.run
        (choice,) = (each for each in run.topologies() if each.name == topology)
        run.context.cluster.submit(run.plan, choice)
        run.expected_topologies.add(topology)
        run.record.event("topology_submitted", topology=topology)

    def kill(self, topology: str) -> None:
        run = self.run
        run.expected_topologies.discard(topology)  # first: from here on it is not missed
        run.context.cluster.kill(topology)

        def gone(state: RunSnapshot) -> bool | None:
            status = state.topology(topology)
            return status is None or not status.running or None

        what = f"Nimbus went on with topology {topology}, which was killed,"
        run.monitor.wait_for(gone, limit_s=DRAIN_S, what=what, patience=RESTART_PATIENCE)
        run.record.event("topology_killed", topology=topology)

    def wait_until_running(self, topology: str, zero_s: float) -> EventTimes:
        run, limit_s = self.run, self.run.context.experiment.watched(self.place)[1]

        def begun(state: RunSnapshot) -> EventTimes | None:
            status = state.topology(topology)
            first_s = None if status is None else first_tuple_s(status.series)
            if first_s is not None:
                run.record.event("first_tuple", t=first_s, topology=topology)
                return EventTimes(zero_s, first_s)
            if run.now() - zero_s < limit_s:
                return None
            progress = "it is not known to Nimbus" if status is None else (
                f"{status.tasks_placed} of its {status.tasks_total} tasks are placed")  # fmt: skip
            return EventTimes(zero_s, None, f"no tuple of topology {topology} reached a sink; {progress}")

        return run.monitor.wait_for(begun, limit_s=None, what="", patience=RESTART_PATIENCE)

    def wait_until_recovered(self, zero_s: float, since_s: float, down: str | None = None) -> EventTimes:
        run, limit_s = self.run, self.run.context.experiment.watched(self.place)[1]

        def over(state: RunSnapshot) -> EventTimes | None:
            obstacle = recovery_obstacle(state, since_s)
            if down in state.machines:
                obstacle = f"Nimbus still counts on {down}"
            if obstacle is None:
                return EventTimes(zero_s, run.now())
            return EventTimes(zero_s, None, obstacle) if run.now() - zero_s >= limit_s else None

        return run.monitor.wait_for(over, limit_s=None, what="", patience=FAILOVER_PATIENCE)


@contextmanager
def _without_hold(run: RunContext) -> Iterator[None]:
    """Suspend the hold: a policy that goes on moving tasks has no rates to scale by."""
    every_s = run.decide_every_s
    if every_s is not None:
        run.context.service.decide_every(None)
        _wait_until_carried_out(run)
    yield
    if every_s is not None:
        run.context.service.decide_every(every_s, run.context.experiment.machines.limits)


def _wait_until_carried_out(run: RunContext) -> None:
    """Wait until none of the policy's own decisions is in progress: their restarts do not belong to the next event."""

    def done(state: RunSnapshot) -> bool | None:
        is_waiting = any(each.own and each.applied_t is None for each in state.decisions)
        return None if is_waiting or any(topology.rebalancing for topology in state.topologies) else True

    what = "what the policy decided by itself was not carried out"
    run.monitor.wait_for(done, limit_s=_outcome_s(run), what=what, patience=RESTART_PATIENCE)


def _wait_until_applied(run: RunContext, name: str) -> ScaleOutcome:
    """Wait for the outcome without a limit here: the policy service reports it, or that it is unknown."""

    def begun(state: RunSnapshot) -> bool | None:
        return scale_outcome(state, name) is not None or any(each.event_id == name for each in state.decisions) or None

    what, patience = f"scale event {name} was not decided and applied", RESTART_PATIENCE
    run.monitor.wait_for(begun, limit_s=APPLY_S, what=what, patience=patience)
    return run.monitor.wait_for(
        lambda state: scale_outcome(state, name), limit_s=_outcome_s(run), what=what, patience=patience
    )


def _outcome_s(run: RunContext) -> float:
    """Return how long the service may take to report a decision's outcome."""
    return OUTCOME_S + 2 * run.plan.variant.wait_s  # a Nimbus that restarts while waiting begins again


def _abort(run: RunContext, name: str, outcome: ScaleOutcome, joined: Sequence[str], leave: int) -> Sequence[str]:
    """Return the machines that still join. Raises MachineLost where too few are left, and where no machine died
    RunBroken, or OutcomeUnknown: Nimbus goes on, so that only its report was lost.
    """
    state, reason = run.monitor.state, outcome.failed
    losses = run.lost_machines(absent_machines(state, run.machines.expected()) if state else ())
    if not losses and outcome.expired:
        raise OutcomeUnknown(f"{reason}")
    if not losses:
        raise RunBroken(f"Storm did not apply the policy's answer: {reason}")
    run.machines.leave(losses)
    run.machines.dead.update(losses)
    run.allow_restarts(run.now() - APPLY_S)  # it died at some time during this request
    run.record.event("scale_aborted", event_id=name, reason=reason, machines=list(losses))
    survivors = tuple(machine for machine in joined if machine not in losses)
    if (joined and not survivors) or leave >= len(run.machines.present):
        raise MachineLost(f"{', '.join(losses)} died before scale event {name} was applied; too few machines are left")
    return survivors


def _wait_until_decidable(run: RunContext, *, again: bool) -> None:
    """Wait for fresh rates where the policy reads them. After an abort Storm may first place a dead machine's tasks."""
    reads_rates = run.policy_entry().reads_rates
    if not (reads_rates or again):
        return
    reason = ""

    def fresh(state: RunSnapshot) -> bool | None:
        nonlocal reason
        if reads_rates:
            reason = stale_samples(state) or ""
        else:
            reason = "" if state.all_placed() else f"{state.tasks_placed} of {state.tasks_total} tasks are placed"
        return None if reason else True

    def late() -> NoFreshSamples:
        cause = f"{reason}; the policy would have decided on another cluster, or had to wait"
        return NoFreshSamples(f"the scale request was not sent: {cause}")

    is_late = again or run.decide_every_s is not None  # in a hold a worker may just have begun
    limit_s, patience = (FAILOVER_S, FAILOVER_PATIENCE) if is_late else (FRESH_SAMPLES_S, RESTART_PATIENCE)
    sample_s = run.monitor.state.sample_s if run.monitor.state else 1
    wait_in_time(run, fresh, limit_for(sample_s, limit_s), patience, late)
