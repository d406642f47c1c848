"""Machine requests of a policy in a hold, one at a time, and their outcomes. Pure.

A request is under way until the harness reports its outcome. Requests meanwhile, or beyond the experiment's limits, are
refused at once and counted; the rest of the decision stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from scheduler_plugins.model import Decision, HeldRequest, MachineLimits, Observation
from scheduler_plugins.service.run_snapshot import PolicyRequest

Ending = Literal["done", "refused", "failed"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)


class RequestRefusal(Exception):
    """An answer without a matching request under way; `status` is the HTTP status."""

    blame = "configuration"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class RequestStatus:
    """A request as the service stores it. `times`: how often in a row the policy asked in vain for the same reason."""

    request: HeldRequest
    t: float
    decision_id: str | None = None  # None: refused at once
    reason: str = ""  # the policy's
    ended_t: float | None = None
    times: int = 1


@dataclass
class MachineRequests:
    """The requests of one run, oldest first."""

    statuses: list[RequestStatus] = field(default_factory=list)
    _number: int = 0

    def under_way(self) -> RequestStatus | None:
        return next((status for status in self.statuses if status.request.outcome == "under_way"), None)

    def shown(self) -> tuple[HeldRequest, ...]:
        """Return for the policy the newest finished request, and the one under way."""
        endings = [status for status in self.statuses if status.ended_t is not None]
        newest = max(endings, key=lambda status: status.ended_t or 0.0, default=None)
        return tuple(status.request for status in (newest, self.under_way()) if status is not None)

    def add(self, decision: Decision, decision_id: str, t: float) -> None:
        """Add a request, which the harness carries out once its decision stands."""
        request = replace(_request_of(decision), request_id=self._next_id())
        self.statuses.append(RequestStatus(request, t, decision_id, decision.reason))

    def refuse(self, decision: Decision, why: str, t: float) -> None:
        newest = self.statuses[-1] if self.statuses else None
        request = replace(_request_of(decision), outcome="refused", why=why)
        if newest is not None and replace(newest.request, request_id="") == request:
            newest.ended_t, newest.times = t, newest.times + 1
        else:
            numbered = replace(request, request_id=self._next_id())
            self.statuses.append(RequestStatus(numbered, t, None, decision.reason, t))

    def withdraw(self, decision_id: str) -> None:
        """Remove a request whose decision was withdrawn before anybody acted on it."""
        self.statuses = [status for status in self.statuses if status.decision_id != decision_id]

    def is_under_way(self, request_id: Any) -> bool:
        open_ = self.under_way()
        return open_ is not None and open_.request.request_id == str(request_id)

    def end(self, body: Mapping[str, Any], t: float) -> HeldRequest:
        """Take the harness's outcome: `request_id`, `outcome`, `machines`, `message`. A repeated report changes
        nothing: the answer may have been lost. Raises RequestRefusal."""
        outcome, machines, message = body.get("outcome"), body.get("machines") or (), str(body.get("message") or "")
        if outcome not in ENDINGS:
            raise RequestRefusal(400, f"machines: outcome is {outcome!r}; allowed are {', '.join(ENDINGS)}")
        if not isinstance(machines, list | tuple) or not all(isinstance(name, str) for name in machines):
            raise RequestRefusal(400, f"machines: machines is {machines!r}; allowed is a list of names")
        match = next((each.request for each in self.statuses if _was_said(each.request, body)), None)
        return match or self._end(self._open_one(str(body.get("request_id"))), outcome, tuple(machines), message, t)

    def fail_release(self, decision_id: str, why: str, t: float) -> None:
        """Fail a release whose decision was not carried out, so that its machines may still be in use."""
        status = self.under_way()
        if status is not None and status.request.kind == "release" and status.decision_id == decision_id:
            why = f"decision {decision_id} was not carried out: {why}"
            status.request, status.ended_t = replace(status.request, outcome="failed", why=why), t

    def snapshot(self, is_ready: Callable[[RequestStatus], bool]) -> tuple[PolicyRequest, ...]:
        """Return the requests for the harness; `is_ready` tells whether one under way should be carried out now."""
        return tuple(
            PolicyRequest(
                **vars(status.request),
                t=status.t,
                reason=status.reason,
                decision_id=status.decision_id,
                ended_t=status.ended_t,
                times=status.times,
                ready=status.request.outcome == "under_way" and is_ready(status),
            )
            for status in self.statuses
        )

    def _next_id(self) -> str:
        self._number += 1
        return f"q{self._number}"

    def _open_one(self, request_id: str) -> RequestStatus:
        status = next((each for each in self.statuses if each.request.request_id == request_id), None)
        if status is not None and status.request.outcome == "under_way":
            return status
        open_ = self.under_way()
        problem = f"request {request_id} is over" if status else f"there is no request {request_id}"
        open_id = open_.request.request_id if open_ else "none"
        raise RequestRefusal(409, f"machines: {problem}; under way is {open_id}")

    def _end(
        self, status: RequestStatus, outcome: Ending, machines: tuple[str, ...], message: str, t: float
    ) -> HeldRequest:
        request = status.request
        if outcome != "done" and not message:
            raise RequestRefusal(
                400, f"machines: request {request.request_id} is {outcome}, and message does not say why"
            )
        if outcome == "done" and not _is_answer(request, machines):
            expected_text = ", ".join(request.machines) or f"the names of {request.number} that joined"
            given_text = ", ".join(machines) or "empty"
            raise RequestRefusal(
                400, f"machines: machines is {given_text}; request {request.request_id} allows {expected_text}"
            )
        result_machines = machines if outcome == "done" else request.machines
        status.request = replace(request, outcome=outcome, machines=result_machines, why=message)
        status.ended_t = t
        return status.request


def _was_said(request: HeldRequest, body: Mapping[str, Any]) -> bool:
    """Return whether the harness has ended the request with exactly this report."""
    report = (request.request_id, request.outcome, request.why)
    if report != (str(body.get("request_id")), body.get("outcome"), str(body.get("message") or "")):
        return False
    return request.outcome != "done" or request.machines == tuple(body.get("machines") or ())


def _is_answer(asked: HeldRequest, machines: tuple[str, ...]) -> bool:
    if asked.kind == "release":
        return sorted(machines) == sorted(asked.machines)
    return len(set(machines)) == len(machines) == asked.number


def _request_of(decision: Decision) -> HeldRequest:
    """Return the request, without an id."""
    if decision.acquire:
        return HeldRequest("", "acquire", decision.acquire)
    machines = tuple(dict.fromkeys(decision.release))
    return HeldRequest("", "release", len(machines), machines)


def why_refused(observation: Observation, decision: Decision, open_: HeldRequest | None) -> str:
    """Return why the harness is not asked; empty: it is. `open_`: the request that is under way."""
    if open_ is not None:
        return f"request {open_.request_id} ({open_.kind} {open_.number}) is under way; ask again once it is over"
    if decision.acquire and decision.release:
        requests = f"acquire is {decision.acquire} and release is {', '.join(decision.release)}"
        return f"{requests}; one request at a time"
    limits = observation.machine_limits
    if limits is None:
        bound = "max" if decision.acquire else "min"
        return f"the experiment's machines has no {bound}: the policy can neither acquire nor release any"
    return _beyond_max(decision.acquire, limits) if decision.acquire else _below_min(observation, decision, limits)


def _beyond_max(number: int, limits: MachineLimits) -> str:
    limit = max(0, limits.max - limits.now)
    if number <= limit:
        return ""
    return f"acquire is {number}; allowed: at most {limit}, for {limits.now} are there and machines.max is {limits.max}"


def _below_min(observation: Observation, decision: Decision, limits: MachineLimits) -> str:
    living = {machine.name for machine in observation.machines if machine.alive}
    leaving = set(decision.release)
    if absent := sorted(leaving - living):
        return f"release is {', '.join(decision.release)}; {', '.join(absent)} is not alive, or has been released"
    limit = max(0, limits.now - limits.min)
    if len(leaving) <= limit:
        return ""
    names = ", ".join(decision.release)
    return f"release is {names}; allowed: at most {limit}, for {limits.now} are there and machines.min is {limits.min}"
