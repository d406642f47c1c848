"""Courses of a run's input rates, sent to the policy service half a minute ahead of the time.

A thread of its own sends them (`sending`), for an action of a run may take longer than half a minute: a boot, a play.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from barograph.errors import ExperimentError
from barograph.plan.events.courses import Course, Step
from barograph.policy_service import ServiceClient, ServiceUnreachable
from barograph.series.run_record import Clock, RunRecord
from scheduler_plugins.service.emission_records import EVERYWHERE, InputRates, RateKey, overlap, width

AHEAD_S = 30.0  # sent this far ahead
REFILL_S = 20.0  # sent again when no more than this is ahead
MOST_STEPS_PER_S = 10.0  # of a course: ours have one
LEAD_S = 3.0  # workers post every other second; a later change is followed late


@dataclass
class RunningCourse:
    """One course, of the sources of one key. `waiting`: changes that are due and not sent, by their times."""

    event_id: str
    key: RateKey
    zero_s: float
    steps: Iterator[Step]
    ahead_s: float = 0.0  # sent until then
    end_s: float | None = None  # of its last step; None: not reached yet
    waiting: list[Step] = field(default_factory=list)
    _next: Step | None = None
    _taken: int = 0  # steps
    _factor: float | None = None  # of the newest change

    @property
    def since_s(self) -> float:
        """Return the begin; of two that begin together the narrower one is the newer."""
        return self.zero_s - width(self.key) / 1000

    def advance(self, until_s: float) -> None:
        """Move its steps before that time to `waiting`; those that change nothing are left out. Raises ExperimentError
        for steps in which no time passes."""
        while self.end_s is None:
            step = self._next or next(self.steps)
            t = self.zero_s + step[0]
            if t >= until_s:
                self._next = step
                return
            self._taken += 1
            if not self._taken <= MOST_STEPS_PER_S * (step[0] + 1):  # also where its time is no number
                raise ExperimentError(
                    f"the course of {self.event_id} has {self._taken} steps within {step[0]:g} s and may never end;"
                    f" allowed: times that ascend, at most {MOST_STEPS_PER_S:g} of them a second"
                )
            self._next = next(self.steps, None)
            if step[1] != self._factor:
                self.waiting.append((t, step[1]))
                self._factor = step[1]
            if self._next is None:
                self.end_s = t

    def catch_up(self, now: float) -> tuple[float, float] | None:
        """Return the interval in which its rate is outdated, if changes are not sent in time, `LEAD_S` before."""
        if not self.waiting or self.waiting[0][0] >= now + LEAD_S:
            return None
        late_s, again_s = self.waiting[0][0], now + LEAD_S
        passed = [factor for t, factor in self.waiting if t <= again_s]
        self.waiting = [(again_s, passed[-1]), *(step for step in self.waiting if step[0] > again_s)]
        return late_s, again_s


@dataclass
class RateCourses:
    """The courses of a run. Of each source the newest course that covers it counts.

    `interruptions`: where a course stood still because nothing was sent in time; the load was not the plan's then.
    """

    service: ServiceClient
    record: RunRecord
    clock: Clock
    rates: InputRates = field(default_factory=lambda: InputRates(0.0))  # as sent
    running: list[RunningCourse] = field(default_factory=list)
    interruptions: list[str] = field(default_factory=list)
    _failure: Exception | None = None  # of the sending thread
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send the changes ahead each second of the block. Raises a failure of that at its end, unless the block itself
        failed; `raise_failure` raises it earlier."""
        with self.clock.each_second(self._send_or_fail):
            yield
        self.raise_failure()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def begin(self, event_id: str, course: Course, key: RateKey) -> float:
        """Begin a course and return its zero, a full second ahead. Raises the service's error."""
        with self._lock:
            now = self.clock.now()
            zero_s = float(math.ceil(now + LEAD_S))
            self._end(key, zero_s, event_id)
            keys = self.rates.keys_in(key)
            factors = {each: self.rates.factor(each, zero_s) for each in keys}
            for each in keys if len(set(factors.values())) > 1 else [key]:
                running_course = RunningCourse(event_id, each, zero_s, course(factors[each]))
                self.running.append(running_course)
                self._send(running_course, now)
            return zero_s

    def change(self, event_id: str, factor: float) -> None:
        """Change the rate of all sources, from now on."""
        with self._lock:
            now = self.clock.now()
            self.service.input_rate(factor)
            self._end(EVERYWHERE, now, event_id)
            self.rates.change(now, factor)

    def _send_or_fail(self) -> None:
        """Send the changes ahead; if the service does not answer they are sent at a later look."""
        if self._failure is not None:
            return
        try:
            with self._lock, suppress(ServiceUnreachable):
                now = self.clock.now()
                for each in list(self.running):
                    if each.end_s is not None and not each.waiting and each.end_s <= now:
                        self._note_end(each, each.end_s, "it is over")
                    elif each.waiting or now > each.ahead_s - REFILL_S:
                        self._send(each, now)
        except Exception as error:  # noqa: BLE001 - the run's monitor raises it
            self._failure = error

    def _send(self, running: RunningCourse, now: float) -> None:
        running.advance(now + AHEAD_S)
        gap = running.catch_up(now)
        if gap is not None:
            facts = {"event_id": running.event_id, "from_s": gap[0], "until_s": gap[1]}
            self.record.event("course_interrupted", t=now, **facts)
            self.interruptions.append(
                f"the course of {running.event_id} stood still for {gap[1] - gap[0]:.0f} s: the harness was late"
            )
        if running.waiting:
            self.service.input_rate_changes(running.since_s, running.waiting, *running.key)
            self.rates.prune(now)
            self.rates.follow(running.key, running.since_s, running.waiting)
        running.waiting, running.ahead_s = [], now + AHEAD_S

    def _end(self, key: RateKey, t: float, by: str) -> None:
        """End the courses of these sources alone; a wider one goes on for the others."""
        for course in [each for each in self.running if overlap(key, each.key) == each.key]:
            self._note_end(course, t, f"{by} takes its place")

    def _note_end(self, running: RunningCourse, t: float, reason: str) -> None:
        self.running.remove(running)
        goes_on = any(each.event_id == running.event_id for each in self.running)
        if not goes_on and running.end_s != running.zero_s:  # a step has no end
            self.record.event("course_ended", t=t, event_id=running.event_id, reason=reason)
