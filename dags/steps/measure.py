"""One run, from a clean cluster to its record. Order and effects only: what to conclude is in `watch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dags.duration import FIRST_TUPLE_S
from dags.errors import Interrupted, MachineLost, NoFreshSamples, blame_of
from dags.plan import PlannedRun
from dags.run_record import Diary
from dags.service_state import ServiceState, absent, first_tuple_s, passed_over
from dags.steps.collecting import NO_SAMPLES, fallbacks, gather, stop_and_collect
from dags.steps.disturbances import change_rate, crash
from dags.steps.scaling import scale_in, scale_out
from dags.steps.under_way import Bench, Happened, UnderWay
from dags.watch import FAILED_OVER, RESTARTING, Outcome, Patience, SteadyTest, Watch, planned_s

WINDOW_S = 60.0  # the policies' rate window

PERFORM: Mapping[str, Callable[[UnderWay, int, str], Happened]] = {
    "scale_out": scale_out,
    "scale_in": scale_in,
    "rate": change_rate,
    "crash": crash,
}
"""By kind: makes the event at that place of the plan happen, under that id."""


def measure(bench: Bench, planned: PlannedRun, diary: Diary, *, last: bool) -> str:
    """Does the run and returns its status. Raises what ended it; the record is written either way."""
    run = UnderWay.begin(bench, planned, diary, last=last)
    try:
        _phases(run)
    except Interrupted:
        diary.end("incomplete")  # first: whoever interrupts may not wait for the collection
        gather(run, bring_back=False)
        diary.end("incomplete")
        raise
    except Exception as error:
        cause = _whose(run, error)
        diary.end("failed", cause)
        gather(run, bring_back=True)
        diary.end("failed", cause)
        if cause is error:
            raise
        raise cause from error
    status = "invalid" if fallbacks(diary) else "complete"
    diary.event("run_ended", status=status)
    diary.end(status)
    return status


def _phases(run: UnderWay) -> None:
    bench, diary, variant = run.bench, run.diary, run.run.variant
    with diary.phase("reset", expected_s=10):
        bench.cluster.reset(run.run)
    with diary.phase("configure"):
        bench.service.configure(run.run.run_id, variant.policy, variant.configured(), run.run.seed, WINDOW_S)
    with diary.phase("submit", expected_s=8):
        bench.cluster.submit(run.run)
        diary.event("topology_submitted")
    with diary.phase("first_tuple", expected_s=10):
        begin_s = _first_tuple(run)
    _warm_up(run, begin_s)
    for place, event in enumerate(bench.experiment.events):
        event_id = f"e{place + 1}"
        _after(run, place, event_id, PERFORM[event.kind](run, place, event_id))
    _everyone_answers(run)
    with diary.phase("collect", expected_s=10):
        stop_and_collect(run, bring_back=True)
    if NO_SAMPLES in diary.document["missing"]:
        raise NoFreshSamples("no worker left a sample file: there is nothing to analyse in this run; see its logs/")


def _first_tuple(run: UnderWay) -> float:
    def seen(state: ServiceState) -> int | None:
        if state.tasks_total:
            _require_all_placed_on(run, state)
        return first_tuple_s(state.series)

    t = run.look.until(seen, limit_s=FIRST_TUPLE_S, what="no tuple reached a sink", patience=RESTARTING)
    run.diary.event("first_tuple", t=t)
    return t


def _require_all_placed_on(run: UnderWay, state: ServiceState) -> None:
    """A supervisor whose ZooKeeper session ends is unknown to Nimbus for a moment; reset cannot foresee that."""
    without = passed_over(state, run.machines.present)
    if without:
        names, them = ", ".join(without), "it" if len(without) == 1 else "them"
        raise MachineLost(f"{names}: not known to Nimbus when it placed the topology, which would run without {them}")


def _warm_up(run: UnderWay, begin_s: float) -> None:
    floor, ceiling = run.bench.experiment.watched(None)
    with run.diary.phase("warm_up", expected_s=ceiling) as entry:
        outcome = _settled(run, Watch(begin_s, begin_s, floor, ceiling), run.bench.is_steady, Patience())
        run.diary.event("steady", phase="before", steady=outcome.steady, reason=outcome.reason, event_id=None)
        entry["planned_s"] = planned_s(run.now() - entry["start_s"], floor, ceiling)


def _after(run: UnderWay, place: int, event_id: str, happened: Happened) -> None:
    """Until steady or the horizon; where the next event is at a time, until that."""
    (floor, ceiling), zero_s = run.bench.experiment.watched(place), happened.zero_s
    is_steady, patience = run.bench.is_steady, RESTARTING
    if happened.begin_s is None:
        is_steady, patience = _never(happened.reason), FAILED_OVER
    watch = Watch(zero_s, happened.begin_s or zero_s, floor, ceiling)
    with run.diary.phase("after", expected_s=max(0.0, ceiling - (run.now() - zero_s))) as entry:
        entry["event_id"] = event_id
        outcome = _settled(run, watch, is_steady, patience)
        run.diary.event("steady", phase="after", steady=outcome.steady, reason=outcome.reason, event_id=event_id)
        watched = planned_s(run.now() - zero_s, floor, ceiling) - (entry["start_s"] - zero_s)
        entry["planned_s"] = max(0.0, watched)


def _never(reason: str) -> SteadyTest:
    return lambda _seconds, _counts: (False, reason)


def _settled(run: UnderWay, watch: Watch, is_steady: SteadyTest, patience: Patience) -> Outcome:
    def settled(state: ServiceState) -> Outcome | None:
        run.note(state)
        if absent(state, run.machines.present):
            return None  # either it comes back, or the look runs out of patience and says so
        return watch.outcome(state.series, run.now(), is_steady)

    return run.look.until(settled, limit_s=None, what="", patience=patience)


def _everyone_answers(run: UnderWay) -> None:
    lost = run.lost()
    if lost:
        raise MachineLost(f"{', '.join(lost)} stopped answering during the run, and nobody asked for that")


def _whose(run: UnderWay, error: Exception) -> Exception:
    """A dead machine must never be reported as a slow or broken scheduler."""
    if blame_of(error) not in ("system_under_test", "infrastructure") or isinstance(error, MachineLost):
        return error
    lost = run.lost()
    return MachineLost(f"{', '.join(lost)} stopped answering; seen first as: {error}") if lost else error
