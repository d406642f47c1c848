"""Histograms of latencies: buckets with a formula, and percentiles of all tuples whoever counted them."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.service.latency_buckets import LONGEST_US, bounds_us, bucket_of, merged, middle_ms, percentile_ms

EDGES = json.loads((Path(__file__).parents[3] / "contract" / "latency_buckets.json").read_text())


def test_the_edges_of_buckets_are_those_of_the_contract() -> None:
    """The Java tests read the same file."""
    for bucket, first, last in EDGES:
        assert bounds_us(bucket) == (first, last)
        assert (bucket_of(first - 1), bucket_of(first), bucket_of(last)) == (bucket - 1, bucket, bucket)


@given(st.integers(-LONGEST_US, LONGEST_US))
def test_a_bucket_holds_its_latencies_and_its_middle_is_within_a_128th(latency_us: int) -> None:
    first, last = bounds_us(bucket_of(latency_us))
    assert first <= latency_us <= last
    assert abs(1000 * middle_ms(bucket_of(latency_us)) - latency_us) <= max(0.5, abs(latency_us) / 128)


def test_what_is_too_long_counts_as_the_longest() -> None:
    assert bucket_of(10**15) == bucket_of(LONGEST_US) == 2047 and bucket_of(-(10**15)) == -2048


def test_percentiles_are_those_of_the_tuples_themselves() -> None:
    random = Random(7)
    latencies = sorted(random.lognormvariate(3, 2) for _ in range(10_000))
    counts = merged(([bucket_of(round(1000 * each))], [1]) for each in latencies)
    for share in (0.01, 0.5, 0.95, 0.99, 1.0):
        exact = latencies[max(0, round(share * len(latencies)) - 1)]
        assert percentile_ms(counts, share) == pytest.approx(exact, rel=1 / 128)


def test_no_tuple_has_no_percentile() -> None:
    assert percentile_ms({}, 0.95) is None
