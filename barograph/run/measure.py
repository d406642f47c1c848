"""Do one run, from a clean cluster to its record. Order and effects only: the conclusions are in `monitor`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

from barograph.errors import Interrupted, MachineLost, NoFreshSamples, PolicyHung, RunInvalid, blame_of, message_of
from barograph.plan.blocks import PlannedRun
from barograph.plan.durations import FIRST_TUPLE_S
from barograph.plan.events.kind import EventTimes
from barograph.plan.experiment import WHOLE_CLUSTER
from barograph.policy_service import absent_machines, first_tuple_s, machines_missed_by_placement
from barograph.run import clocks, machine_changes
from barograph.run.collection import collect_after_failure, fallbacks_of_run, stop_and_collect
from barograph.run.context import RunContext, SeriesContext
from barograph.run.event_actions import EventActions
from barograph.run.monitor import (
    FAILOVER_PATIENCE,
    RESTART_PATIENCE,
    Patience,
    PhaseEnd,
    PhaseOutcome,
    SteadyTest,
    outcomes,
    planned_s,
    together,
)
from barograph.series.run_record import RunRecord
from playbooks.cluster import NO_SAMPLES
from scheduler_plugins.model import SINKS
from scheduler_plugins.service.run_snapshot import RunSnapshot
from scheduler_plugins.service.samples import WINDOW_S


def measure(context: SeriesContext, plan: PlannedRun, record: RunRecord, *, last: bool) -> None:
    """Do the run. Raises the error that ended it, or RunInvalid; the record is written either way."""
    run = RunContext.begin(context, plan, record, last=last)
    try:
        _phases(run)
    except Interrupted:
        record.end("incomplete")  # first: an interrupting user may not wait for the collection
        machine_changes.close_after_failure(run)
        collect_after_failure(run, bring_back=False)
        _end_failed(record, "incomplete")
        raise
    except Exception as error:
        cause = error
        may_be_a_machine = blame_of(error) in ("system_under_test", "infrastructure")
        if may_be_a_machine and not isinstance(error, MachineLost):
            # A dead machine, or a dead daemon on it, must never be reported as a slow or broken scheduler.
            if lost := run.lost_machines():
                cause = MachineLost(f"{', '.join(lost)} stopped answering; seen first as: {error}")
            elif not isinstance(error, PolicyHung) and (faults := run.faults()):
                cause = MachineLost(f"{faults}; seen first as: {error}")
        record.end("failed", cause)
        machine_changes.close_after_failure(run)
        collect_after_failure(run, bring_back=True)
        if blame_of(cause) == "system_under_test":
            try:  # a clock that jumped looks like a silent worker or a hanging Nimbus
                clocks.require_steady(run)
            except clocks.ClockWrong as wrong:
                record.add({"failure": None})  # otherwise the first one stays
                cause = clocks.ClockWrong(f"{wrong}; seen first as: {cause}")
        is_doubtful = blame_of(cause) == "system_under_test" and not isinstance(cause, PolicyHung)
        if is_doubtful and (why := _why_invalid(run)):  # a bridge whose policy hangs falls back
            raise _end_invalid(record, f"{why}; after that: {message_of(cause)}") from cause
        _end_failed(record, "failed", cause)
        if cause is error:
            raise
        raise cause from error
    if why := _why_invalid(run):
        raise _end_invalid(record, why)
    record.event("run_ended", status="complete")
    record.end("complete")


def _end_failed(record: RunRecord, status: str, cause: Exception | None = None) -> None:
    """Record the end; errors in here must not hide what broke the run."""
    with suppress(OSError):
        record.event("run_ended", status=status)
    record.end(status, cause)


def _why_invalid(run: RunContext) -> str:
    """Return why the run does not count; empty if it does."""
    fallbacks = [f"the bridge fell back: {each.get('reason')}" for each in fallbacks_of_run(run.record)]
    return "; ".join(dict.fromkeys([*fallbacks, *run.courses.interruptions]))


def _end_invalid(record: RunRecord, why: str) -> RunInvalid:
    """Record the end of an invalid run. A failure in it is not counted; it appears only in the reason."""
    record.add({"invalid": why, "failure": None})
    record.event("run_ended", status="invalid", reason=why)
    record.end("invalid")
    return RunInvalid(f"the run is invalid: {why}")


def _phases(run: RunContext) -> None:
    context, record, variant = run.context, run.record, run.plan.variant
    workers = context.experiment.workers()
    with record.phase("reset", expected_s=10):
        context.cluster.reset(run.plan)
        clocks.align(run, ("master", *(name for name in workers if name not in run.machines.later)))
    with record.phase("configure"):
        levels = {
            each.name: {key: value for key, value in asdict(each.service_level).items() if value is not None}
            for each in run.topologies()
            if each.service_level is not None
        }
        throughput = {each.name: each.throughput for each in run.topologies() if each.throughput != SINKS}
        context.service.configure(
            run.plan.run_id, variant.policy, variant.configured(), run.plan.seed, WINDOW_S, levels, throughput,
            context.experiment.groups(),
        )  # fmt: skip
    names = context.experiment.topologies_at_start()
    with record.phase("submit", expected_s=8 * len(names)):
        for topology in run.topologies():
            if topology.name in names:
                context.cluster.submit(run.plan, topology)
                run.expected_topologies.add(topology.name)
                record.event("topology_submitted", t=None, **run.about(topology.name))
    with record.phase("first_tuple", expected_s=10):
        begin_s = max(_first_tuple(run, name) for name in names)
    floor_s, ceiling_s = context.experiment.watched(None)
    with record.phase("warm_up", expected_s=ceiling_s) as entry:
        watch = PhaseEnd(begin_s, begin_s, floor_s, ceiling_s)
        _note_steady(run, "before", None, _wait_until_steady(run, watch, context.is_steady, Patience()))
        entry["planned_s"] = planned_s(run.now() - entry["start_s"], floor_s, ceiling_s)
    with run.courses.sending():
        for place, event in enumerate(context.experiment.events):
            actions = EventActions(run, place)
            times = event.perform(actions)
            run.end_restarts(times.begin_s)
            _watch_after(run, place, actions.event_id, times)
    machine_changes.close(run, "the run is over")
    if lost := run.lost_machines():
        raise MachineLost(f"{', '.join(lost)} stopped answering during the run, and nobody asked for that")
    with record.phase("collect", expected_s=10):
        stop_and_collect(run, bring_back=True)
    if NO_SAMPLES in record.document["missing"]:
        raise NoFreshSamples("no worker left a sample file: there is nothing to analyse in this run; see its logs/")
    clocks.require_steady(run)


def _first_tuple(run: RunContext, name: str) -> float:
    def first(state: RunSnapshot) -> float | None:
        topology = state.topology(name)
        if topology is None:
            return None
        if topology.tasks_total and (missed := machines_missed_by_placement(topology, run.machines.expected())):
            # A supervisor whose ZooKeeper session ends is unknown to Nimbus for a moment, which reset cannot foresee.
            names, them = ", ".join(missed), "it" if len(missed) == 1 else "them"
            raise MachineLost(
                f"{names}: not known to Nimbus when it placed the topology, which would run without {them}"
            )
        return first_tuple_s(topology.series)

    of = "".join(f" of topology {each}" for each in run.about(name).values())
    what = f"no tuple{of} reached a sink"
    t = run.monitor.wait_for(first, limit_s=FIRST_TUPLE_S, what=what, patience=RESTART_PATIENCE)
    run.record.event("first_tuple", t=t, **run.about(name))
    return t


def _watch_after(run: RunContext, place: int, event_id: str, times: EventTimes) -> None:
    """Watch until steady or the horizon; where the next event has a time, until that."""
    (floor, ceiling), zero_s = run.context.experiment.watched(place), times.zero_s
    is_steady, patience = run.context.is_steady, RESTART_PATIENCE
    if times.begin_s is None:
        is_steady, patience = (lambda _seconds, _counts: (False, times.reason)), FAILOVER_PATIENCE
    watch = PhaseEnd(zero_s, times.begin_s or zero_s, floor, ceiling)
    with run.record.phase("after", expected_s=max(0.0, ceiling - (run.now() - zero_s))) as entry:
        entry["event_id"] = event_id
        _note_steady(run, "after", event_id, _wait_until_steady(run, watch, is_steady, patience))
        watched_s = planned_s(run.now() - zero_s, floor, ceiling) - (entry["start_s"] - zero_s)
        entry["planned_s"] = max(0.0, watched_s)


def _wait_until_steady(
    run: RunContext, watch: PhaseEnd, is_steady: SteadyTest, patience: Patience
) -> Mapping[str, PhaseOutcome]:
    """Wait, by topology; each is steady or not by its own series, and all are watched until the last one is."""

    def settled(state: RunSnapshot) -> Mapping[str, PhaseOutcome] | None:
        if absent_machines(state, run.machines.expected()):
            return None  # either it comes back, or the monitor's patience ends with a message
        series = {each.name: each.series for each in state.topologies if each.running}
        return outcomes(watch, series, run.now(), is_steady)

    return machine_changes.wait_for(run, settled, patience)


def _note_steady(run: RunContext, phase: str, event_id: str | None, found: Mapping[str, PhaseOutcome]) -> None:
    """Record a line for each topology; where there are several, one for all of them too."""
    of_all = {} if not run.context.experiment.topologies else {WHOLE_CLUSTER: together(found)}
    for name, outcome in {**found, **of_all}.items():
        facts = {"phase": phase, "steady": outcome.steady, "reason": outcome.reason, "event_id": event_id}
        run.record.event("steady", t=None, **facts, **run.about(name))
