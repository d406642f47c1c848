"""The policy service without HTTP, for clusters in memory: the real one's state behind the harness's client.

What is refused has the words that come over HTTP.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barograph.policy_service import ServiceRefused, ServiceState, read_state
from scheduler_plugins import service_state
from scheduler_plugins.messages import MessageError
from scheduler_plugins.service import TimedDecisions
from scheduler_plugins.service_state import CallRefusal, Outcome, Postponement, Round


class InProcessService:
    """`state` gives the service's state: a cluster in memory may have another one in each run."""

    def __init__(self, state: Callable[[], service_state.ServiceState]) -> None:
        self._state = state

    def configure(
        self,
        run_id: str,
        policy: str,
        parameters: Mapping[str, Any],
        seed: int,
        window_s: float,
        service_levels: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        body = {"run_id": run_id, "policy": policy, "parameters": dict(parameters), "seed": seed, "window_s": window_s}
        if service_levels:
            body["service_levels"] = {name: dict(level) for name, level in service_levels.items()}
        self._call("/configure", lambda: self._state().configure(body))

    def scale(self, event_id: str, kind: str, joined: Sequence[str], leave: int) -> None:
        body = {"event_id": event_id, "kind": kind, "joined": list(joined), "leave": leave}
        self._call("/scale", lambda: self._state().scale(body))

    def decide_every(self, seconds: float | None, machines: tuple[int, int] | None = None) -> None:
        limits = {"machines": dict(zip(("min", "max"), machines, strict=True))} if machines else {}
        self._call("/rounds", lambda: self._state().change_rounds({"decide_every_s": seconds, **limits}))

    def end_machine_request(self, request_id: str, outcome: str, machines: Sequence[str] = (), why: str = "") -> None:
        body = {"request_id": request_id, "outcome": outcome, "machines": list(machines), "message": why}
        self._call("/machines", lambda: self._state().end_machine_request(body))

    def input_rate(self, factor: float) -> None:
        self._call("/input_rate", lambda: self._state().change_input_rate({"factor": factor}))

    def input_rate_changes(
        self, since_s: float, changes: Sequence[tuple[float, float]], topology: str | None, source: str | None
    ) -> None:
        body = {
            "since": since_s,
            "changes": [list(change) for change in changes],
            "topology": topology,
            "source": source,
        }
        self._call("/input_rate", lambda: self._state().change_input_rate(body))

    def state(self) -> ServiceState:
        return read_state(self._call("/state", lambda: self._state().state()))

    def _call(self, path: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return call()
        except CallRefusal as refused:
            raise _refusal(path, refused.status, str(refused)) from refused
        except (MessageError, ValueError, KeyError, TypeError) as error:
            raise _refusal(path, 400, f"{type(error).__name__}: {error}") from error


def _refusal(path: str, status: int, why: str) -> ServiceRefused:
    return ServiceRefused(f"{path} of the policy service answered {status}: {json.dumps({'error': why})}")


MOST_TRIES, AGAIN_S = 600, 0.1


class PatientDecisions:
    """Asks policies with the service's own limit, in time of the box. One that has had no CPU is asked again: how busy
    this box is must not be a part of what is simulated."""

    def __init__(self) -> None:
        self._timed = TimedDecisions()

    def decide(self, round: Round) -> Outcome:
        outcome = self._timed.decide(round)
        for _ in range(MOST_TRIES):
            if not isinstance(outcome, Postponement):
                break
            time.sleep(AGAIN_S)  # not to take its CPU from the policy that is waited for
            outcome = self._timed.decide(round)
        return outcome  # one that is postponed to the end counts for nobody, as in front of Nimbus
