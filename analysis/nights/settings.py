"""What a suite's file says about its history: what was renamed, what is accepted. It loads nothing heavy: a DAG file
reads suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import StringConstraints

Words = Annotated[str, StringConstraints(min_length=1)]


@dataclass(frozen=True)
class Renames:
    """Old name -> new name: nights from before a renaming go on under the new one."""

    experiments: Mapping[Words, Words] = field(default_factory=dict)
    variants: Mapping[Words, Words] = field(default_factory=dict)
    metrics: Mapping[Words, Words] = field(default_factory=dict)


@dataclass(frozen=True)
class Accepted:
    """A regression that is meant: shown, but no alarm."""

    series: Words  # a pattern (`*`, `?`) over experiment/variant/metric/event
    night: Annotated[
        str, StringConstraints(pattern=r"^(\d{4}-\d{2}-\d{2}|\d{8}-\d{6})$")
    ]  # the date or the id of its first bad night
    why: Words
