"""Nights that never were, for the bench and for tests: seeded noise, steps, spikes and drifts of known size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

FIRST_DAY = date(2026, 1, 1)
FIRST_S = 1_767_236_400.0  # 03:00 UTC on that day
NIGHT_S = 5 * 3600.0
Values = npt.NDArray[np.float64]


def noise(rng: np.random.Generator, nights: int, percent: float, level: float = 100.0) -> Values:
    """A night's medians: `level`, scattered by a relative standard deviation."""
    return level * (1 + percent / 100 * rng.standard_normal(nights))


def heavy_noise(rng: np.random.Generator, nights: int, percent: float, level: float = 100.0) -> Values:
    """The same standard deviation from Student's t with 3 degrees of freedom: now and then far out."""
    return level * (1 + percent / 100 * rng.standard_t(3, nights) / np.sqrt(3))


def night(i: int, suite: str, experiments: Sequence[dict[str, Any]], **differs: Any) -> dict[str, Any]:
    """The record of the i-th night, a commit a night; `differs` replaces keys."""
    day = FIRST_DAY + timedelta(days=i)
    started_s = FIRST_S + 86_400.0 * i
    return {
        "v": 1, "night": day.isoformat(), "id": f"{day:%Y%m%d}-030000", "suite": suite, "testbed": "local",
        "commit": f"{i + 1:040x}", "commit_s": started_s - 36_000, "dirty": False, "started_s": started_s,
        "ended_s": started_s + NIGHT_S, "machine": "type_1", "machine_facts": {"cores": 2}, "status": "complete",
        "experiments": list(experiments),
    } | differs  # fmt: skip


def experiment(name: str, variants: dict[str, Any], **differs: Any) -> dict[str, Any]:
    """`variants`: variant -> metric -> event -> values of the repetitions, or one number for all of them."""
    measured = {
        variant: {
            metric: {event: values if isinstance(values, dict) else {"values": values} for event, values in events.items()}
            for metric, events in metrics.items()
        }
        for variant, metrics in variants.items()
    }
    return {"experiment": name, "series": "", "status": "complete", "reason": "", "variants": measured} | differs
