"""The scale events of a run: machines join, the policy is asked, and the machines that it lets go leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dags.duration import APPLY_S, DRAIN_S, FRESH_SAMPLES_S, REGISTER_S
from dags.errors import MachineLost, NoFreshSamples, RunBroken
from dags.events import ScaleIn
from dags.service_state import Applied, ServiceState, absent, event_outcome
from dags.steps.collecting import collect
from dags.steps.under_way import Happened, UnderWay
from dags.watch import FAILED_OVER, RESTARTING, Patience, too_old

FAILED_OVER_S = 180.0  # Storm needs up to two minutes to notice a dead machine and place its tasks again
ATTEMPTS = 3  # an operation that was aborted is repeated (SP III-B)


def scale_out(run: UnderWay, place: int, event_id: str) -> Happened:
    joining = run.bench.experiment.joining(place)
    if not run.machines.awaited.isdisjoint(joining):
        _boot(run, joining)
    with run.diary.phase("join", expected_s=5):
        run.bench.cluster.join(joining)
        run.machines.come(joining)
        _registered(run, joining)
        run.diary.event("machines_joined", machines=list(joining))
    return _answered(run, event_id, "scale_out", joining)[0]


def _boot(run: UnderWay, names: Sequence[str]) -> None:
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


def scale_in(run: UnderWay, place: int, event_id: str) -> Happened:
    """The policy says which machines leave; they go when nothing is on them any more."""
    event = run.bench.experiment.events[place]
    assert isinstance(event, ScaleIn)
    happened, applied = _answered(run, event_id, "scale_in", (), event.machines)
    _require_release(run, applied, event.machines)
    with run.diary.phase("leave", expected_s=15):
        _all_placed(run, f"not every task found a place before {', '.join(applied.release)} left")
        run.bench.cluster.leave(applied.release)
        run.machines.go(applied.release)
        _all_placed(run, f"not every task had a place after {', '.join(applied.release)} had left")
        given_back = _give_back(run, applied.release)
        run.diary.event("machines_left", machines=list(applied.release), given_back=given_back)
    return happened


def _answered(
    run: UnderWay, event_id: str, kind: str, joined: Sequence[str], leave: int = 0
) -> tuple[Happened, Applied]:
    """Ask until an answer is applied: one that was lost with its machines is aborted and asked for again."""
    with run.diary.phase("scale", expected_s=20):
        for attempt in range(1, ATTEMPTS + 1):
            name = event_id if attempt == 1 else f"{event_id}.{attempt}"
            _fresh_samples(run, again=attempt > 1)
            zero_s = _request(run, name, kind, joined, leave)
            applied = _applied(run, name)
            if applied.failed is None:
                return Happened(zero_s, applied.last_t or zero_s), applied
            joined = _abort(run, name, applied.failed, joined, leave)
    raise MachineLost(f"scale event {event_id} was aborted {ATTEMPTS} times, each time because a machine died")


def _request(run: UnderWay, name: str, kind: str, joined: Sequence[str], leave: int) -> float:
    zero_s = run.begins()
    run.bench.service.scale(name, kind, joined, leave)
    run.diary.event("scale_requested", t=zero_s, event_id=name, event=kind, joined=list(joined), leave=leave)
    return zero_s


def _applied(run: UnderWay, name: str) -> Applied:
    def done(state: ServiceState) -> Applied | None:
        run.note(state)
        return event_outcome(state, name)

    what = f"scale event {name} was not decided and applied"
    return run.look.until(done, limit_s=APPLY_S, what=what, patience=RESTARTING)


def _abort(run: UnderWay, name: str, reason: str, joined: Sequence[str], leave: int) -> Sequence[str]:
    """The machines that still join. Raises RunBroken where no machine died, MachineLost where too few are left."""
    last = run.look.last
    dead = run.lost(absent(last, run.machines.present) if last else ())
    if not dead:
        raise RunBroken(f"Storm did not apply the policy's answer: {reason}")
    run.machines.die(dead)
    run.diary.event("scale_aborted", event_id=name, reason=reason, machines=list(dead))
    alive = tuple(machine for machine in joined if machine not in dead)
    if (joined and not alive) or leave >= len(run.machines.present):
        raise MachineLost(f"{', '.join(dead)} died before scale event {name} was applied; too few machines are left")
    return alive


def _require_release(run: UnderWay, applied: Applied, leave: int) -> None:
    released = applied.release
    strangers = [name for name in released if name not in run.machines.present]
    if len(released) == leave and not strangers:
        return
    what = f"released {', '.join(released)}" if released else "released none"
    said = applied.reason or "no reason given"
    raise RunBroken(f"policy {run.run.variant.policy} was asked to let {leave} machines leave and {what}: {said}")


def _all_placed(run: UnderWay, what: str) -> None:
    def placed(state: ServiceState) -> bool | None:
        run.note(state)
        return state.all_placed() or None

    run.look.until(placed, limit_s=DRAIN_S, what=what, patience=RESTARTING)


def _give_back(run: UnderWay, leaving: Sequence[str]) -> bool:
    """Their files come first, in every run alike: else the last run would be disturbed by more than the others."""
    collect(run, leaving)
    given_back = run.last and run.bench.cluster.give_back(leaving)
    if given_back:
        run.machines.given_back.update(leaving)
    return given_back


def _registered(run: UnderWay, joining: Sequence[str]) -> None:
    def known(state: ServiceState) -> bool | None:
        return True if set(joining) <= set(state.machines) else None

    late = f"{', '.join(joining)} did not register with Nimbus within {REGISTER_S:g} s; see the supervisor's log"
    patience = replace(RESTARTING, absence_s=REGISTER_S + 1)
    _in_time(run, known, REGISTER_S, patience, lambda: MachineLost(late))


def _fresh_samples(run: UnderWay, *, again: bool) -> None:
    """After an abort Storm may have to place a dead machine's tasks first."""
    reason: list[str] = []

    def fresh(state: ServiceState) -> bool | None:
        said = too_old(state)
        reason[:] = [said] if said else []
        return None if said else True

    def late() -> NoFreshSamples:
        cause = f"{reason[0]}; the policy would have decided on an older cluster"
        return NoFreshSamples(f"the scale request was not sent: {cause}")

    limit_s, patience = (FAILED_OVER_S, FAILED_OVER) if again else (FRESH_SAMPLES_S, RESTARTING)
    _in_time(run, fresh, limit_s, patience, late)


def _in_time(
    run: UnderWay, done: Callable[[ServiceState], bool | None], limit_s: float, patience: Patience,
    late: Callable[[], Exception],
) -> None:  # fmt: skip
    """Look until it is done; `late` says what it means that nothing was wrong and only the time ran out."""
    try:
        run.look.until(done, limit_s=limit_s, what="", patience=patience)
    except RunBroken as error:
        if run.look.last_symptom == "time":
            raise late() from error
        raise
