"""What a metric is of: one topology in one run, or the cluster (`all`) in a run of several topologies.

A row of a metric has both columns of `UNIT`: task numbers and component names of two topologies may be the same, so
whatever joins or groups rows of a run does so by both.
"""

from collections.abc import Iterable, Mapping
from typing import Any

UNIT = ("run_id", "topology")
EVENT = (*UNIT, "event_id")
PHASE = (*EVENT, "phase")
Unit = tuple[str, str]


def unit_of(row: Mapping[str, Any]) -> Unit:
    return row["run_id"], row["topology"]


def by_unit(rows: Iterable[Mapping[str, Any]]) -> dict[Unit, list[Any]]:
    """Return rows of each unit, in the order given."""
    split: dict[Unit, list[Any]] = {}
    for row in rows:
        split.setdefault(unit_of(row), []).append(row)
    return split


def unit_columns(unit: Unit) -> dict[str, str]:
    return {"run_id": unit[0], "topology": unit[1]}
