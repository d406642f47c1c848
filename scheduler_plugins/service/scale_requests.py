"""Requests for other machines: scale events of the harness, and what a policy asks for in a hold. Pure.

A policy has one request at a time, under way until the harness reports its outcome. Requests meanwhile, or beyond the
experiment's limits, are refused at once and counted; the rest of the decision stands.

Errors: CallRefusal, a call of the harness that cannot be served.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from scheduler_plugins.model import Decision, HeldRequest, Observation, ScaleEvent
from scheduler_plugins.service.run_snapshot import PolicyRequest


class CallRefusal(Exception):
    """A call that cannot be served now or with these values; `status` is the HTTP status."""

    blame = "configuration"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def scale_event_from(
    body: Mapping[str, Any], kinds: Collection[str], policy: str, machines: Sequence[str]
) -> ScaleEvent:
    """Return the event of a body; `kinds`: those that `policy` answers, `machines`: living ones that are not
    released."""
    event_id, kind, leave = str(body["event_id"]), body.get("kind"), body.get("leave", 0)
    joined = tuple(map(str, body.get("joined") or ()))
    if kind not in kinds:
        raise CallRefusal(400, f"scale: kind is {kind!r}; {policy} answers {', '.join(sorted(kinds))}")
    if kind == "reschedule":
        if joined or leave:
            changes = f"joined is {', '.join(joined) or 'none'} and leave is {leave!r} with a reschedule"
            raise CallRefusal(400, f"scale: {changes}; allowed are none and 0: the machines stay the same")
        return ScaleEvent(event_id, "reschedule")
    if kind == "scale_out":
        if not joined:
            raise CallRefusal(400, "scale: a scale_out without machines that joined; name them in `joined`")
        if leave:
            allowed = "allowed is 0, or a scale_in of its own"
            raise CallRefusal(400, f"scale: leave is {leave!r} with a scale_out; {allowed}")
        if strangers := sorted(set(joined) - set(machines)):
            names = ", ".join(machines) or "none"
            raise CallRefusal(409, f"scale: machine {strangers[0]} is not known to Nimbus yet; known are {names}")
        return ScaleEvent(event_id, "scale_out", joined)
    if joined:
        raise CallRefusal(400, f"scale: joined is {', '.join(joined)} with a scale_in; allowed is none")
    if not machines:
        raise CallRefusal(409, "scale: Nimbus has not said yet which machines there are; wait for a scheduling round")
    limit = len(machines) - 1
    if type(leave) is not int or not 1 <= leave <= limit:
        allowed = f"allowed are 1 to {limit}" if limit else "nothing is allowed"
        state = f"{', '.join(machines)} {'are' if limit else 'is'} alive"
        raise CallRefusal(400, f"scale: leave is {leave!r}; {allowed}: at least one machine must stay, and {state}")
    return ScaleEvent(event_id, "scale_in", leave=leave)


def limits_from(machines: Any) -> tuple[int, int] | None:
    """Return the least and the largest number of machines of a policy; None: it may request none. Raises
    CallRefusal."""
    if machines is None:
        return None
    lower, upper = (machines.get("min"), machines.get("max")) if isinstance(machines, Mapping) else (None, None)
    if type(lower) is int and type(upper) is int and 1 <= lower <= upper:
        return lower, upper
    limits = "null, or min and max, whole numbers from 1 and min at most max"
    raise CallRefusal(400, f"rounds: machines is {machines!r}; allowed is {limits}")


Ending = Literal["done", "refused", "failed"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)


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
        nothing: the answer may have been lost. Raises CallRefusal."""
        outcome, machines, message = body.get("outcome"), body.get("machines") or (), str(body.get("message") or "")
        request_id = str(body.get("request_id"))
        if outcome not in ENDINGS:
            raise CallRefusal(400, f"machines: outcome is {outcome!r}; allowed are {', '.join(ENDINGS)}")
        if not isinstance(machines, list | tuple) or not all(isinstance(name, str) for name in machines):
            raise CallRefusal(400, f"machines: machines is {machines!r}; allowed is a list of names")
        names = tuple(machines)
        status = next((each for each in self.statuses if each.request.request_id == request_id), None)
        if status is None or status.request.outcome != "under_way":
            report = (outcome, message, names if outcome == "done" else status and status.request.machines)
            if status and (status.request.outcome, status.request.why, status.request.machines) == report:
                return status.request
            open_ = self.under_way()
            problem = f"request {request_id} is over" if status else f"there is no request {request_id}"
            raise CallRefusal(409, f"machines: {problem}; under way is {open_.request.request_id if open_ else 'none'}")
        request = status.request
        if outcome != "done" and not message:
            raise CallRefusal(400, f"machines: request {request_id} is {outcome}, and message does not say why")
        if outcome == "done":
            is_release = request.kind == "release"
            fits = sorted(names) == sorted(request.machines) if is_release else len(set(names)) == request.number
            if not fits or len(set(names)) != len(names):
                allowed = ", ".join(request.machines) or f"the names of {request.number} that joined"
                given = ", ".join(names) or "empty"
                raise CallRefusal(400, f"machines: machines is {given}; request {request_id} allows {allowed}")
            request = replace(request, machines=names)
        status.request, status.ended_t = replace(request, outcome=outcome, why=message), t
        return status.request

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
    if decision.acquire:
        limit = max(0, limits.max - limits.now)
        bound = f"for {limits.now} are there and machines.max is {limits.max}"
        return "" if decision.acquire <= limit else f"acquire is {decision.acquire}; allowed: at most {limit}, {bound}"
    leaving, limit = set(decision.release), max(0, limits.now - limits.min)
    words = f"release is {', '.join(decision.release)}"
    if absent := sorted(leaving - {machine.name for machine in observation.machines if machine.alive}):
        return f"{words}; {', '.join(absent)} is not alive, or has been released"
    bound = f"for {limits.now} are there and machines.min is {limits.min}"
    return "" if len(leaving) <= limit else f"{words}; allowed: at most {limit}, {bound}"
