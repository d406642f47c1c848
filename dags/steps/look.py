"""Look at a run once a second until something is so, or something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dags.errors import RunBroken
from dags.run_record import Clock, Listener
from dags.service_client import ServiceClient, ServiceUnreachable
from dags.service_state import ServiceState, absent, throughput_now
from dags.watch import Patience, trouble

Answer = TypeVar("Answer")
EVERY_S = 1.0


@dataclass
class Look:
    """Watches one run; `expected` says which machines Nimbus has to know now, `alarm` raises what ends the run now."""

    service: ServiceClient
    clock: Clock
    listener: Listener
    expected: Callable[[], Sequence[str]]
    alarm: Callable[[], None]
    last_symptom: str = ""
    last: ServiceState | None = None
    _absent_since_s: float | None = field(default=None, init=False)

    def until(
        self,
        question: Callable[[ServiceState], Answer | None],
        *,
        limit_s: float | None,
        what: str,
        patience: Patience,
    ) -> Answer:
        """The first answer that is not None. Raises RunBroken on trouble, or after `limit_s` seconds without one."""
        begin_s = self.clock.now()
        while True:
            self.alarm()
            state = self._state(patience)
            answer = question(state)
            if answer is not None:
                return answer
            self._complain(state, patience)
            if limit_s is not None and self.clock.now() - begin_s >= limit_s:
                self.last_symptom = "time"
                raise RunBroken(f"{what} within {limit_s:g} s; {_stand(state)}")
            self.clock.sleep(EVERY_S)

    def _state(self, patience: Patience) -> ServiceState:
        begin_s = self.clock.now()
        while True:
            try:
                state = self.service.state()
            except ServiceUnreachable:
                if self.clock.now() - begin_s >= patience.unreachable_s:
                    self.last_symptom = "unreachable"
                    raise
                self.clock.sleep(EVERY_S)
                continue
            self.last = state
            self.listener.tell("throughput", run_id=state.run_id, per_s=throughput_now(state.series))
            return state

    def _complain(self, state: ServiceState, patience: Patience) -> None:
        found = trouble(state, self.expected(), self._absent_for_s(state), patience)
        if found is not None:
            self.last_symptom = found.symptom
            raise RunBroken(f"{found.message}; {state.held}" if state.held else found.message)

    def _absent_for_s(self, state: ServiceState) -> float:
        if not absent(state, self.expected()):
            self._absent_since_s = None
            return 0.0
        if self._absent_since_s is None:
            self._absent_since_s = self.clock.now()
        return self.clock.now() - self._absent_since_s


def _stand(state: ServiceState) -> str:
    """What the run waits for: the policy that holds, else Storm's placing, else the workers."""
    if state.held:
        return f"policy {state.policy}: {state.held}"
    if state.tasks_placed < state.tasks_total:
        return f"{state.tasks_placed} of {state.tasks_total} tasks are placed"
    return f"{state.workers_reporting} workers report"
