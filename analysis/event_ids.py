"""The names of a run's events (docs/contracts.md): which is whose, and in which order they come."""

from collections.abc import Mapping
from typing import Any

WHOLE_RUN = "e0"
FIRST_EVENT = "e1"
# The kinds of lines whose time is the zero of an event, and the kind of event that each stands for where it says none.
ZEROS = {"scale_requested": "scale", "rate_changed": "rate", "crashed": "crash"}


def operation(row: Mapping[str, Any]) -> str:
    """`e1` of `e1.2`: an operation that was aborted and sent again belongs to the event that asked for it first."""
    return str(row.get("event_id") or "").partition(".")[0]


def event_of(row: Mapping[str, Any]) -> str:
    """Tables of series that an older version analysed have no events: each of their runs had one."""
    return row.get("event_id") or FIRST_EVENT


def place(event_id: str) -> tuple[int, str]:
    """To sort by: `e2` comes before `e10`."""
    return len(event_id), event_id
