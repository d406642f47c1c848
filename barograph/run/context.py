"""The context of a run: what it needs from outside (cluster, policy service, clock, listener), found again from the
machines that its series holds, and how far it is: the machines that take part, the decisions already noted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barograph.errors import MachineRecalled
from barograph.machines import series_lease
from barograph.plan.blocks import PlannedRun
from barograph.plan.experiment import Experiment
from barograph.policy_service import ServiceClient, ServiceState
from barograph.run.cluster import Cluster
from barograph.run.monitor import RunMonitor, SteadyTest, steady_test
from barograph.series.progress import ProgressFile
from barograph.series.run_record import Clock, Listener, RunRecord, WallClock
from barograph.series.series import Series


@dataclass(frozen=True)
class SeriesContext:
    """Everything a run needs from outside."""

    experiment: Experiment
    cluster: Cluster
    service: ServiceClient
    clock: Clock
    listener: Listener
    is_steady: SteadyTest


@dataclass(frozen=True)
class EventTimes:
    """An event that took place. Times are epoch seconds; what was before `begin_s` shows the event, not its outcome."""

    zero_s: float
    begin_s: float | None  # None: the topology did not get to work again in time, for `reason`
    reason: str = ""


@dataclass
class Membership:
    """Who takes part. Nobody misses a machine that is `excused`."""

    present: tuple[str, ...]
    awaited: set[str] = field(default_factory=set)  # they boot at their event; until then there is nothing of them
    booted: set[str] = field(default_factory=set)  # by this run, which gives them back
    excused: set[str] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)  # by the plan, and not restarted
    dead: set[str] = field(default_factory=set)  # by themselves; the operation that they spoiled was aborted
    collected: set[str] = field(default_factory=set)  # their files are in the record
    given_back: set[str] = field(default_factory=set)

    def come(self, names: Iterable[str]) -> None:
        new = tuple(names)
        self.present = (*self.present, *(name for name in new if name not in self.present))
        self.excused.difference_update(new)
        self.crashed.difference_update(new)

    def go(self, names: Iterable[str]) -> None:
        gone = set(names)
        self.present = tuple(name for name in self.present if name not in gone)
        self.excused |= gone

    def boot(self, names: Iterable[str]) -> None:
        new = set(names)
        self.awaited -= new
        self.booted |= new

    def crash(self, name: str) -> None:
        self.go([name])
        self.crashed.add(name)

    def die(self, names: Iterable[str]) -> None:
        dead = set(names)
        self.go(dead)
        self.dead |= dead


def raise_if_recalled(cluster: Cluster, machines: Membership, diary: RunRecord) -> None:
    """An end that was announced is the infrastructure's at once, not a scheduler that becomes slow."""
    taken = tuple(sorted(set(cluster.recalled()) - machines.excused))
    if taken:
        diary.event("machines_recalled", machines=list(taken))
        raise MachineRecalled(f"{', '.join(taken)}: the owner takes it away (a spot interruption, or ended without us)")


@dataclass
class RunContext:
    """`last`: no later run of this execution needs the machines that leave."""

    bench: SeriesContext
    run: PlannedRun
    diary: RunRecord
    machines: Membership
    look: RunMonitor
    last: bool = False
    zero_s: float | None = None  # of the first event
    _decided: set[str] = field(default_factory=set)
    _applied: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, bench: SeriesContext, run: PlannedRun, diary: RunRecord, *, last: bool) -> RunContext:
        experiment = bench.experiment
        machines = Membership(experiment.starting(), awaited=set(experiment.workers()) - set(experiment.acquired()))

        def alarm() -> None:
            raise_if_recalled(bench.cluster, machines, diary)

        look = RunMonitor(bench.service, bench.clock, bench.listener, lambda: machines.present, alarm)
        return cls(bench, run, diary, machines, look, last)

    def now(self) -> float:
        return self.bench.clock.now()

    def begins(self) -> float:
        """The zero of an event: now."""
        self.zero_s = self.now() if self.zero_s is None else self.zero_s
        return self.now()

    def lost(self, also: Iterable[str] = ()) -> tuple[str, ...]:
        """Machines that do not answer or are taken away by their owner, and `also` these, that nobody asked for."""
        silent = {*self.bench.cluster.silent_machines(), *self.bench.cluster.recalled(), *also}
        return tuple(sorted(silent - self.machines.excused))

    def note(self, state: ServiceState) -> None:
        """Decisions since the first event, each once, with or without an event of ours behind it."""
        since_s = float("inf") if self.zero_s is None else self.zero_s
        for decision in state.decisions:
            name, about = decision.decision_id, {"decision_id": decision.decision_id, "event_id": decision.event_id}
            if decision.event_id is None and decision.t < since_s:
                continue
            if name not in self._decided:
                self._decided.add(name)
                self.diary.event("decision", t=decision.t, **about, reason=decision.reason)
            if name not in self._applied and decision.applied_t is not None:
                self._applied.add(name)
                self.diary.event("applied", t=decision.applied_t, **about, ok=decision.applied)


FAKE_PACE = "BAROGRAPH_FAKE_PACE"  # real seconds for each second of the fake testbed


def context_of(series: Series) -> SeriesContext:
    """By the testbed's name: whatever is not in the dict is a testbed with real machines."""
    return CONTEXTS.get(series.experiment.testbed.name, _storm_context)(series)


def _storm_context(series: Series) -> SeriesContext:
    from barograph.policy_service import HttpService
    from barograph.run.storm_cluster import StormCluster

    cluster = StormCluster.of(series)
    service = HttpService(cluster.master.control_address, cluster.token_file)
    steady = steady_test(series.experiment.durations)
    return SeriesContext(series.experiment, cluster, service, WallClock(), ProgressFile(series.folder), steady)


@dataclass(frozen=True)
class _FakeMachineSupply:
    """The fake testbed's machines come and go as those of a real one do, so that what they cost is counted."""

    series: Series

    def grow(self, names: Sequence[str]) -> object:
        return series_lease.grow(self.series, names)

    def give_back(self, names: Sequence[str]) -> object:
        return series_lease.give_back(self.series, names)

    def recalled(self) -> tuple[str, ...]:
        return series_lease.recalled(self.series)


def _fake_context(series: Series) -> SeriesContext:
    from barograph.run.fake_cluster import FakeClock, FakeStorm

    experiment = series.experiment
    clock = FakeClock(time.time(), pace=float(os.environ.get(FAKE_PACE) or 0.0))
    storm = FakeStorm(
        clock,
        experiment.starting(),
        experiment.workers(),
        experiment.topology.name,
        experiment.testbed.joining,
        _FakeMachineSupply(series) if series_lease.saved_lease(series.folder) else None,
    )
    steady = steady_test(experiment.durations)
    return SeriesContext(experiment, storm, storm, clock, ProgressFile(series.folder), steady)


CONTEXTS: Mapping[str, Callable[[Series], SeriesContext]] = {"fake": _fake_context}
