"""What a suite says about its history: how a change is judged, what was renamed, what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.stats.change_points import Rule


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
