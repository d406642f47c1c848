"""Series of 10 s windows whose right answer is known: a shape that ends at a level, and noise on it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import exp, pi, sin
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

LEVEL = 1000.0
Rates = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """`rates`: of so many windows, as shares of the level at which they end. `has_level`: whether they end at one.
    `wrong_by`: by what share of it the true mean of a part may not depart."""

    name: str
    rates: Callable[[int], Sequence[float]]
    has_level: bool = True
    wrong_by: float = 0.02

    def is_wrong(self, begin: int, seen: int) -> bool:
        """Whether a part of so many windows that begins there is not the level, noise or none."""
        return not self.has_level or abs(1 - fmean(self.rates(seen)[begin:])) > self.wrong_by


def then_level(*shares: float) -> Callable[[int], Sequence[float]]:
    return lambda number: [*shares, *[1.0] * number][:number]


def trend(percent_a_minute: float) -> Callable[[int], Sequence[float]]:
    return lambda number: [1 + percent_a_minute / 600 * i for i in range(number)]


def swing(share: float, period_s: float) -> Callable[[int], Sequence[float]]:
    return lambda number: [1 + share * sin(2 * pi * 10 * i / period_s) for i in range(number)]


def slow_climb(number: int) -> Sequence[float]:
    return [1 - 0.2 * exp(-i / 3) for i in range(number)]


LEVEL_FROM_THE_START = Shape("level", then_level())
GENTLE = Shape("a dip to 60 % without a zero", then_level(1.0, *[0.6] * 5))
HARSH = Shape("a dip with a zero", then_level(1.0, 0.0, *[0.6] * 4))
HALVED = Shape("two windows at 50 %", then_level(1.0, 0.5, 0.5))
LEVELS = (  # that only rounding moves
    LEVEL_FROM_THE_START,
    Shape("a level after two windows at zero", then_level(0.0, 0.0)),
    Shape("a tuple more in every seventh window", lambda number: [1 + 1e-4 * (i % 7 == 0) for i in range(number)]),
    Shape("a tuple more in one window", lambda number: [1 + 1e-4 * (i == 20) for i in range(number)]),
)
DIPS = (
    GENTLE,
    HARSH,
    HALVED,
    Shape("one window at 50 %", then_level(1.0, 0.5)),
    Shape("a dip and what waited meanwhile", then_level(1.0, 0.3, 0.3, 1.4, 1.4, 1.4)),
    Shape("a dip in the middle", then_level(*[1.0] * 12, *[0.6] * 5)),
    Shape("a late dip", then_level(*[1.0] * 16, *[0.6] * 5)),
)
RAMPS = (
    Shape("a ramp: 20 % low", then_level(0.8)),
    Shape("a ramp: 26, 5, 1 % low", then_level(0.74, 0.949, 0.99)),
    Shape("a ramp: 40, 25, 12, 6 % low", then_level(0.6, 0.75, 0.88, 0.94)),
)
CLIMB = Shape("a climb: 20 % low, time constant 30 s", slow_climb)
STEPS = (
    Shape("a level that falls for good", then_level(1.5, 1.5, 1.2)),
    Shape("a step up after a third", then_level(*[1 / 1.3] * 10)),
    Shape("a step up half-way", then_level(*[1 / 1.3] * 15)),
    Shape("a step down half-way", then_level(*[1.3] * 15)),
    Shape("a late step", then_level(*[1 / 1.3] * 18)),
)
LATE = (  # as long as there is one: the level before it is most of the watch
    Shape("40 s of 300 s at another level", lambda _: [1 / 0.8] * 26 + [1.0] * 4),
    Shape("40 s of 600 s at another level", lambda _: [1 / 0.6] * 56 + [1.0] * 4),
    Shape("90 s of 300 s at another level", lambda _: [1 / 1.3] * 21 + [1.0] * 9),
    Shape("40 s after an outage of 560 s", lambda _: [0.0] * 56 + [1.0] * 4),
)
SWINGS = (
    Shape("a swing of 5 % in 60 s", swing(0.05, 60)),
    Shape("a slow swing of 5 % in 120 s", swing(0.05, 120)),
    Shape("a slow swing of 10 % in 120 s", swing(0.10, 120)),
)
TRENDS = (
    Shape("a trend of 3 % a minute", trend(3), wrong_by=1.0),  # a level, by our definition
    Shape("a trend of 10 % a minute", trend(10), has_level=False),
    Shape("a trend of 20 % a minute", trend(20), has_level=False),
)


def series(shape: Shape, noise: float, windows: int, rng: np.random.Generator, heavy_tails: bool = False) -> Rates:
    """`noise`: standard deviation of a window, as a share of its mean; `heavy_tails`: Student's with 3 degrees."""
    scatter = rng.standard_t(3, windows) / 3**0.5 if heavy_tails else rng.standard_normal(windows)
    return np.maximum(0.0, LEVEL * np.asarray(shape.rates(windows)) * (1 + noise * scatter))


def windows_after(
    rates: Rates | Sequence[float], key: dict[str, Any], unreported: Container[int] = ()
) -> list[dict[str, Any]]:
    """Rows of the table `event_throughput`, from the event on; nobody reported the windows `unreported`."""
    return [
        {**key, "window_s": 10.0 * i, "scope": "total", "component": "", "complete": True,
         "rate": None if i in unreported else float(rate)}
        for i, rate in enumerate(rates)
    ]  # fmt: skip


# Components of a topology of which no two places have the same throughput, in tuples/s in each window.
CHAIN = {
    "spout_1": Shape("spout_1", then_level(1.0, *[0.6] * 5)),
    "spout_2": Shape("spout_2", lambda number: [2.0] * number),
    "work": Shape("work", lambda number: [1.5] * 3 + [0.0] * 4 + [0.9] * (number - 7)),
    "sink_1": Shape("sink_1", lambda number: [0.0] * 2 + [0.4] * (number - 2)),
    "sink_2": Shape("sink_2", lambda number: [0.0] * 6 + [0.1] * (number - 6)),
}
PLACES = {  # what a topology may name, and the components whose tuples that are
    "sinks": ("sink_1", "sink_2"),
    "spouts": ("spout_1", "spout_2"),
    "work": ("work",),
    "sink_2": ("sink_2",),
    "spout_1": ("spout_1",),
}


def chain_record(place: str) -> dict[str, Any]:
    """Of `run.json`, with where throughput is measured."""
    components = [
        {"name": name, "kind": name.split("_")[0].replace("work", "bolt").replace("sink", "bolt"), "tasks": [task],
         "executors": 1, "sink": name.startswith("sink")}
        for task, name in enumerate(CHAIN, start=1)
    ]  # fmt: skip
    return {"topology": {"name": "", "throughput": place, "components": components}}


def chain_rates(place: str, windows: int) -> list[float]:
    """The throughput at that place."""
    shares = zip(*(CHAIN[name].rates(windows) for name in PLACES[place]), strict=True)
    return [LEVEL * sum(each) for each in shares]


def chain_activity(key: dict[str, Any], windows: int) -> list[dict[str, Any]]:
    """Rows of the table `activity`. A spout executes nothing, a bolt's emitted tuples are not counted."""
    rows = []
    for name, shape in CHAIN.items():
        for i, share in enumerate(shape.rates(windows)):
            tuples, is_spout = round(10 * LEVEL * share), name.startswith("spout")
            counts = {"executed": 0 if is_spout else tuples, "emitted": tuples if is_spout else None, "dropped": None}
            rows.append({**key, "window_s": 10.0 * i, "component": name, "due": None, "due_unknown": False} | counts)
    return rows


def silences_between(busy: Sequence[int], begin: int, end: int) -> list[dict[str, Any]]:
    """Rows of `silences` for seconds with a tuple at a sink, of those from `begin` to `end` around an event."""
    key = {"run_id": "r", "topology": "", "event_id": "e1"}
    pairs = zip([begin - 1, *busy], [*busy, end], strict=True)
    return [{**key, "from_second": a + 1, "until_second": b} for a, b in pairs if a + 1 < b]


def poisson_silences(
    rng: Random, per_s: float, begin: int, end: int, outage: Container[int] = ()
) -> list[dict[str, Any]]:
    """The same where tuples come at random, so many a second, and none in the outage."""
    seconds = [s for s in range(begin, end) if s not in outage and rng.random() < 1 - exp(-per_s)]
    return silences_between(seconds, begin, end)
