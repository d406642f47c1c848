"""When a phase may end, and when something is wrong. Pure: time comes in as a number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from analysis.draining import draining
from dags.service_state import Series, ServiceState, absent, since

SteadyTest = Callable[[Sequence[int], Sequence[float | None]], tuple[bool, str]]
"""Whole seconds and tuples in each → whether the series is steady, and why or why not."""

FRESH_S = 10.0  # a scale request on older samples would have the policy decide on another cluster


@dataclass(frozen=True)
class Outcome:
    steady: bool
    reason: str


@dataclass(frozen=True)
class Watch:
    """Look at the series from `begin_s` (epoch seconds) on; `floor_s` and `ceiling_s` count from `zero_s`."""

    zero_s: float
    begin_s: float
    floor_s: float
    ceiling_s: float

    def outcome(self, series: Series, now_s: float, is_steady: SteadyTest) -> Outcome | None:
        """None: go on. At the ceiling the phase ends, steady or not, and says which."""
        if now_s - self.zero_s < self.floor_s:
            return None
        steady, reason = is_steady(*since(series, self.begin_s))
        borrowed = draining(series.queues, series.sinks) if steady else None
        if steady and borrowed is None:
            return Outcome(True, reason)
        reason = borrowed or reason
        if now_s - self.zero_s >= self.ceiling_s:
            return Outcome(False, f"not steady within {self.ceiling_s:g} s: {reason}")
        return None


def planned_s(actual_s: float, floor_s: float, ceiling_s: float) -> float:
    """What the experiment's own rule asked for; the rest of the wall time is the harness's overhead."""
    return min(max(actual_s, floor_s), ceiling_s)


@dataclass(frozen=True)
class Patience:
    """How long, in seconds, a symptom may last before the run is given up."""

    silence_s: float = 25.0
    absence_s: float = 30.0
    unreachable_s: float = 15.0


FAILED_OVER = Patience(silence_s=float("inf"), absence_s=45.0)  # a machine is down: its workers' silence is no news
RESTARTING = Patience(silence_s=75.0, absence_s=45.0)  # workers that move start under their machine's quota


@dataclass(frozen=True)
class Trouble:
    symptom: str  # policy_error, silent, absent
    message: str


def trouble(state: ServiceState, expected: Collection[str], absent_for_s: float, patience: Patience) -> Trouble | None:
    """The first thing that is wrong with a run whose topology should be working."""
    if state.policy_error:
        return Trouble("policy_error", f"the policy {state.policy} failed: {state.policy_error}")
    missing = absent(state, expected)
    if missing and absent_for_s >= patience.absence_s:
        return Trouble("absent", f"Nimbus has not seen {', '.join(missing)} for {absent_for_s:.0f} s")
    if state.samples_age_s is not None and state.samples_age_s > patience.silence_s:
        return Trouble("silent", f"a worker has been silent for {state.samples_age_s:.0f} s")
    return None


def too_old(state: ServiceState) -> str | None:
    """Why a scale request must not be sent now; None: it may."""
    if state.samples_age_s is None:
        return "no worker has sent a sample yet"
    if state.samples_age_s > FRESH_S:
        return f"the oldest worker's newest sample is {state.samples_age_s:.1f} s old; allowed: {FRESH_S:g} s"
    return None
