"""The harness's side of the policy service: its state of a run (`GET /state`) as values, what follows from them, and
its client, over HTTP on the control LAN. Everything but clients is pure.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barograph.errors import BarographError
from playbooks.cluster import CERTIFICATE_NAME, HARNESS_TOKEN_NAME
from scheduler_plugins.service.messages import oldest


@dataclass(frozen=True)
class ServiceDecision:
    decision_id: str
    t: float
    event_id: str | None
    reason: str
    applied: bool
    applied_t: float | None
    message: str
    release: tuple[str, ...] = ()  # machines that may leave once this is applied
    expired: bool = False  # Nimbus never said what became of it
    arrived: bool = True  # Nimbus has it; one that did not arrive may be taken back
    slots: tuple[str, ...] | None = None  # whose workers restart for it; None: any may
    own: bool = False  # the policy acted by itself, in a hold

    def restarts(self, slot: str, t: float, until_s: float) -> bool:
        """Whether a worker that begins in this slot then does so for this decision, `until_s` after it was applied."""
        applied_s = math.inf if self.applied_t is None else self.applied_t
        return self.t <= t <= applied_s + until_s and (self.slots is None or slot in self.slots)


@dataclass(frozen=True)
class PolicyRequest:
    """What the policy asks of the machines by itself, and what became of it."""

    request_id: str
    kind: str  # acquire, release
    number: int
    machines: tuple[str, ...]  # that are to leave; of `acquire` those that joined, once it is done
    t: float
    reason: str = ""  # the policy's
    decision_id: str | None = None
    outcome: str = "under_way"  # done, refused, failed
    why: str = ""
    ended_t: float | None = None
    times: int = 1  # asked in vain for the same reason, one time after the other
    ready: bool = False  # it is to be carried out now


@dataclass(frozen=True)
class WorkerRestart:
    """Another process in a slot, or of spouts, than before: these were gone meanwhile."""

    t: float
    slot: str
    spouts: tuple[int, ...] = ()  # their tasks
    topology: str = ""


@dataclass(frozen=True)
class LostTasks:
    """So many tasks lost their slots on these machines, and no rebalance is under way."""

    t: float
    tasks: int
    machines: tuple[str, ...]
    topology: str = ""


@dataclass(frozen=True)
class Move:
    """Tasks changed their slots without a rebalance, in the round after `t`: these slots' workers restart for it."""

    t: float
    slots: tuple[str, ...]


@dataclass(frozen=True)
class TupleCounts:
    """Tuples a second, a row each `step_s` seconds, oldest first; columns of equal length; None where nothing was
    measured."""

    t: tuple[int, ...] = ()  # ends of rows
    sinks: tuple[float | None, ...] = ()
    spouts: tuple[float | None, ...] = ()
    due: tuple[float | None, ...] = ()
    queues: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # waiting tuples by component
    step_s: int = 1


@dataclass(frozen=True)
class TopologyStatus:
    """One topology of the run, as its policy service knows it."""

    name: str  # in Storm; "" from an older service
    series: TupleCounts
    running: bool = True  # Nimbus had it in the newest round
    rebalancing: bool = False
    tasks_placed: int = 0
    tasks_total: int = 0
    placed_among: tuple[str, ...] | None = None  # machines known when it was placed; None: an older service
    unplaceable: bool = False  # the policy was asked, and found no slot for it


@dataclass(frozen=True)
class ServiceState:
    """What the service says of a run. Numbers beside `topologies` are of all that run."""

    run_id: str | None
    t: float
    policy: str | None
    machines: tuple[str, ...]
    samples_age_s: float | None
    workers_reporting: int
    tasks_placed: int
    tasks_total: int
    pending_event: str | None
    decisions: tuple[ServiceDecision, ...]
    policy_error: str | None
    waiting_for: str | None = None  # why the pending event has no decision yet
    input_rate_factor: float = 1.0
    nimbus_age_s: float | None = None  # since Nimbus last asked in this run; None: not yet, or an older service
    worker_restarts: tuple[WorkerRestart, ...] = ()
    lost_tasks: tuple[LostTasks, ...] = ()
    moves: tuple[Move, ...] = ()
    window_fault: str = ""  # why rates cannot be used for a decision; an older service does not say
    topologies: tuple[TopologyStatus, ...] = ()  # all that there were in the run, oldest first
    machine_requests: tuple[PolicyRequest, ...] = ()  # oldest first
    sample_s: int = 1  # how often workers write; an older service does not say
    policy_hang: Mapping[str, str] | None = None  # `run_id` and `why`, of the service process before this one
    machines_since: Mapping[str, float] = field(default_factory=dict)  # of `machines`, the first round that had each

    def open_request(self) -> PolicyRequest | None:
        """The machine request that is under way, whether or not it is ready."""
        return next((each for each in self.machine_requests if each.outcome == "under_way"), None)

    def all_placed(self) -> bool:
        """Whether every task has a slot, but for those of topologies for which there is none."""
        waiting = sum(each.tasks_total - each.tasks_placed for each in self.topologies if each.unplaceable)
        return 0 < self.tasks_placed == self.tasks_total - waiting

    def topology(self, name: str) -> TopologyStatus | None:
        """None before the policy service has seen it. An older service names none, and knows one only."""
        return next((each for each in self.topologies if each.name in (name, "")), None)


def read_state(data: Mapping[str, Any]) -> ServiceState:
    """From the contract's JSON. Raises KeyError, TypeError or ValueError where it is not that."""
    pending, sample_s = data["pending_event"], int(data.get("sample_s", 1))
    shown = _topologies(data)
    running = [topology for topology in shown if topology["running"]]
    placeable = [topology for topology in running if not topology.get("unplaceable")] or running
    return ServiceState(
        run_id=data["run_id"],
        t=float(data["t"]),
        policy=data["policy"],
        machines=tuple(data["machines"]),
        samples_age_s=oldest([topology["samples_age_s"] for topology in placeable]),
        workers_reporting=sum(int(topology["workers_reporting"]) for topology in running),
        tasks_placed=sum(int(topology["tasks_placed"]) for topology in running),
        tasks_total=sum(int(topology["tasks_total"]) for topology in running),
        pending_event=pending["event_id"] if isinstance(pending, Mapping) else pending,
        decisions=tuple(_decision(each) for each in data["decisions"]),
        policy_error=data["policy_error"],
        waiting_for=data["held"],
        input_rate_factor=float(data["input_rate_factor"]),
        nimbus_age_s=data.get("nimbus_age_s"),
        worker_restarts=tuple(
            WorkerRestart(float(each["t"]), each["slot"], tuple(each["spouts"]), topology.get("name", ""))
            for topology in shown
            for each in topology.get("worker_restarts", ())
        ),
        lost_tasks=tuple(
            LostTasks(float(each["t"]), int(each["tasks"]), tuple(each["machines"]), topology.get("name", ""))
            for topology in shown
            for each in topology.get("lost_tasks", ())
        ),
        moves=tuple(
            Move(float(each["t"]), tuple(each["slots"])) for topology in shown for each in topology.get("moves", ())
        ),
        window_fault=next((fault for topology in placeable if (fault := topology.get("window_fault"))), ""),
        topologies=tuple(_topology(each, sample_s) for each in shown),
        machine_requests=tuple(policy_request(each) for each in data.get("machine_requests", ())),
        sample_s=sample_s,
        policy_hang=data.get("policy_hang"),
        machines_since=data.get("machines_since", {}),
    )


def policy_request(data: Mapping[str, Any]) -> PolicyRequest:
    return PolicyRequest(**{**data, "machines": tuple(data["machines"])})


def _topologies(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Of a run that has one topology; what an older service says of its only one stands beside the rest."""
    shown: Sequence[Mapping[str, Any]] | None = data.get("topologies")
    return [{**data, "running": True}] if shown is None else shown


def _topology(shown: Mapping[str, Any], sample_s: int) -> TopologyStatus:
    return TopologyStatus(
        name=shown.get("name", ""),
        series=_series(shown["series"], sample_s),
        running=bool(shown["running"]),
        rebalancing=bool(shown.get("rebalancing")),
        tasks_placed=int(shown["tasks_placed"]),
        tasks_total=int(shown["tasks_total"]),
        placed_among=tuple(shown["placed_among"]) if "placed_among" in shown else None,
        unplaceable=bool(shown.get("unplaceable")),
    )


def _series(columns: Mapping[str, Any], step_s: int) -> TupleCounts:
    return TupleCounts(
        t=tuple(columns["t"]),
        sinks=tuple(columns["sinks"]),
        spouts=tuple(columns["spouts"]),
        due=tuple(columns["due"]),
        queues={component: tuple(waiting) for component, waiting in columns["queues"].items()},
        step_s=step_s,
    )


def _decision(data: Mapping[str, Any]) -> ServiceDecision:
    return ServiceDecision(
        decision_id=data["decision_id"],
        t=float(data["t"]),
        event_id=data.get("event_id"),
        reason=data.get("reason") or "",
        applied=bool(data["applied"]),
        applied_t=data.get("applied_t"),
        message=data.get("message") or "",
        release=tuple(data.get("release") or ()),
        expired=bool(data.get("expired", False)),
        arrived=bool(data.get("arrived", True)),
        slots=None if data.get("slots") is None else tuple(data["slots"]),
        own=bool(data.get("own", False)),
    )


def first_tuple_s(series: TupleCounts) -> int | None:
    """The end of the first row in which a sink executed something."""
    return next((t for t, sinks in zip(series.t, series.sinks, strict=True) if sinks), None)


def counts_since(series: TupleCounts, begin_s: float) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Ends and sink rates of rows from `begin_s` on; one with a second that ended earlier is left out."""
    pairs = [(t, n) for t, n in zip(series.t, series.sinks, strict=True) if t - series.step_s + 1 >= begin_s]
    return tuple(t for t, _ in pairs), tuple(n for _, n in pairs)


def throughput_now(state: ServiceState, seconds: int = 5) -> dict[str, float]:
    """Mean tuples/s at the sinks of each topology that runs, by name, over its newest seconds; none before these."""
    means = {}
    for topology in state.topologies:
        rows = max(1, seconds // topology.series.step_s)
        newest = [n for n in topology.series.sinks[-rows:] if n is not None]
        if newest and topology.running:
            means[topology.name] = sum(newest) / len(newest)
    return means


def machines_missed_by_placement(topology: TopologyStatus, expected: Collection[str]) -> tuple[str, ...]:
    """Machines that were not there when the topology was placed, so that it runs without them."""
    known = topology.placed_among
    return () if known is None else tuple(name for name in expected if name not in known)


def absent_machines(state: ServiceState, expected: Collection[str]) -> tuple[str, ...]:
    """Machines that Nimbus should know and does not."""
    return tuple(name for name in expected if name not in state.machines)


@dataclass(frozen=True)
class ScaleOutcome:
    """How a scale event ended. `failed` is the bridge's message where Storm refused a decision.

    `expired`: it failed because nobody said what became of it, which says nothing about the policy.
    """

    decision_ids: tuple[str, ...]
    last_t: float | None
    failed: str | None = None
    release: tuple[str, ...] = ()
    reason: str = ""  # the last decision's
    expired: bool = False


def scale_outcome(state: ServiceState, event_id: str) -> ScaleOutcome | None:
    """None while the event or one of its decisions is pending; an event may end without any decision."""
    mine = [decision for decision in state.decisions if decision.event_id == event_id]
    refused = next((d for d in mine if d.applied_t is not None and not d.applied), None)
    ids, reason = tuple(decision.decision_id for decision in mine), mine[-1].reason if mine else ""
    if refused is not None:
        failed = f"decision {refused.decision_id}: {refused.message or 'not applied'}"
        return ScaleOutcome(ids, refused.applied_t, failed, reason=reason, expired=refused.expired)
    if state.pending_event == event_id or any(decision.applied_t is None for decision in mine):
        return None
    last_t = max((d.applied_t for d in mine if d.applied_t is not None), default=None)
    return ScaleOutcome(ids, last_t, None, tuple(name for d in mine for name in d.release), reason)


def recovery_obstacle(state: ServiceState, since_s: float) -> str | None:
    """Why the topology has not recovered from what happened at `since_s` (epoch seconds); None: it has."""
    if not 0 < state.tasks_total == state.tasks_placed:
        return f"{state.tasks_placed} of {state.tasks_total} tasks are placed"
    if state.samples_age_s is None or state.t - state.samples_age_s <= since_s:
        return "a worker has sent nothing since"
    return None


SERVICE_PORT = 8700
RETRY_S = 0.5
REPEATABLE = ("/configure", "/machines")  # twice is as once, and a run ends without it
HARNESS_HEADER = "X-Barograph-Harness"


class ServiceUnreachable(BarographError):
    """No answer: the machine, the network or the service is down. Worth asking again."""

    blame = "infrastructure"


class ServiceRestarting(ServiceUnreachable):
    """It ends a policy that still computes, and answers again in a moment."""


class ServiceRefused(BarographError):
    """An answer, but not the one that the contract promises."""

    blame = "harness"


class ServiceClient(ABC):
    """The harness's calls to the policy service, with the bodies of docs/contracts.md; a way to it adds `call`.

    Each raises ServiceRefused for what the service refuses, and ServiceUnreachable where it does not answer.
    """

    @abstractmethod
    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the service's answer; without a body it is asked with GET."""

    def configure(
        self,
        run_id: str,
        policy: str,
        parameters: Mapping[str, Any],
        seed: int,
        window_s: float,
        service_levels: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """Forget the last run and begin this one. `service_levels`: by the topology's name in Storm."""
        body = {"run_id": run_id, "policy": policy, "parameters": dict(parameters), "seed": seed, "window_s": window_s}
        if service_levels:
            body["service_levels"] = {name: dict(level) for name, level in service_levels.items()}
        self.call("/configure", body)

    def scale(self, event_id: str, kind: str, joined: Sequence[str], leave: int) -> None:
        self.call("/scale", {"event_id": event_id, "kind": kind, "joined": list(joined), "leave": leave})

    def decide_every(self, seconds: float | None, machines: tuple[int, int] | None = None) -> None:
        """From now on the policy may change things by itself, so often; None: no longer. `machines`: the fewest and the
        most that it may have by its own requests; None: it may ask for none."""
        limits = {"machines": dict(zip(("min", "max"), machines, strict=True))} if machines else {}
        self.call("/rounds", {"decide_every_s": seconds, **limits})

    def end_machine_request(self, request_id: str, outcome: str, machines: Sequence[str] = (), why: str = "") -> None:
        """The request that is under way is done (by these machines), refused or failed."""
        body = {"request_id": request_id, "outcome": outcome, "machines": list(machines), "message": why}
        self.call("/machines", body)

    def input_rate(self, factor: float) -> None:
        """From now on spouts emit `factor` times the rate that the topology was submitted with."""
        self.call("/input_rate", {"factor": factor})

    def input_rate_changes(
        self, since_s: float, changes: Sequence[tuple[float, float]], topology: str | None, source: str | None
    ) -> None:
        """At these times, at most a minute ahead, the rate becomes the factor times the submitted one: of a course that
        began at `since_s`, for a source of a topology (None: for each)."""
        about = {"topology": topology, "source": source}
        self.call("/input_rate", {"since": since_s, "changes": [list(change) for change in changes], **about})

    def state(self) -> ServiceState:
        data = self.call("/state")
        try:
            return read_state(data)
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceRefused(f"/state of the policy service is not the contract's JSON: {error!r}") from error


class HttpService(ServiceClient):
    """`address` is the master's control address; the token is the content of the file (0600).

    Beside it may be `harness_token`, which the service asks for where it knows one, and `service.crt`: then it speaks
    TLS, with this certificate and no other. For `patience_s` a call that is the same twice as once is made again: to a
    service that begins anew, or after an answer that was lost.
    """

    def __init__(
        self,
        address: str,
        token_file: Path,
        *,
        port: int = SERVICE_PORT,
        timeout_s: float = 5.0,
        patience_s: float = 20.0,
    ) -> None:
        certificate = token_file.with_name(CERTIFICATE_NAME)
        self._url = f"{'https' if certificate.exists() else 'http'}://{address}:{port}"
        self._token_file = token_file
        self._timeout_s, self._patience_s = timeout_s, patience_s
        # A proxy from the environment must never see the control LAN.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if certificate.exists():
            context = ssl.create_default_context(cafile=certificate)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        end = time.monotonic() + (self._patience_s if path in REPEATABLE else 0.0)
        while True:
            try:
                return self._call(path, body)
            except ServiceUnreachable:
                if time.monotonic() >= end:
                    raise
                time.sleep(RETRY_S)

    def _call(self, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(self._url + path, headers=self._headers())
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise ServiceRestarting(f"the policy service at {self._url} begins anew") from error
            said = error.read(2000).decode(errors="replace").strip()
            raise ServiceRefused(f"{path} of the policy service answered {error.code}: {said}") from error
        except json.JSONDecodeError as error:
            raise ServiceRefused(f"{path} of the policy service did not answer JSON: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise ServiceUnreachable(f"the policy service at {self._url} does not answer: {error}") from error

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}
        own = self._token_file.with_name(HARNESS_TOKEN_NAME)
        return {**headers, HARNESS_HEADER: own.read_text().strip()} if own.exists() else headers
