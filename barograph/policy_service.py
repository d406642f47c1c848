"""The harness's side of the policy service: functions of its state of a run (`GET /state`), and its client, over HTTP
on the control LAN. Everything but clients is pure.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.errors import BarographError
from playbooks.cluster import CERTIFICATE_NAME, HARNESS_TOKEN_NAME
from scheduler_plugins.json_data import from_json
from scheduler_plugins.service.run_snapshot import RunSnapshot, TopologyStatus, TupleCounts


def first_tuple_s(series: TupleCounts) -> float | None:
    """Return the end of the first row in which a sink executed a tuple."""
    return next((t for t, sinks in zip(series.t, series.sinks, strict=True) if sinks), None)


def counts_since(series: TupleCounts, begin_s: float) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    """Return ends and throughput of rows from `begin_s` on; a row with a second that ended earlier is left out."""
    pairs = [(t, n) for t, n in zip(series.t, series.throughput, strict=True) if t - series.step_s + 1 >= begin_s]
    return tuple(t for t, _ in pairs), tuple(n for _, n in pairs)


def throughput_now(state: RunSnapshot, seconds: int = 5) -> dict[str, float]:
    """Return each running topology's mean throughput, tuples/s, by name, over its newest seconds; none before these."""
    means = {}
    for topology in state.topologies:
        rows = max(1, seconds // topology.series.step_s)
        newest = [n for n in topology.series.throughput[-rows:] if n is not None]
        if newest and topology.running:
            means[topology.name] = sum(newest) / len(newest)
    return means


def machines_missed_by_placement(topology: TopologyStatus, expected: Collection[str]) -> tuple[str, ...]:
    """Return machines that were absent when the topology was placed, so that it runs without them."""
    return tuple(name for name in expected if name not in topology.placed_among)


def absent_machines(state: RunSnapshot, expected: Collection[str]) -> tuple[str, ...]:
    """Return machines that Nimbus should know and does not."""
    return tuple(name for name in expected if name not in state.machines)


@dataclass(frozen=True)
class ScaleOutcome:
    """Outcome of a scale event. `failed` is the bridge's message where Storm refused a decision. `expired`: it failed
    because nobody reported the decision's outcome, which says nothing about the policy."""

    decision_ids: tuple[str, ...]
    last_t: float | None
    failed: str | None = None
    release: tuple[str, ...] = ()
    reason: str = ""  # the last decision's
    expired: bool = False


def scale_outcome(state: RunSnapshot, event_id: str) -> ScaleOutcome | None:
    """Return None while the event or one of its decisions is pending; an event may end without any decision."""
    decisions = [decision for decision in state.decisions if decision.event_id == event_id]
    refusal = next((d for d in decisions if d.applied_t is not None and not d.applied), None)
    ids, reason = tuple(decision.decision_id for decision in decisions), decisions[-1].reason if decisions else ""
    if refusal is not None:
        failure = f"decision {refusal.decision_id}: {refusal.message or 'not applied'}"
        return ScaleOutcome(ids, refusal.applied_t, failure, reason=reason, expired=refusal.expired)
    if state.pending_event == event_id or any(decision.applied_t is None for decision in decisions):
        return None
    last_t = max((d.applied_t for d in decisions if d.applied_t is not None), default=None)
    return ScaleOutcome(ids, last_t, None, tuple(name for d in decisions for name in d.release), reason)


def recovery_obstacle(state: RunSnapshot, since_s: float) -> str | None:
    """Return why the topology has not recovered from the event at `since_s` (epoch seconds); None: it has."""
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
    """No answer: the machine, the network or the service is down. Worth another try."""

    blame = "infrastructure"


class ServiceRefused(BarographError):
    """An answer, but not the one that the contract promises."""

    blame = "harness"


class ServiceClient(ABC):
    """The harness's calls to the policy service, with the bodies of docs/contracts.md; subclasses add `call`. Each
    raises ServiceRefused for a refusal, and ServiceUnreachable where the service does not answer."""

    @abstractmethod
    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of the service's answer; without a body the method is GET."""

    def configure(
        self,
        run_id: str,
        policy: str,
        parameters: Mapping[str, Any],
        seed: int,
        window_s: float,
        service_levels: Mapping[str, Mapping[str, float]] | None = None,
        throughput: Mapping[str, str] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Forget the last run and begin this one. `service_levels`, and where `throughput` is measured: by the
        topology's name in Storm. `groups`: the machines of each."""
        body = {"run_id": run_id, "policy": policy, "parameters": dict(parameters), "seed": seed, "window_s": window_s}
        if service_levels:
            body["service_levels"] = {name: dict(level) for name, level in service_levels.items()}
        if throughput:
            body["throughput"] = dict(throughput)
        if groups:
            body["groups"] = {name: list(machines) for name, machines in groups.items()}
        self.call("/configure", body)

    def scale(self, event_id: str, kind: str, joined: Sequence[str], leave: int) -> None:
        self.call("/scale", {"event_id": event_id, "kind": kind, "joined": list(joined), "leave": leave})

    def decide_every(self, seconds: float | None, machines: tuple[int, int] | None = None) -> None:
        """Let the policy change things by itself from now on, so often; None: no longer. `machines`: the fewest and the
        most that it may have by its own requests; None: it may request none."""
        limits = {"machines": dict(zip(("min", "max"), machines, strict=True))} if machines else {}
        self.call("/rounds", {"decide_every_s": seconds, **limits})

    def end_machine_request(self, request_id: str, outcome: str, machines: Sequence[str] = (), why: str = "") -> None:
        """Report the current request as done (by these machines), refused or failed."""
        body = {"request_id": request_id, "outcome": outcome, "machines": list(machines), "message": why}
        self.call("/machines", body)

    def input_rate(self, factor: float) -> None:
        """Set the rate of spouts to `factor` times the rate that the topology was submitted with."""
        self.call("/input_rate", {"factor": factor})

    def input_rate_changes(
        self, since_s: float, changes: Sequence[tuple[float, float]], topology: str | None, source: str | None
    ) -> None:
        """Set rates ahead: at these times, at most a minute ahead, the rate becomes the factor times the submitted one,
        for a course that began at `since_s`, for a source of a topology (None: for each)."""
        scope = {"topology": topology, "source": source}
        self.call("/input_rate", {"since": since_s, "changes": [list(change) for change in changes], **scope})

    def state(self) -> RunSnapshot:
        try:
            return from_json(RunSnapshot, self.call("/state"))
        except ValueError as error:
            raise ServiceRefused(f"/state of the policy service is not the contract's JSON: {error}") from error


class HttpService(ServiceClient):
    """`address` is the master's control address; the token is the content of the file (0600). Beside it may be
    `harness_token`, which the service requires where it knows one, and `service.crt`: then it speaks TLS, with this
    certificate and no other. For `patience_s` an idempotent call is repeated: to a service that restarts, or after a
    lost answer."""

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
                raise ServiceUnreachable(f"the policy service at {self._url} begins anew") from error
            detail = error.read(2000).decode(errors="replace").strip()
            raise ServiceRefused(f"{path} of the policy service answered {error.code}: {detail}") from error
        except json.JSONDecodeError as error:
            raise ServiceRefused(f"{path} of the policy service did not answer JSON: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise ServiceUnreachable(f"the policy service at {self._url} does not answer: {error}") from error

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token_file.read_text().strip()}"}
        harness_token = self._token_file.with_name(HARNESS_TOKEN_NAME)
        return {**headers, HARNESS_HEADER: harness_token.read_text().strip()} if harness_token.exists() else headers
