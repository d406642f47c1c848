"""The events of a run, made to happen: machines join and leave as the policy decides, the input rate changes, a machine
crashes and may come back. The last two are not put to the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from barograph.errors import ExperimentError, MachineLost, NoFreshSamples, RunBroken
from barograph.plan.durations import APPLY_S, DRAIN_S, FRESH_SAMPLES_S, REGISTER_S
from barograph.plan.events import Crash, RateChange, ScaleIn
from barograph.policy_service import ScaleOutcome, ServiceState, absent_machines, recovery_obstacle, scale_outcome
from barograph.run.collection import collect
from barograph.run.context import EventTimes, RunContext
from barograph.run.monitor import FAILOVER_PATIENCE, RESTART_PATIENCE, Patience, stale_samples

FAILOVER_S = 180.0  # Storm needs up to two minutes to notice a dead machine and place its tasks again
SCALE_ATTEMPTS = 3  # an operation that was aborted is repeated (SP III-B)


def scale_out(run: RunContext, place: int, event_id: str) -> EventTimes:
    joining = run.bench.experiment.joining(place)
    if not run.machines.awaited.isdisjoint(joining):
        _boot(run, joining)
    with run.diary.phase("join", expected_s=5):
        run.bench.cluster.join(joining)
        run.machines.come(joining)
        _wait_until_registered(run, joining)
        run.diary.event("machines_joined", machines=list(joining))
    return _scale(run, event_id, "scale_out", joining)[0]


def _boot(run: RunContext, names: Sequence[str]) -> None:
    """Before the request, whose zero it does not move: how long a boot takes says nothing about a policy."""
    with run.diary.phase("boot", expected_s=90):
        asked_s = run.now()
        run.diary.event("machines_requested", t=asked_s, machines=list(names))
        boots_s = run.bench.cluster.grow(names)
        run.machines.boot(names)
        for name in names:
            boot_s = boots_s[name]
            # Storm was put on it meanwhile: the event is when it answered.
            answered_s = None if boot_s is None else asked_s + boot_s
            run.diary.event("machine_booted", t=answered_s, machine=name, boot_s=boot_s)


def scale_in(run: RunContext, place: int, event_id: str) -> EventTimes:
    """The policy says which machines leave; they go when nothing is on them any more."""
    event = run.bench.experiment.events[place]
    assert isinstance(event, ScaleIn)
    happened, applied = _scale(run, event_id, "scale_in", (), event.machines)
    _require_release(run, applied, event.machines)
    with run.diary.phase("leave", expected_s=15):
        _wait_until_placed(run, f"not every task found a place before {', '.join(applied.release)} left")
        run.bench.cluster.leave(applied.release)
        run.machines.go(applied.release)
        _wait_until_placed(run, f"not every task had a place after {', '.join(applied.release)} had left")
        given_back = _give_back(run, applied.release)
        run.diary.event("machines_left", machines=list(applied.release), given_back=given_back)
    return happened


def _scale(
    run: RunContext, event_id: str, kind: str, joined: Sequence[str], leave: int = 0
) -> tuple[EventTimes, ScaleOutcome]:
    """Ask until an answer is applied: one that was lost with its machines is aborted and asked for again."""
    with run.diary.phase("scale", expected_s=20):
        for attempt in range(1, SCALE_ATTEMPTS + 1):
            name = event_id if attempt == 1 else f"{event_id}.{attempt}"
            _wait_for_fresh_samples(run, again=attempt > 1)
            zero_s = _request(run, name, kind, joined, leave)
            applied = _wait_until_applied(run, name)
            if applied.failed is None:
                return EventTimes(zero_s, applied.last_t or zero_s), applied
            joined = _abort(run, name, applied.failed, joined, leave)
    raise MachineLost(f"scale event {event_id} was aborted {SCALE_ATTEMPTS} times, each time because a machine died")


def _request(run: RunContext, name: str, kind: str, joined: Sequence[str], leave: int) -> float:
    zero_s = run.begins()
    run.bench.service.scale(name, kind, joined, leave)
    run.diary.event("scale_requested", t=zero_s, event_id=name, event=kind, joined=list(joined), leave=leave)
    return zero_s


def _wait_until_applied(run: RunContext, name: str) -> ScaleOutcome:
    def done(state: ServiceState) -> ScaleOutcome | None:
        run.note(state)
        return scale_outcome(state, name)

    what = f"scale event {name} was not decided and applied"
    return run.look.until(done, limit_s=APPLY_S, what=what, patience=RESTART_PATIENCE)


def _abort(run: RunContext, name: str, reason: str, joined: Sequence[str], leave: int) -> Sequence[str]:
    """The machines that still join. Raises RunBroken where no machine died, MachineLost where too few are left."""
    last = run.look.last
    dead = run.lost(absent_machines(last, run.machines.present) if last else ())
    if not dead:
        raise RunBroken(f"Storm did not apply the policy's answer: {reason}")
    run.machines.die(dead)
    run.diary.event("scale_aborted", event_id=name, reason=reason, machines=list(dead))
    alive = tuple(machine for machine in joined if machine not in dead)
    if (joined and not alive) or leave >= len(run.machines.present):
        raise MachineLost(f"{', '.join(dead)} died before scale event {name} was applied; too few machines are left")
    return alive


def _require_release(run: RunContext, applied: ScaleOutcome, leave: int) -> None:
    released = applied.release
    strangers = [name for name in released if name not in run.machines.present]
    if len(released) == leave and not strangers:
        return
    what = f"released {', '.join(released)}" if released else "released none"
    said = applied.reason or "no reason given"
    raise RunBroken(f"policy {run.run.variant.policy} was asked to let {leave} machines leave and {what}: {said}")


def _wait_until_placed(run: RunContext, what: str) -> None:
    def placed(state: ServiceState) -> bool | None:
        run.note(state)
        return state.all_placed() or None

    run.look.until(placed, limit_s=DRAIN_S, what=what, patience=RESTART_PATIENCE)


def _give_back(run: RunContext, leaving: Sequence[str]) -> bool:
    """Their files come first, in every run alike: else the last run would be disturbed by more than the others."""
    collect(run, leaving)
    given_back = run.last and run.bench.cluster.give_back(leaving)
    if given_back:
        run.machines.given_back.update(leaving)
    return given_back


def _wait_until_registered(run: RunContext, joining: Sequence[str]) -> None:
    def known(state: ServiceState) -> bool | None:
        return True if set(joining) <= set(state.machines) else None

    late = f"{', '.join(joining)} did not register with Nimbus within {REGISTER_S:g} s; see the supervisor's log"
    patience = replace(RESTART_PATIENCE, absence_s=REGISTER_S + 1)
    _in_time(run, known, REGISTER_S, patience, lambda: MachineLost(late))


def _wait_for_fresh_samples(run: RunContext, *, again: bool) -> None:
    """After an abort Storm may have to place a dead machine's tasks first."""
    reason: list[str] = []

    def fresh(state: ServiceState) -> bool | None:
        said = stale_samples(state)
        reason[:] = [said] if said else []
        return None if said else True

    def late() -> NoFreshSamples:
        cause = f"{reason[0]}; the policy would have decided on an older cluster"
        return NoFreshSamples(f"the scale request was not sent: {cause}")

    limit_s, patience = (FAILOVER_S, FAILOVER_PATIENCE) if again else (FRESH_SAMPLES_S, RESTART_PATIENCE)
    _in_time(run, fresh, limit_s, patience, late)


def _in_time(
    run: RunContext, done: Callable[[ServiceState], bool | None], limit_s: float, patience: Patience,
    late: Callable[[], Exception],
) -> None:  # fmt: skip
    """Look until it is done; `late` says what it means that nothing was wrong and only the time ran out."""
    try:
        run.look.until(done, limit_s=limit_s, what="", patience=patience)
    except RunBroken as error:
        if run.look.last_symptom == "time":
            raise late() from error
        raise


def change_rate(run: RunContext, place: int, event_id: str) -> EventTimes:
    event = run.bench.experiment.events[place]
    assert isinstance(event, RateChange)
    with run.diary.phase("rate"):
        zero_s = run.begins()
        run.bench.service.input_rate(event.factor)
        run.diary.event("rate_changed", t=zero_s, event_id=event_id, factor=event.factor)
    return EventTimes(zero_s, zero_s)


def crash(run: RunContext, place: int, event_id: str) -> EventTimes:
    """Until Storm has every task running again, on other machines or on this one, or the time for it is over."""
    event = run.bench.experiment.events[place]
    assert isinstance(event, Crash)
    _require_present(run, event, place)
    with run.diary.phase("crash", expected_s=event.restart_after_s or 2):
        zero_s = run.begins()
        run.machines.crash(event.machine)  # first: from here on nobody may miss it
        run.bench.cluster.crash(event.machine)
        run.diary.event("crashed", t=zero_s, event_id=event_id, machine=event.machine)
        since_s = zero_s if event.restart_after_s is None else _restart_when_due(run, event, event_id, zero_s)
    with run.diary.phase("recover", expected_s=60):
        return _wait_until_recovered(run, event, zero_s, since_s, run.bench.experiment.watched(place)[1])


def _restart_when_due(run: RunContext, event: Crash, event_id: str, zero_s: float) -> float:
    assert event.restart_after_s is not None
    due_s = zero_s + event.restart_after_s

    def due(state: ServiceState) -> bool | None:
        run.note(state)
        return run.now() >= due_s or None

    run.look.until(due, limit_s=None, what="", patience=FAILOVER_PATIENCE)
    run.bench.cluster.restart(event.machine)
    run.machines.come([event.machine])
    run.diary.event("restarted", event_id=event_id, machine=event.machine)
    return run.now()


def _wait_until_recovered(run: RunContext, event: Crash, zero_s: float, since_s: float, limit_s: float) -> EventTimes:
    """From when the series counts: None where Storm did not get there in time, which is a result."""

    def over(state: ServiceState) -> EventTimes | None:
        run.note(state)
        listed = event.restart_after_s is None and event.machine in state.machines
        missing = f"Nimbus still counts on {event.machine}" if listed else recovery_obstacle(state, since_s)
        if missing is None:
            return EventTimes(zero_s, run.now())
        return EventTimes(zero_s, None, missing) if run.now() - zero_s >= limit_s else None

    return run.look.until(over, limit_s=None, what="", patience=FAILOVER_PATIENCE)


def _require_present(run: RunContext, event: Crash, place: int) -> None:
    if event.machine not in run.machines.present:
        raise ExperimentError(
            f"events.{place}.machine is {event.machine!r}, but the policy had let it leave; there are"
            f" {', '.join(run.machines.present)}: crash another one, or crash it before the scale_in"
        )
