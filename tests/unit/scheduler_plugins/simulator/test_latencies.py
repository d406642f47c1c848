"""Latencies of single tuples: buckets, sums and spread of what only mean and variance are known of."""

import numpy as np
import pytest
from scipy.stats import gamma

from scheduler_plugins.service.latency_buckets import bounds_us, bucket_of
from scheduler_plugins.simulator.rows import MOST_QUANTILES, Histograms, buckets_of


def row(n: int, mean_s: float, variance_s2: float) -> tuple[Histograms, list[float]]:
    """And the middle of each tuple's bucket, in ms."""
    found = Histograms(np.array([3, n]), np.array([1.0, mean_s]), np.array([0.0, variance_s2]))
    middles = [sum(bounds_us(bucket)) / 2000 for bucket in found.buckets(1)]
    return found, np.repeat(middles, found.counts(1)).tolist()


def test_buckets_are_those_of_the_formula() -> None:
    values = [0, 1, 63, 64, 127, 128, 129, 1000, 123_456, 10**9, 2**37 - 1]
    assert buckets_of(np.array(values, dtype=float)).tolist() == [bucket_of(value) for value in values]


@pytest.mark.parametrize("n", [1, 2, 40, 250, MOST_QUANTILES + 7, 5000])
@pytest.mark.parametrize(("mean_s", "variance_s2"), [(0.02, 1e-4), (3.0, 4.0), (0.5, 0.0), (0.2, 0.2)])
def test_every_tuple_is_in_a_bucket_and_their_mean_is_kept(n: int, mean_s: float, variance_s2: float) -> None:
    found, latencies = row(n, mean_s, variance_s2)
    assert len(latencies) == n and found.buckets(1) == sorted(set(found.buckets(1)))
    assert found.sum_ms[1] == pytest.approx(n * mean_s * 1000)
    assert sum(latencies) == pytest.approx(n * mean_s * 1000, rel=0.01)
    assert latencies[-1] <= found.max_ms[1] * 1.01
    assert sum(found.counts(0)) == 3


@pytest.mark.parametrize("n", [1, 7, 256, 20_000])
def test_the_largest_is_at_the_median_of_the_largest_of_so_many(n: int) -> None:
    found, _ = row(n, 0.1, 0.005)
    random = np.random.default_rng(5)
    drawn = np.median([random.gamma(2.0, 50.0, n).max() for _ in range(400)])
    assert found.max_ms[1] == pytest.approx(drawn if n > 1 else 100.0, rel=0.04)
    first, last = bounds_us(found.buckets(1)[-1])
    assert first <= 1000 * found.max_ms[1] <= last and found.counts(1)[-1] >= 1


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0, 9.0])
def test_the_quantiles_are_those_of_a_gamma_distribution(shape: float) -> None:
    _, latencies = row(5000, 0.1, 0.01 / shape)
    for share in (0.25, 0.5, 0.9, 0.99):
        assert np.quantile(latencies, share) == pytest.approx(
            gamma.ppf(share, shape, scale=100 / shape), rel=0.05, abs=1
        )
