"""One run, from a clean cluster to its record. Order and effects only: what to conclude is in `watch`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dags.errors import Interrupted, MachineLost, NoFreshSamples, RunBroken, blame_of
from dags.experiment import Experiment, PlannedEvent
from dags.plan import PlannedRun
from dags.run_record import Diary
from dags.service_client import ServiceClient
from dags.service_state import Applied, ServiceState, absent, event_outcome, first_tuple_s, unseen
from dags.steps.look import Look
from dags.steps.ports import Clock, Cluster, Listener
from dags.steps.trace import bridge_fallbacks, topology_as_run
from dags.watch import RESTARTING, Outcome, Patience, SteadyTest, Watch, planned_s, too_old

FIRST_TUPLE_S = 150.0
REGISTER_S = 60.0
APPLY_S = 90.0
FRESH_SAMPLES_S = 15.0
NO_SAMPLES = "workers/*.jsonl"  # as the collection names it
WINDOW_S = 60.0  # the policies' rate window


@dataclass(frozen=True)
class Bench:
    """Everything a run needs from outside."""

    experiment: Experiment
    cluster: Cluster
    service: ServiceClient
    clock: Clock
    listener: Listener
    is_steady: SteadyTest


def measure(bench: Bench, run: PlannedRun, diary: Diary) -> str:
    """Does the run and returns its status. Raises what ended it; the record is written either way."""
    try:
        _phases(bench, run, diary)
    except Interrupted:
        diary.end("incomplete")  # first: whoever interrupts may not wait for the collection
        _gather(bench, diary)
        diary.end("incomplete")
        raise
    except Exception as error:
        cause = _whose(bench, error)
        diary.end("failed", cause)
        _gather(bench, diary)
        diary.end("failed", cause)
        if cause is error:
            raise
        raise cause from error
    status = "invalid" if _fallbacks(diary) else "complete"
    diary.event("run_ended", status=status)
    diary.end(status)
    return status


def _phases(bench: Bench, run: PlannedRun, diary: Diary) -> None:
    with diary.phase("reset", expected_s=10):
        bench.cluster.reset(run)
    with diary.phase("configure"):
        variant = run.variant
        bench.service.configure(run.run_id, variant.policy, variant.parameters, run.seed, WINDOW_S)
    with diary.phase("submit", expected_s=8):
        bench.cluster.submit(run)
        diary.event("topology_submitted")
    look = Look(bench.cluster, bench.service, bench.clock, bench.listener, _at_start(bench.experiment))
    with diary.phase("first_tuple", expected_s=10):
        begin_s = _first_tuple(look, diary)
    _warm_up(bench, look, diary, begin_s)
    for number, event in enumerate(bench.experiment.events, start=1):
        look = _scale(bench, look, diary, event, f"e{number}")
    _everyone_answers(bench)
    with diary.phase("collect", expected_s=10):
        _stop_and_collect(bench, diary)
    if NO_SAMPLES in diary.document["missing"]:
        raise NoFreshSamples("no worker left a sample file: there is nothing to analyse in this run; see its logs/")


def _first_tuple(look: Look, diary: Diary) -> float:
    def seen(state: ServiceState) -> int | None:
        return first_tuple_s(state.series)

    t = look.until(seen, limit_s=FIRST_TUPLE_S, what="no tuple reached a sink", patience=RESTARTING)
    diary.event("first_tuple", t=t)
    return t


def _warm_up(bench: Bench, look: Look, diary: Diary, begin_s: float) -> None:
    durations, event = bench.experiment.durations, bench.experiment.events[0]
    floor, ceiling = durations.warm_up_floor_s, durations.warm_up_ceiling_s
    if event.at != "steady":
        floor = ceiling = event.at
    watch = Watch(begin_s, begin_s, floor, ceiling)
    with diary.phase("warm_up", expected_s=ceiling) as entry:
        _settle(bench, look, diary, watch, "before", Patience())
        entry["planned_s"] = planned_s(bench.clock.now() - entry["start_s"], floor, ceiling)


def _scale(bench: Bench, look: Look, diary: Diary, event: PlannedEvent, event_id: str) -> Look:
    joining = _joining(bench.experiment)
    with diary.phase("join", expected_s=5):
        bench.cluster.join(joining)
        wider = replace(look, expected=(*look.expected, *joining))
        _registered(wider, joining)
        diary.event("machines_joined", machines=list(joining))
    with diary.phase("scale", expected_s=20):
        _fresh_samples(wider)
        zero_s = bench.clock.now()
        bench.service.scale(event_id, event.kind, joining, 0)
        diary.event("scale_requested", t=zero_s, event_id=event_id, event=event.kind, joined=list(joining), leave=0)
        applied = _applied(wider, diary, event_id)
    durations = bench.experiment.durations
    watch = Watch(zero_s, applied.last_t or zero_s, durations.after_floor_s, durations.horizon_s)
    with diary.phase("after", expected_s=durations.horizon_s - (bench.clock.now() - zero_s)) as entry:
        _settle(bench, wider, diary, watch, "after", RESTARTING)
        spent = bench.clock.now() - zero_s
        entry["planned_s"] = planned_s(spent, durations.after_floor_s, durations.horizon_s) - (
            entry["start_s"] - zero_s
        )
    return wider


def _settle(bench: Bench, look: Look, diary: Diary, watch: Watch, phase: str, patience: Patience) -> None:
    def settled(state: ServiceState) -> Outcome | None:
        if absent(state, look.expected):
            return None  # either it comes back, or the look runs out of patience and says so
        return watch.outcome(state.series, bench.clock.now(), bench.is_steady)

    outcome = look.until(settled, limit_s=None, what="", patience=patience)
    diary.event("steady", phase=phase, steady=outcome.steady, reason=outcome.reason)


def _registered(look: Look, joining: Sequence[str]) -> None:
    def known(state: ServiceState) -> bool | None:
        return True if set(joining) <= set(state.machines) else None

    try:
        look.until(known, limit_s=REGISTER_S, what="", patience=replace(RESTARTING, absence_s=REGISTER_S + 1))
    except RunBroken as error:
        if look.last_symptom == "time":
            names = ", ".join(joining)
            message = f"{names} did not register with Nimbus within {REGISTER_S:g} s; see the supervisor's log"
            raise MachineLost(message) from error
        raise


def _fresh_samples(look: Look) -> None:
    reason: list[str] = []

    def fresh(state: ServiceState) -> bool | None:
        said = too_old(state)
        reason[:] = [said] if said else []
        return None if said else True

    try:
        look.until(fresh, limit_s=FRESH_SAMPLES_S, what="", patience=RESTARTING)
    except RunBroken as error:
        if look.last_symptom == "time":
            message = f"the scale request was not sent: {reason[0]}; the policy would have decided on an older cluster"
            raise NoFreshSamples(message) from error
        raise


def _applied(look: Look, diary: Diary, event_id: str) -> Applied:
    known: set[str] = set()

    def done(state: ServiceState) -> Applied | None:
        mine = [decision for decision in state.decisions if decision.event_id == event_id]
        for decision in unseen(mine, known):
            known.add(decision.decision_id)
            diary.event("decision", t=decision.t, decision_id=decision.decision_id, reason=decision.reason)
        return event_outcome(state, event_id)

    applied = look.until(
        done, limit_s=APPLY_S, what=f"scale event {event_id} was not decided and applied", patience=RESTARTING
    )
    for decision_id in applied.decision_ids:
        diary.event("applied", t=applied.last_t, decision_id=decision_id, ok=applied.failed is None)
    if applied.failed:
        raise RunBroken(f"Storm did not apply the policy's answer: {applied.failed}")
    return applied


def _everyone_answers(bench: Bench) -> None:
    silent = bench.cluster.silent_machines()
    if silent:
        raise MachineLost(f"{', '.join(silent)} stopped answering during the run, and nobody asked for that")


def _stop_and_collect(bench: Bench, diary: Diary) -> None:
    bench.cluster.stop()
    diary.event("topology_killed")
    collected = bench.cluster.collect(diary.folder)
    diary.add({"clock_offset_ms": dict(collected.clock_offset_ms), "missing": list(collected.missing)})
    _note_trace(bench, diary)


def _gather(bench: Bench, diary: Diary) -> None:
    """What a broken run has measured; trouble in here must not hide what broke it."""
    try:
        with diary.phase("collect"):
            _stop_and_collect(bench, diary)
    except Exception as error:  # noqa: BLE001 - the first failure is the one to report
        bench.listener.tell("message", text=f"collecting what was measured failed: {error}")
    with suppress(OSError):
        diary.event("run_ended", status=diary.document["status"])


def _note_trace(bench: Bench, diary: Diary) -> None:
    """What only the collected files know: task ids as Storm gave them, and whether the bridge fell back."""
    topology = topology_as_run(diary.folder, bench.experiment.topology.name)
    if topology is not None:
        diary.add({"topology": topology})
    for fallback in _fallbacks(diary):
        diary.event("fallback", t=fallback["t"], reason=fallback.get("reason"))


def _fallbacks(diary: Diary) -> list[dict[str, Any]]:
    return bridge_fallbacks(diary.folder, since_s=float(diary.document["started_s"]))


def _whose(bench: Bench, error: Exception) -> Exception:
    """A dead machine must never be reported as a slow or broken scheduler."""
    if blame_of(error) not in ("system_under_test", "infrastructure") or isinstance(error, MachineLost):
        return error
    silent = bench.cluster.silent_machines()
    return MachineLost(f"{', '.join(silent)} stopped answering; seen first as: {error}") if silent else error


def _at_start(experiment: Experiment) -> tuple[str, ...]:
    return tuple(f"m{number}" for number in range(1, experiment.machines.before + 1))


def _joining(experiment: Experiment) -> tuple[str, ...]:
    return tuple(f"m{number}" for number in range(experiment.machines.before + 1, experiment.machines.after + 1))
