"""The run monitor: reads the policy service's state, once a second by default, until a condition holds or something is
wrong, with patience for absent machines. The end of a phase and the symptoms of trouble are pure functions: time is an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from analysis.metrics.steadiness import WINDOW_S, drain_reason
from barograph.errors import MachineLost, RunBroken
from barograph.policy_service import ServiceClient, ServiceUnreachable, absent_machines, counts_since, throughput_now
from barograph.series.run_record import Clock, Listener
from scheduler_plugins.service.run_snapshot import RunSnapshot, TupleCounts
from scheduler_plugins.service.samples import FRESH_S, limit_for

SteadyTest = Callable[[Sequence[float], Sequence[float | None]], tuple[bool, str]]
"""Ends of the series' rows and tuples a second in each → whether the series is steady, and why or why not."""


@dataclass(frozen=True)
class PhaseOutcome:
    steady: bool
    reason: str


@dataclass(frozen=True)
class PhaseEnd:
    """Look at the series from `begin_s` (epoch seconds) on; `floor_s` and `ceiling_s` count from `zero_s`.

    The test sees whole windows from the zero, as the analysis will: one look a window, and the same verdict.
    """

    zero_s: float
    begin_s: float
    floor_s: float
    ceiling_s: float

    def outcome(self, series: TupleCounts, now_s: float, is_steady: SteadyTest) -> PhaseOutcome | None:
        """Return the outcome; None: go on. At the ceiling the phase ends, steady or not, with the reason."""
        if now_s - self.zero_s < self.floor_s:
            return None
        ends, rates = counts_since(series, self.begin_s)
        number = len(ends)
        if (
            ends
        ):  # without the rows of a window that is not over; a row that began before the window does not belong to it
            number = max(0, number - round(ends[-1] - self.zero_s) % round(WINDOW_S) // series.step_s)
        steady, reason = is_steady(ends[:number], rates[:number])
        drain = drain_reason(series.queues, series.throughput, series.step_s) if steady else None
        if steady and drain is None:
            return PhaseOutcome(True, reason)
        reason = drain or reason
        if now_s - self.zero_s >= self.ceiling_s:
            return PhaseOutcome(False, f"not steady within {self.ceiling_s:g} s: {reason}")
        return None


def outcomes(
    watch: PhaseEnd, series: Mapping[str, TupleCounts], now_s: float, is_steady: SteadyTest
) -> dict[str, PhaseOutcome] | None:
    """Return each topology's outcome, once the phase is over for all of them. None: go on."""
    by_name = {name: watch.outcome(counts, now_s, is_steady) for name, counts in series.items()}
    phase_outcomes = {name: outcome for name, outcome in by_name.items() if outcome is not None}
    return phase_outcomes if phase_outcomes and len(phase_outcomes) == len(by_name) else None


def together(found: Mapping[str, PhaseOutcome]) -> PhaseOutcome:
    """Return one outcome for all: steady if all are, else the reasons of those that are not."""
    reasons = [f"{name}: {outcome.reason}" for name, outcome in found.items() if not outcome.steady]
    return PhaseOutcome(not reasons, "; ".join(reasons) or "every topology is")


def planned_s(actual_s: float, floor_s: float, ceiling_s: float) -> float:
    """Return the time that the experiment's own rule required; the rest of the wall time is the harness's overhead."""
    return min(max(actual_s, floor_s), ceiling_s)


@dataclass(frozen=True)
class Patience:
    """Seconds that a symptom may last before the run is given up."""

    silence_s: float = 25.0
    absence_s: float = 30.0
    unreachable_s: float = 15.0
    nimbus_s: float = 60.0  # it asks every other second; a scheduler that is not ours may need 10 for a round


FAILOVER_PATIENCE = Patience(
    silence_s=float("inf"), absence_s=45.0
)  # a machine is down: its workers' silence is no news
RESTART_PATIENCE = Patience(silence_s=75.0, absence_s=45.0)  # workers that move start under their machine's quota


@dataclass(frozen=True)
class Trouble:
    symptom: str  # policy_error, nimbus, silent, absent
    message: str


def find_trouble(
    state: RunSnapshot, expected: Collection[str], absent_for_s: float, patience: Patience
) -> Trouble | None:
    """Return the first problem of a run whose topology should be working."""
    if state.policy_error:
        return Trouble("policy_error", f"the policy {state.policy} failed: {state.policy_error}")
    if state.nimbus_age_s is not None and state.nimbus_age_s > patience.nimbus_s:
        silence = f"Nimbus has asked for no placement for {state.nimbus_age_s:.0f} s"
        return Trouble("nimbus", f"{silence}: it is down or hangs; see logs/master/nimbus.log")
    missing = absent_machines(state, expected)
    if missing and absent_for_s >= patience.absence_s:
        return Trouble("absent", f"Nimbus has not seen {', '.join(missing)} for {absent_for_s:.0f} s")
    if state.samples_age_s is not None and state.samples_age_s > limit_for(state.sample_s, patience.silence_s):
        return Trouble("silent", f"a worker has been silent for {state.samples_age_s:.0f} s")
    return None


def stale_samples(state: RunSnapshot) -> str | None:
    """Return why a policy that reads rates could not decide now; None: it could."""
    if state.samples_age_s is None:
        return "no worker has sent a sample yet"
    allowed_s = limit_for(state.sample_s, FRESH_S)
    if state.samples_age_s > allowed_s:
        return f"the oldest worker's newest sample is {state.samples_age_s:.1f} s old; allowed: {allowed_s:g} s"
    return state.window_fault or None


def steady_test(ends: Sequence[float], rates: Sequence[float | None]) -> tuple[bool, str]:
    """Test whether the series is steady, by the analysis' own test."""
    from analysis.metrics.steadiness import is_steady

    step_s = ends[1] - ends[0] if len(ends) > 1 else 1
    verdict = is_steady(rates, step_s)
    return verdict.steady, verdict.reason


Answer = TypeVar("Answer")
LOOK_S = 1.0


@dataclass
class RunMonitor:
    """A run's monitor; `expected` returns the machines that Nimbus has to know now, `alarm` raises an error that ends
    the run.

    `note` gets every state, to record it. `look_s`: between two looks.
    """

    service: ServiceClient
    clock: Clock
    listener: Listener
    expected: Callable[[], Sequence[str]]
    alarm: Callable[[], None]
    note: Callable[[RunSnapshot], None]
    look_s: float = LOOK_S
    symptom: str = ""
    state: RunSnapshot | None = None
    _absent_since_s: float | None = field(default=None, init=False)

    def wait_for(
        self,
        question: Callable[[RunSnapshot], Answer | None],
        *,
        limit_s: float | None,
        what: str,
        patience: Patience,
    ) -> Answer:
        """Return the first answer that is not None. RunBroken on trouble, MachineLost where a machine is absent;
        RunBroken after `limit_s` seconds without an answer."""
        begin_s = self.clock.now()
        while True:
            self.alarm()
            state = self._read_state(patience)
            self.note(state)
            answer = question(state)
            if answer is not None:
                return answer
            expected, now_s = self.expected(), self.clock.now()
            if not absent_machines(state, expected):
                self._absent_since_s = None
            elif self._absent_since_s is None:
                self._absent_since_s = now_s
            absent_for_s = 0.0 if self._absent_since_s is None else now_s - self._absent_since_s
            trouble = find_trouble(state, expected, absent_for_s, patience)
            if trouble is not None:
                self.symptom = trouble.symptom
                # A supervisor that died is a machine's failure here, as it is before the first event and in a request.
                kind = MachineLost if trouble.symptom == "absent" else RunBroken
                raise kind(f"{trouble.message}; {state.held}" if state.held else trouble.message)
            if limit_s is not None and self.clock.now() - begin_s >= limit_s:
                self.symptom = "time"
                raise RunBroken(f"{what} within {limit_s:g} s; {_progress(state)}")
            self.clock.sleep(self.look_s)

    def _read_state(self, patience: Patience) -> RunSnapshot:
        begin_s = self.clock.now()
        while True:
            try:
                state = self.service.state()
            except ServiceUnreachable:
                if self.clock.now() - begin_s >= patience.unreachable_s:
                    self.symptom = "unreachable"
                    raise
                self.clock.sleep(self.look_s)
                continue
            self.state = state
            rates = throughput_now(state)
            each = {"by_topology": rates} if len(rates) > 1 else {}
            self.listener.tell("throughput", run_id=state.run_id, per_s=sum(rates.values()) if rates else None, **each)
            return state


def _progress(state: RunSnapshot) -> str:
    """Return the reason to wait: the policy that holds, else Storm's placing, else the workers."""
    if state.held:
        return f"policy {state.policy}: {state.held}"
    if state.tasks_placed < state.tasks_total:
        return f"{state.tasks_placed} of {state.tasks_total} tasks are placed"
    return f"{state.workers_reporting} workers report"
