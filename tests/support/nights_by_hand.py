"""Histories written down in tests: one experiment, one variant, a value a night."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analysis.nights.findings import Findings, evaluate
from analysis.nights.night_records import History, NightRecord, parse_night
from analysis.nights.regressions import Finding, Settings
from bench.statistics.synthetic_nights import experiment, night, noise

STAR = "stela/star"
Differs = dict[str, Any]


def record(i: int, value: Any, metric: str = "throughput_after", **differs: Any) -> Differs:
    """The i-th night with a value (None: the experiment failed by infrastructure)."""
    if value is None:
        found = experiment(STAR, {}, status="infrastructure", reason="m3 died")
    else:
        values = value if isinstance(value, dict) else [value] * 3
        found = experiment(STAR, {"stela": {metric: {"e1": values}}})
    return night(i, "quick", [found], **differs)


def parsed(records: Sequence[Differs]) -> tuple[NightRecord, ...]:
    return tuple(parse_night(json.dumps(one | {"sequence": i + 1}), "test") for i, one in enumerate(records))


def history(values: Sequence[Any], metric: str = "throughput_after",
            differs: Callable[[int], Differs] = lambda _: {}) -> History:  # fmt: skip
    return History("quick", parsed([record(i, value, metric, **differs(i)) for i, value in enumerate(values)]))


def judged(values: Sequence[Any], metric: str = "throughput_after", settings: Settings | None = None,
           differs: Callable[[int], Differs] = lambda _: {}) -> Findings:  # fmt: skip
    return evaluate(history(values, metric, differs), settings or Settings())


def only(found: Findings) -> Finding:
    (one,) = found.all
    return one


def quiet(nights: int, level: float = 100.0, scatter: float = 1.0, seed: int = 7) -> list[float]:
    """Nights that differ by noise alone."""
    return [float(value) for value in noise(np.random.default_rng(seed), nights, scatter, level)]


def stepped(before: int, after: int, percent: float, **differs: Any) -> list[float]:
    """Noise, and from a night on `percent` more or less."""
    values = quiet(before + after, **differs)
    return [value * (1 + percent / 100) if i >= before else value for i, value in enumerate(values)]
