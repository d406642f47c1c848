"""The context of a run: its environment (cluster, policy service, clock, listener), restored from the machines that its
series holds, and its progress: the participating machines, the decisions on record.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barograph.errors import (
    BarographError,
    MachineLost,
    MachineRecalled,
    PolicyHung,
    RunBroken,
    ServiceRestarted,
    message_of,
)
from barograph.machines import holdings, series_lease
from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import FAILOVER_S, Disturbance
from barograph.plan.experiment import Experiment
from barograph.plan.topologies import TopologyChoice
from barograph.policy_service import ServiceClient, absent_machines
from barograph.run.cluster import Cluster
from barograph.run.monitor import LOOK_S, RESTART_PATIENCE, RunMonitor, SteadyTest, steady_test
from barograph.run.rate_courses import RateCourses
from barograph.series.progress import ProgressFile
from barograph.series.run_record import Clock, Listener, MonotonicClock, RunRecord
from barograph.series.series import Series
from barograph.settings import cluster_dir, simulated_pace
from barograph.testbeds.checks import place_of, testbed_of
from scheduler_plugins.policies import POLICIES, PolicyEntry
from scheduler_plugins.service.run_snapshot import LostTasks, RunSnapshot, WorkerRestart

if TYPE_CHECKING:
    from barograph.run.simulated_cluster import SimulatedCluster
    from barograph.run.simulation import SimulatedClock

log = logging.getLogger(__name__)
TOPOLOGY_PATIENCE_S = 10.0


@dataclass(frozen=True)
class SeriesContext:
    """The environment of a run."""

    experiment: Experiment
    cluster: Cluster
    service: ServiceClient
    clock: Clock
    listener: Listener
    is_steady: SteadyTest
    require_covered: Callable[[Sequence[str], float], None] = lambda _machines, _rest_s: None
    """Raise BudgetSpent where these machines too, in the remaining seconds, may cost more than the budget."""
    look_s: float = LOOK_S  # between two looks at the policy service's state


@dataclass
class Membership:
    """The participating machines. A machine that is `exempt` is not missed."""

    present: tuple[str, ...]
    later: set[str] = field(default_factory=set)  # they boot at their event and do not exist before
    extra: set[str] = field(default_factory=set)  # booted by this run, which gives them back
    exempt: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)  # by the plan, not restarted
    dead: set[str] = field(default_factory=set)  # by themselves; the operation that they broke was aborted
    on_record: set[str] = field(default_factory=set)  # their files are in the record
    away: set[str] = field(default_factory=set)  # returned to the testbed
    disturbed: list[tuple[tuple[str, ...], Disturbance]] = field(default_factory=list)  # not restored yet
    hidden: set[str] = field(default_factory=set)  # of these, those that Nimbus may miss
    unfit: set[str] = field(default_factory=set)  # booted for a policy, and unusable, such as for their clock

    def expected(self) -> tuple[str, ...]:
        """Return the machines that Nimbus has to know now."""
        return tuple(name for name in self.present if name not in self.hidden)

    def join(self, names: Iterable[str]) -> None:
        new = tuple(names)
        self.present = (*self.present, *(name for name in new if name not in self.present))
        for names in (self.exempt, self.down, self.on_record):  # one that left may come back with more to collect
            names.difference_update(new)

    def leave(self, names: Iterable[str]) -> None:
        old = set(names)
        self.present = tuple(name for name in self.present if name not in old)
        self.exempt |= old


@dataclass
class RunContext:
    """A run's state. `last`: no later run of this execution needs the machines that leave."""

    context: SeriesContext
    plan: PlannedRun
    record: RunRecord
    machines: Membership
    monitor: RunMonitor
    courses: RateCourses
    last: bool = False
    zero_s: float | None = None  # of the first event
    decide_every_s: float | None = None  # in a hold
    hold_id: str = ""  # the event that is the hold; its requests for machines belong to it
    closed_requests: set[str] = field(default_factory=set)  # of holds that are over
    disturbed_s: float = math.inf  # since when a machine is disturbed
    expected_topologies: set[str] = field(default_factory=set)  # submitted, and not killed by the plan
    _allowances: list[tuple[float, float]] = field(default_factory=list)  # intervals in which any worker may restart
    _decided: set[str] = field(default_factory=set)
    _applied: set[str] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)  # requests for machines, on record
    _answered: set[str] = field(default_factory=set)  # of these, those that are over
    _restarts: set[WorkerRestart] = field(default_factory=set)  # on record
    _losses: set[LostTasks] = field(default_factory=set)
    _unknown: tuple[str, ...] = ()
    _gone: dict[str, float] = field(default_factory=dict)  # of these, since when Nimbus does not have one any more
    _known: set[str] = field(default_factory=set)  # machines that Nimbus has known
    _missed: dict[str, float] = field(default_factory=dict)  # of these, when it last did not know it

    @classmethod
    def begin(cls, context: SeriesContext, plan: PlannedRun, record: RunRecord, *, last: bool) -> RunContext:
        experiment = context.experiment
        machines = Membership(experiment.starting(), later=set(experiment.workers()) - set(experiment.acquired()))

        def alarm() -> None:
            courses.raise_failure()
            # An end that was announced is the infrastructure's, not a slow scheduler's.
            if recalled := sorted(set(context.cluster.recalled()) - machines.exempt):
                record.event("machines_recalled", machines=recalled)
                raise MachineRecalled(
                    f"{', '.join(recalled)}: the owner takes it away (a spot interruption, or ended without us)"
                )

        def note(state: RunSnapshot) -> None:
            run.note(state)

        courses = RateCourses(context.service, record, context.clock)
        looks = (machines.expected, alarm, note, context.look_s)
        monitor = RunMonitor(context.service, context.clock, context.listener, *looks)
        run = cls(context, plan, record, machines, monitor, courses, last)
        return run

    def topologies(self) -> tuple[TopologyChoice, ...]:
        """Return all topologies that this run submits, in the file's order."""
        return self.context.experiment.topologies_of(self.plan.variant)

    def policy_entry(self) -> PolicyEntry:
        """Return the run's policy; one that only the variant's own commit has is treated as one that reads rates."""
        return POLICIES.get(self.plan.variant.policy, POLICIES["stela"])

    def now(self) -> float:
        return self.context.clock.now()

    def mark_zero(self, at_s: float | None = None) -> float:
        """Set the zero of an event: now by default."""
        now = self.now() if at_s is None else at_s
        self.zero_s = now if self.zero_s is None else self.zero_s
        # For an event that did not report its end. The zero may be some time ago.
        self._end_allowances(self.now() + RESTART_PATIENCE.silence_s)
        return now

    def allow_restarts(self, begin_s: float) -> None:
        """Allow any worker to restart, because a machine is gone. Otherwise only those in a decision's slots may."""
        self._allowances.append((begin_s, math.inf))

    def end_restarts(self, begin_s: float | None) -> None:
        """End the restarts of an event that is over at `begin_s`, None: not yet. Workers may restart a while longer."""
        if begin_s is not None:
            self._end_allowances(begin_s + RESTART_PATIENCE.silence_s)

    def _end_allowances(self, end_s: float) -> None:
        self._allowances = [(begin, end_s if end == math.inf else end) for begin, end in self._allowances]

    def join(self, machines: Sequence[str]) -> None:
        """Wait for Nimbus to register these, whatever was known or missed of them before."""
        self.machines.join(machines)
        self.machines.hidden.difference_update(machines)
        self._known.difference_update(machines)
        for name in machines:
            self._missed.pop(name, None)

    def lost_machines(self, also: Iterable[str] = ()) -> tuple[str, ...]:
        """Return machines that are silent or taken away by their owner, and `also` these, unless the plan did it."""
        too_slow = {name for names, _ in self.machines.disturbed for name in names}  # to answer in time, maybe
        silent = set(self.context.cluster.silent_machines()) - too_slow
        lost = silent | {*self.context.cluster.recalled(), *also}
        return tuple(sorted(lost - self.machines.exempt))

    def faults(self) -> str:
        """Return what went wrong on the machines, and neither the plan nor the variant did; empty where nothing is
        known."""
        planned = {name for names, _ in self.machines.disturbed for name in names} | self.machines.exempt
        state, is_silent = self.monitor.state, self.monitor.symptom == "silent"
        reporting = state.workers_reporting if state is not None and is_silent else None
        try:
            faults = self.context.cluster.machine_faults(float(self.record.document["started_s"]), reporting)
        except BarographError as error:
            log.warning("run %s: what happened on the machines is unknown: %s", self.plan.run_id, message_of(error))
            return ""
        return "; ".join(f"{name}: {what}" for name, what in sorted(faults.items()) if name not in planned)

    def note(self, state: RunSnapshot) -> None:
        """Record each fact of the state once.

        Raises ServiceRestarted where the state is of another run: a restarted service knows neither this run's policy
        nor its events, and places evenly. PolicyHung where it knows that this run's policy was the reason.
        """
        hang = state.policy_hang or {}
        if hang.get("run_id") == self.plan.run_id:
            raise PolicyHung(self.plan.variant.policy, hang["why"])
        if state.run_id != self.plan.run_id:
            raise ServiceRestarted(
                f"the policy service serves run {state.run_id or 'none'} in place of {self.plan.run_id}: it was started"
                " anew; its log on the master says why it ended"
            )
        for topology in state.topologies:  # nothing else would notice a missing one
            if topology.running or topology.name not in self.expected_topologies:
                self._gone.pop(topology.name, None)
            elif self.now() - self._gone.setdefault(topology.name, self.now()) >= TOPOLOGY_PATIENCE_S:
                raise RunBroken(f"Nimbus has topology {topology.name} no more, and nobody asked for that")
        self._note_decisions(state)
        self._note_requests(state)
        is_placed = any(topology.placed_among for topology in state.topologies)
        unknown = absent_machines(state, self.machines.expected()) if is_placed else ()
        self._known.update(state.machines)
        self._missed |= dict.fromkeys(self._known.intersection(unknown), self.now())
        if unknown != self._unknown:
            self._unknown = unknown
            self.record.event("machines_unknown", machines=list(unknown))
        self._note_restarts(state)
        self._note_lost_tasks(state)

    def _note_restarts(self, state: RunSnapshot) -> None:
        """Record restarts. A spout's unexpected restart changes the load. Raises `_cause`'s error."""
        for restart in state.worker_restarts:
            if restart in self._restarts:
                continue
            self._restarts.add(restart)
            is_expected = self._is_asked(restart, state)
            facts = {"slot": restart.slot, "spouts": list(restart.spouts), "asked": is_expected}
            self.record.event("worker_restarted", t=restart.t, **facts, **self.about(restart.topology))
            if restart.spouts and not is_expected:
                message = (
                    f"the worker in {restart.slot} restarted and nobody asked for that: its spouts were gone"
                    " meanwhile, and their load was not the plan's"
                )
                recent = (each for each in state.lost_tasks if each.t >= restart.t - FAILOVER_S)
                machines = {machine for each in recent for machine in each.machines}
                raise self._cause(message, {*machines, restart.slot.partition(":")[0]}, restart.t)

    def _is_asked(self, restart: WorkerRestart, state: RunSnapshot) -> bool:
        if restart.t >= self.disturbed_s or any(begin <= restart.t <= end for begin, end in self._allowances):
            return True
        until_s = RESTART_PATIENCE.silence_s
        moves = state.moves if self.policy_entry().is_host else ()  # of the scheduler that places in its place
        moved = any(each.t <= restart.t <= each.t + until_s and restart.slot in each.slots for each in moves)
        return moved or any(each.restarts(restart.slot, restart.t, until_s) for each in state.decisions)

    def _note_lost_tasks(self, state: RunSnapshot) -> None:
        """Record lost tasks. Before the first event no task may lose its place. Raises `_cause`'s error."""
        for loss in state.lost_tasks:
            if loss in self._losses:
                continue
            self._losses.add(loss)
            facts = {"tasks": loss.tasks, "machines": list(loss.machines)}
            self.record.event("tasks_lost", t=loss.t, **facts, **self.about(loss.topology))
            if self.zero_s is None:
                message = (
                    f"{', '.join(loss.machines)}: {loss.tasks} tasks lost their place before the first event of the run"
                )
                raise self._cause(message, loss.machines, loss.t)

    def about(self, topology: str) -> Mapping[str, str]:
        """Return the topology for a line of the record: nothing where there is only one."""
        return {"topology": topology} if self.context.experiment.topologies else {}

    def _cause(self, what: str, machines: Iterable[str], t: float) -> Exception:
        """Return the machine's failure, where Nimbus missed one of them shortly before `t` (a supervisor died, say);
        else that of the processes in the workers.

        A worker that ends by itself, as one without memory does, ended under the variant's placement: that is a result.
        """
        if missed := sorted(name for name in machines if self._missed.get(name, -math.inf) >= t - FAILOVER_S):
            return MachineLost(f"{what}; Nimbus did not know {', '.join(missed)} for a while")
        return RunBroken(f"{what}; every machine is there: worker.log and the machine's memory may say why")

    def _note_decisions(self, state: RunSnapshot) -> None:
        """Record decisions since the first event, each once, with or without an event of ours behind it."""
        since_s = float("inf") if self.zero_s is None else self.zero_s
        for decision in state.decisions:
            name, ids = decision.decision_id, {"decision_id": decision.decision_id, "event_id": decision.event_id}
            by_policy = {"own": True} if decision.own else {}
            if not decision.arrived or (decision.event_id is None and self.on_our_clock(decision.t) < since_s):
                continue
            if name not in self._decided:
                self._decided.add(name)
                t = self.on_our_clock(decision.t)
                self.record.event("decision", t=t, **ids, **by_policy, reason=decision.reason)
            if name not in self._applied and decision.applied_t is not None:
                self._applied.add(name)
                t = self.on_our_clock(decision.applied_t)
                self.record.event("applied", t=t, **ids, **by_policy, ok=decision.applied)

    def _note_requests(self, state: RunSnapshot) -> None:
        """Record the policy's requests for machines, once its decision stands, and their outcome where nothing
        happened: otherwise the machines' own lines report it."""
        for each in state.machine_requests:
            ids: dict[str, object] = {"event_id": self.hold_id, "request_id": each.request_id}
            if each.request_id not in self._asked and (each.ready or each.ended_t is not None):
                self._asked.add(each.request_id)
                facts = {"request": each.kind, "number": each.number, "reason": each.reason}
                if each.kind == "release":
                    facts["machines"] = list(each.machines)
                t = self.on_our_clock(each.t)
                self.record.event("machine_request", t=t, **ids, decision_id=each.decision_id, **facts)
            if each.request_id not in self._answered and each.ended_t is not None:
                self._answered.add(each.request_id)
                if each.outcome != "done":
                    t = self.on_our_clock(each.ended_t)
                    self.record.event(f"request_{each.outcome}", t=t, **ids, reason=each.why)

    def on_our_clock(self, master_s: float) -> float:
        """Convert a time of the master's clock to the run's, which follows the median of the machines' clocks."""
        document = self.record.document
        ahead_ms: float = document.get("clock_offset_ms", {}).get("master") or 0.0
        return master_s - (ahead_ms - float(document.get("clock_correction_ms", 0.0))) / 1000


@dataclass(frozen=True)
class _MachineSupply:
    """A supply through which machines in memory come and go as a real testbed's do, so that their cost is counted."""

    series: Series

    def grow(self, names: Sequence[str]) -> object:
        return series_lease.grow(self.series, names)

    def give_back(self, names: Sequence[str]) -> object:
        return series_lease.give_back(self.series, names)

    def recalled(self) -> tuple[str, ...]:
        return series_lease.recalled(self.series)


def machine_supply(series: Series) -> _MachineSupply | None:
    return _MachineSupply(series) if series_lease.saved_lease(series.folder) else None


def simulated_context(
    series: Series, folder: Path, listener: Listener, new_cluster: Callable[..., SimulatedCluster]
) -> SeriesContext:
    """Return the context of simulated runs. `folder`: of their machines' disks. `new_cluster` gets the experiment, its
    testbed, the clock and that folder."""
    from barograph.run.simulation import SimulatedClock
    from inventory.simulated import SimulatedTestbed

    testbed = testbed_of(series.experiment.testbed)
    assert isinstance(testbed, SimulatedTestbed), "else it is not simulated"
    clock = SimulatedClock(pace=simulated_pace())
    cluster = new_cluster(series.experiment, testbed, clock, folder)
    return context_in_memory(series.experiment, cluster, clock, testbed.options.look_s, listener)


@dataclass(frozen=True)
class Silence:
    """A listener that ignores all reports."""

    def tell(self, kind: str, **facts: Any) -> None:
        pass


def context_in_memory(
    experiment: Experiment,
    cluster: SimulatedCluster,
    clock: SimulatedClock,
    look_s: float,
    listener: Listener = Silence(),
) -> SeriesContext:
    """Return the context of runs on a simulated cluster, which is its own policy service."""
    return SeriesContext(experiment, cluster, cluster, clock, listener, steady_test, look_s=look_s)


# By testbed, for machines in memory that are not the simulator's: tests add theirs.
CONTEXTS: dict[str, Callable[[Series], SeriesContext]] = {}


def context_of(series: Series) -> SeriesContext:
    """Return the cluster, service and clock of a series: in memory where its machines are, else Storm on machines."""
    choice, listener = series.experiment.testbed, ProgressFile(series.folder)
    if choice.name in CONTEXTS:
        return CONTEXTS[choice.name](series)
    if place_of(choice) == "memory":
        from barograph.run.simulated_cluster import SimulatedCluster

        lease = series_lease.saved_lease(series.folder)
        folder = cluster_dir(lease.lease_id if lease else series.series_id)
        return simulated_context(series, folder, listener, partial(SimulatedCluster, supply=machine_supply(series)))
    from barograph.policy_service import HttpService
    from barograph.run.storm_cluster import StormCluster

    storm = StormCluster.of(series)
    service = HttpService(storm.master.control_address, storm.token_file)
    covered = partial(holdings.require_covered, series)
    return SeriesContext(series.experiment, storm, service, MonotonicClock(), listener, steady_test, covered)
