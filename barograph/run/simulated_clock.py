"""The clock of clusters in memory: time passes only in `sleep`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BEGIN_S = 1_767_225_600.0  # 2026-01-01, 0:00 UTC: no record says when it was simulated


@dataclass
class SimulatedClock:
    """A clock of simulated time. `pace` is how many real seconds a second takes, `tick_s` how often actions of each
    second are done. `advance` lets the cluster's time pass, up to that time."""

    time_s: float = BEGIN_S
    pace: float = 0.0
    shift_s: float = 0.0
    tick_s: float = 1.0
    advance: Callable[[float], None] = lambda _until_s: None
    _each_second: list[Callable[[], None]] = field(default_factory=list)

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        end_s = self.time_s + seconds
        while self._each_second and end_s - self.time_s > self.tick_s:
            self._pass(self.tick_s)
            for action in self._each_second:
                action()
        self._pass(end_s - self.time_s)
        for action in self._each_second:
            action()

    def _pass(self, seconds: float) -> None:
        if self.pace:
            time.sleep(seconds * self.pace)
        self.time_s += seconds
        self.advance(self.unshifted())

    @contextmanager
    def each_second(self, action: Callable[[], None]) -> Iterator[None]:
        self._each_second.append(action)
        try:
            yield
        finally:
            self._each_second.remove(action)

    def restart(self) -> None:
        self.shift(-self.shift_s)

    def shift(self, seconds: float) -> None:
        self.time_s += seconds
        self.shift_s += seconds

    def unshifted(self) -> float:
        """Return the time as it would be without any shift."""
        return self.time_s - self.shift_s
