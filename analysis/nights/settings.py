"""The part of a suite's file about its history: renamings and accepted changes. It imports nothing heavy, because a DAG
file reads suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import StringConstraints

Words = Annotated[str, StringConstraints(min_length=1)]


@dataclass(frozen=True)
class Renames:
    """Old name -> new name: nights from before a renaming continue under the new one."""

    experiments: Mapping[Words, Words] = field(default_factory=dict)
    variants: Mapping[Words, Words] = field(default_factory=dict)
    metrics: Mapping[Words, Words] = field(default_factory=dict)


@dataclass(frozen=True)
class Accepted:
    """An intended regression: shown, but no alarm."""

    series: Words  # a pattern (`*`, `?`) over experiment/variant/metric/event
    night: Annotated[
        str, StringConstraints(pattern=r"^(\d{4}-\d{2}-\d{2}|\d{8}-\d{6})$")
    ]  # the date or the id of its first bad night
    why: Words
