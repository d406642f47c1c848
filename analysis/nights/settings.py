"""What a suite says about its history: how a change is judged, what was renamed, what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rule:
    """When a change counts; the defaults were chosen from `python -m tests.calibration.nights` (decision 0012).

    A change is at most `max_p` likely without one (Otava's test, over windows of `window_nights`), and its size at
    least `minimum_percent` of the level before. It is confirmed by `confirming_nights` after the first.
    """

    window_nights: int = 50
    max_p: float = 1e-6
    minimum_percent: float = 3.0
    confirming_nights: int = 2

    @property
    def nights_to_confirm(self) -> int:
        return self.confirming_nights + 1


@dataclass(frozen=True)
class Renames:
    """Old name -> new name: nights from before a renaming go on under the new one."""

    experiments: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Accepted:
    """A regression that somebody wants: shown, but no alarm.

    `series`: a pattern (`*`, `?`) over `experiment/variant/metric/event`; `night`: date or id of its first bad night.
    """

    series: str
    night: str
    why: str


@dataclass(frozen=True)
class Settings:
    title: str = ""
    rule: Rule = field(default_factory=Rule)
    renames: Renames = field(default_factory=Renames)
    accepted: tuple[Accepted, ...] = ()
