"""Utility and juice against the paper's numbers, and against the sum over all ways of a tuple through random graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from random import Random

import pytest

from scheduler_plugins.model import ServiceLevel
from scheduler_plugins.service_level import EdgeCount, juice, observed_juice, observed_utility, utility
from tests.conftest import AT_NIGHT
from tests.support import topologies_by_hand

LATENCY, JUICE = ServiceLevel(latency_ms=60, max_utility=35), ServiceLevel(juice=0.8, max_utility=10)
BOTH = ServiceLevel(latency_ms=60, juice=0.8, max_utility=35)


@pytest.mark.parametrize(
    ("level", "latency_ms", "share", "expected"),
    [
        (LATENCY, 30, None, 35), (LATENCY, 60, None, 35), (LATENCY, 120, None, 17.5), (LATENCY, 600, None, 3.5),
        (JUICE, None, 1, 10), (JUICE, None, 0.8, 10), (JUICE, None, 0.4, 5), (JUICE, None, 0, 0),
        (BOTH, 60, 0.8, 35), (BOTH, 120, 0.8, 26.25), (BOTH, 120, 0.4, 17.5),
        (LATENCY, None, 1, None), (JUICE, 1, None, None), (BOTH, 60, None, None), (ServiceLevel(), 60, 1, None),
    ],
)  # fmt: skip
def test_knees(level: ServiceLevel, latency_ms: float | None, share: float | None, expected: float | None) -> None:
    """H02: HP eq. 1 and 2, and the mean of both (7.2.2)."""
    assert utility(level, latency_ms, share) == (None if expected is None else pytest.approx(expected))


def test_figure_1() -> None:
    """H01: 10 K in, A sends 16 K, C processes 6 of its 8 K."""
    counts = [EdgeCount("s", "A", 10, 10), EdgeCount("A", "B", 8, 8), EdgeCount("A", "C", 8, 6),
              EdgeCount("B", "D", 8, 8), EdgeCount("C", "D", 6, 6)]  # fmt: skip
    assert juice(counts, {"s": 1.0}) == pytest.approx(0.875)


def test_figure_5() -> None:
    """H01: two sources; A processes half, E half, F 80 % of half of what E sends."""
    counts = [
        EdgeCount("s1", "A", 10, 5), EdgeCount("s2", "D", 10, 10), EdgeCount("D", "E", 10, 5),
        EdgeCount("A", "B", 5, 5), EdgeCount("E", "B", 4, 4), EdgeCount("E", "F", 4, 3.2), EdgeCount("B", "C", 9, 9),
    ]  # fmt: skip
    assert juice(counts, {"s1": 1.0, "s2": 1.0}) == pytest.approx(0.475)


def test_a_filter_that_nothing_passed_has_processed_its_input() -> None:
    assert juice([EdgeCount("s", "filter", 10, 10), EdgeCount("filter", "sink", 0, 0)], {"s": 1.0}) == 1


def test_more_than_was_sent_is_older_and_counts_as_sent() -> None:
    assert juice([EdgeCount("s", "sink", 10, 25)], {"s": 1.0}) == 1


@pytest.mark.parametrize(
    ("counts", "sources"),
    [
        ([EdgeCount("s", "sink", 10, 10)], {}),  # nothing was due
        ([EdgeCount("s", "sink", 10, 10)], {"s": None}),
        ([EdgeCount("s", "sink", 0, 0)], {"s": 0.5}),  # emitted, and not counted as sent
        ([EdgeCount("s", "a", 5, 5), EdgeCount("a", "b", 5, 5), EdgeCount("b", "a", 5, 5), EdgeCount("b", "c", 5, 5)],
         {"s": 1.0}),
    ],
)  # fmt: skip
def test_juice_that_is_unknown(counts: list[EdgeCount], sources: dict[str, float | None]) -> None:
    assert juice(counts, sources) is None


@pytest.mark.parametrize("seed", range(1000 if AT_NIGHT else 50))
def test_random_graphs(seed: int) -> None:
    """The same as the sum, over all ways from a source to a sink, of the share of tuples that come along it."""
    random = Random(seed)
    names = [f"c{number}" for number in range(random.randint(2, 9))]
    sources = names[: random.randint(1, max(1, len(names) // 3))]
    ways: dict[str, list[str]] = {name: [] for name in names}
    for place, name in enumerate(names):
        for parent in random.sample(names[:place], k=min(place, random.randint(1, 3))) if name not in sources else ():
            ways[parent].append(name)
    ways[sources[0]] = ways[sources[0]] or [names[-1]]
    sources = [name for name in sources if ways[name]]
    counts, fraction = [], {}
    for name, targets in ways.items():
        selectivity = random.uniform(0.2, 3)  # juice is to be independent of it
        cuts = [random.uniform(0.1, 1) for _ in targets]
        for target, cut in zip(targets, cuts, strict=True):
            processed = random.choice((1.0, random.random()))
            counts.append(EdgeCount(name, target, selectivity * cut, selectivity * cut * processed))
            fraction[name, target] = cut / sum(cuts) * processed
    shares = {name: random.choice((1.0, random.uniform(0.1, 1))) for name in sources}

    def along(way: list[str]) -> float:
        if not ways[way[-1]]:
            return shares[way[0]] * prod(fraction[step] for step in pairwise(way))
        return sum(along([*way, name]) for name in ways[way[-1]])

    expected = sum(along([name]) for name in sources) / len(sources)
    assert juice(counts, dict(shares)) == pytest.approx(expected, abs=1e-12)


def test_what_is_observed() -> None:
    topology = topologies_by_hand.topology(
        [("s", "bolt")], tasks=1, executors=1, workers=1, inflow={"s": 50.0}, processing={"bolt": 40.0}
    )
    spout, bolt = topology.components
    (edge,) = topology.edges
    topology = replace(topology, components=(replace(spout, due_per_s=100.0), bolt), sink_tuples_per_s=40.0,
                       latency_ms=120.0, edges=(replace(edge, tuples_per_s=50.0, executed_per_s=40.0),))  # fmt: skip
    assert observed_juice(topology) == pytest.approx(0.5 * 0.8)
    levelled = replace(topology, service_level=LATENCY)
    assert observed_utility(levelled) == pytest.approx(17.5)
    assert observed_utility(replace(topology, service_level=JUICE)) == pytest.approx(5)
    silent = replace(levelled, sink_tuples_per_s=0.0, latency_ms=None)
    assert observed_utility(silent) is None, "processed, but nothing was sent on: a filter, or an aggregate of minutes"
    assert observed_utility(replace(silent, edges=(replace(edge, tuples_per_s=50.0, executed_per_s=0.0),))) == 0
    for unusable in ({"window_fault": "m1:6700 began 5 s ago"}, {"sink_tuples_per_s": None}, {"service_level": None}):
        assert observed_utility(replace(levelled, **unusable)) is None  # type: ignore[arg-type]
