"""When a night must be over: as its suite says, or as somebody says it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from dags.errors import ExperimentError

HOUR_S = 3600.0
LONGEST_H = 24
CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min|)")


def until_s(said: str | None, hours: float, now_s: float) -> float:
    """`07:00` on this box's clock, the next time it shows that; `6h`, `90min`; None: `hours` from now.

    Raises ExperimentError.
    """
    if said is None:
        return now_s + hours * HOUR_S
    if clock := CLOCK.fullmatch(said.strip()):
        return _next(int(clock[1]), int(clock[2]), now_s)
    length = LENGTH.fullmatch(said.strip())
    seconds = float(length[1]) * (60.0 if length[2] == "min" else HOUR_S) if length else 0.0
    if not 0 < seconds <= LONGEST_H * HOUR_S:
        raise ExperimentError(
            f"--deadline is {said!r}; allowed: a time such as 07:00, or 6h, 90min, at most {LONGEST_H}h"
        )
    return now_s + seconds


def _next(hour: int, minute: int, now_s: float) -> float:
    now = datetime.fromtimestamp(now_s).astimezone()
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (then if then > now else then + timedelta(days=1)).timestamp()
