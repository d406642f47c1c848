"""What the policy service says of a run (`GET /state`), as values, and what can be concluded from it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SeenDecision:
    decision_id: str
    t: float
    event_id: str | None
    reason: str
    applied: bool
    applied_t: float | None
    message: str
    release: tuple[str, ...] = ()  # machines that may leave once this is applied


@dataclass(frozen=True)
class Series:
    """Whole seconds, oldest first; columns of equal length; None where nothing was measured."""

    t: tuple[int, ...] = ()
    sinks: tuple[float | None, ...] = ()
    spouts: tuple[float | None, ...] = ()
    due: tuple[float | None, ...] = ()
    queues: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # waiting tuples by component


@dataclass(frozen=True)
class ServiceState:
    run_id: str | None
    t: float
    policy: str | None
    machines: tuple[str, ...]
    samples_age_s: float | None
    workers_reporting: int
    tasks_placed: int
    tasks_total: int
    pending_event: str | None
    decisions: tuple[SeenDecision, ...]
    series: Series
    policy_error: str | None
    held: str | None = None  # why the pending event has no decision yet
    input_rate_factor: float = 1.0
    placed_among: tuple[str, ...] | None = None  # machines known when the topology was placed; None: an older service

    def all_placed(self) -> bool:
        return 0 < self.tasks_total == self.tasks_placed


def read_state(data: Mapping[str, Any]) -> ServiceState:
    """From the contract's JSON. Raises KeyError, TypeError or ValueError where it is not that."""
    pending = data["pending_event"]
    columns = data["series"]
    return ServiceState(
        run_id=data["run_id"],
        t=float(data["t"]),
        policy=data["policy"],
        machines=tuple(data["machines"]),
        samples_age_s=data["samples_age_s"],
        workers_reporting=int(data["workers_reporting"]),
        tasks_placed=int(data["tasks_placed"]),
        tasks_total=int(data["tasks_total"]),
        pending_event=pending["event_id"] if isinstance(pending, Mapping) else pending,
        decisions=tuple(_decision(each) for each in data["decisions"]),
        series=Series(
            t=tuple(columns["t"]),
            sinks=tuple(columns["sinks"]),
            spouts=tuple(columns["spouts"]),
            due=tuple(columns["due"]),
            queues={component: tuple(waiting) for component, waiting in columns["queues"].items()},
        ),
        policy_error=data["policy_error"],
        held=data["held"],
        input_rate_factor=float(data["input_rate_factor"]),
        placed_among=tuple(data["placed_among"]) if "placed_among" in data else None,
    )


def _decision(data: Mapping[str, Any]) -> SeenDecision:
    return SeenDecision(
        decision_id=data["decision_id"],
        t=float(data["t"]),
        event_id=data.get("event_id"),
        reason=data.get("reason") or "",
        applied=bool(data["applied"]),
        applied_t=data.get("applied_t"),
        message=data.get("message") or "",
        release=tuple(data.get("release") or ()),
    )


def first_tuple_s(series: Series) -> int | None:
    """The first second in which a sink executed something."""
    return next((t for t, sinks in zip(series.t, series.sinks, strict=True) if sinks), None)


def since(series: Series, begin_s: float) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Seconds and sink counts from `begin_s` on; a second that began earlier is left out."""
    kept = [(t, n) for t, n in zip(series.t, series.sinks, strict=True) if t >= begin_s]
    return tuple(t for t, _ in kept), tuple(n for _, n in kept)


def throughput_now(series: Series, seconds: int = 5) -> float | None:
    """Mean tuples/s at the sinks over the newest seconds; None before there are any."""
    newest = [n for n in series.sinks[-seconds:] if n is not None]
    return sum(newest) / len(newest) if newest else None


def passed_over(state: ServiceState, expected: Collection[str]) -> tuple[str, ...]:
    """Machines that were not there when the topology was placed, so that it runs without them."""
    known = state.placed_among
    return () if known is None else tuple(name for name in expected if name not in known)


def absent(state: ServiceState, expected: Collection[str]) -> tuple[str, ...]:
    """Machines that Nimbus should know and does not."""
    return tuple(name for name in expected if name not in state.machines)


@dataclass(frozen=True)
class Applied:
    """How a scale event ended. `failed` is the bridge's message where Storm refused a decision."""

    decision_ids: tuple[str, ...]
    last_t: float | None
    failed: str | None = None
    release: tuple[str, ...] = ()
    reason: str = ""  # the last decision's


def event_outcome(state: ServiceState, event_id: str) -> Applied | None:
    """None while the event or one of its decisions is pending; an event may end without any decision."""
    mine = [decision for decision in state.decisions if decision.event_id == event_id]
    refused = next((d for d in mine if d.applied_t is not None and not d.applied), None)
    ids, reason = tuple(decision.decision_id for decision in mine), mine[-1].reason if mine else ""
    if refused is not None:
        failed = f"decision {refused.decision_id}: {refused.message or 'not applied'}"
        return Applied(ids, refused.applied_t, failed, reason=reason)
    if state.pending_event == event_id or any(decision.applied_t is None for decision in mine):
        return None
    last_t = max((d.applied_t for d in mine if d.applied_t is not None), default=None)
    return Applied(ids, last_t, None, tuple(name for d in mine for name in d.release), reason)


def back_at_work(state: ServiceState, since_s: float) -> str | None:
    """Why the topology has not recovered from what happened at `since_s` (epoch seconds); None: it has."""
    if not state.all_placed():
        return f"{state.tasks_placed} of {state.tasks_total} tasks are placed"
    if state.samples_age_s is None or state.t - state.samples_age_s <= since_s:
        return "a worker has sent nothing since"
    return None
