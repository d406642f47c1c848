"""The policy service without HTTP, for clusters in memory: the real one's state behind the harness's client.

Refusals have the same words as over HTTP.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from barograph.policy_service import ServiceClient, ServiceRefused
from barograph.run.code_service import CodeService
from scheduler_plugins.service.messages import MessageError
from scheduler_plugins.service.policy_call import Outcome, Postponement, Round
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.server import CALLS
from scheduler_plugins.service.state import ServiceState
from scheduler_plugins.service.timed_decisions import HangWatch, TimedDecisions


class InProcessService(ServiceClient):
    """A client in process. `state` returns the service's state: a cluster in memory may have another one in each run,
    or another code's.
    """

    def __init__(self, state: Callable[[], ServiceState | CodeService]) -> None:
        self._state = state

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        state = self._state()
        if isinstance(state, CodeService):
            return state.call(path, body)
        answer = CALLS["GET" if body is None else "POST", path]
        try:
            return answer(state, json.dumps(body).encode(), {})
        except CallRefusal as refused:
            raise _refusal(path, refused.status, str(refused)) from refused
        except (MessageError, ValueError, KeyError, TypeError) as error:
            raise _refusal(path, 400, f"{type(error).__name__}: {error}") from error


def _refusal(path: str, status: int, why: str) -> ServiceRefused:
    return ServiceRefused(f"{path} of the policy service answered {status}: {json.dumps({'error': why})}")


MOST_TRIES, AGAIN_S = 600, 0.1


class PatientDecisions:
    """Run policies with the service's own limits, in time of the box. One without CPU time is run again: the load of
    this box must not affect the simulation."""

    def __init__(self, watch: HangWatch) -> None:
        self._timed = TimedDecisions(watch=watch)

    def decide(self, round: Round) -> Outcome:
        outcome = self._timed.decide(round)
        for _ in range(MOST_TRIES):
            if not isinstance(outcome, Postponement):
                break
            time.sleep(AGAIN_S)  # not to take the awaited policy's CPU
            outcome = self._timed.decide(round)
        return outcome  # an outcome postponed to the end counts for nobody, as in front of Nimbus
