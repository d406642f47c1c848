"""Events that no policy is asked about: the input rate changes, a machine crashes and may come back."""

from __future__ import annotations

from dags.errors import ExperimentError
from dags.events import Crash, RateChange
from dags.service_state import ServiceState, back_at_work
from dags.steps.under_way import Happened, UnderWay
from dags.watch import FAILED_OVER


def change_rate(run: UnderWay, place: int, event_id: str) -> Happened:
    event = run.bench.experiment.events[place]
    assert isinstance(event, RateChange)
    with run.diary.phase("rate"):
        zero_s = run.begins()
        run.bench.service.input_rate(event.factor)
        run.diary.event("rate_changed", t=zero_s, event_id=event_id, factor=event.factor)
    return Happened(zero_s, zero_s)


def crash(run: UnderWay, place: int, event_id: str) -> Happened:
    """Until Storm has every task running again, on other machines or on this one, or the time for it is over."""
    event = run.bench.experiment.events[place]
    assert isinstance(event, Crash)
    _require_present(run, event, place)
    with run.diary.phase("crash", expected_s=event.restart_after_s or 2):
        zero_s = run.begins()
        run.machines.crash(event.machine)  # first: from here on nobody may miss it
        run.bench.cluster.crash(event.machine)
        run.diary.event("crashed", t=zero_s, event_id=event_id, machine=event.machine)
        since_s = zero_s if event.restart_after_s is None else _restart(run, event, event_id, zero_s)
    with run.diary.phase("recover", expected_s=60):
        return _recovered(run, event, zero_s, since_s, run.bench.experiment.watched(place)[1])


def _restart(run: UnderWay, event: Crash, event_id: str, zero_s: float) -> float:
    assert event.restart_after_s is not None
    due_s = zero_s + event.restart_after_s

    def due(state: ServiceState) -> bool | None:
        run.note(state)
        return run.now() >= due_s or None

    run.look.until(due, limit_s=None, what="", patience=FAILED_OVER)
    run.bench.cluster.restart(event.machine)
    run.machines.come([event.machine])
    run.diary.event("restarted", event_id=event_id, machine=event.machine)
    return run.now()


def _recovered(run: UnderWay, event: Crash, zero_s: float, since_s: float, limit_s: float) -> Happened:
    """From when the series counts: None where Storm did not get there in time, which is a result."""

    def over(state: ServiceState) -> Happened | None:
        run.note(state)
        listed = event.restart_after_s is None and event.machine in state.machines
        missing = f"Nimbus still counts on {event.machine}" if listed else back_at_work(state, since_s)
        if missing is None:
            return Happened(zero_s, run.now())
        return Happened(zero_s, None, missing) if run.now() - zero_s >= limit_s else None

    return run.look.until(over, limit_s=None, what="", patience=FAILED_OVER)


def _require_present(run: UnderWay, event: Crash, place: int) -> None:
    if event.machine not in run.machines.present:
        raise ExperimentError(
            f"events.{place}.machine is {event.machine!r}, but the policy had let it leave; there are"
            f" {', '.join(run.machines.present)}: crash another one, or crash it before the scale_in"
        )
