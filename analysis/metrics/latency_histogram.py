"""Counts of latencies by bucket, as sinks write them (docs/contracts.md): middles of buckets, percentiles of tuples.

Counts of tasks, seconds and runs add up. Buckets are defined in `scheduler_plugins.service.latency_buckets`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from scheduler_plugins.service.latency_buckets import BITS, LONGEST_US, bounds_us, bucket_of

__all__ = ["BITS", "LONGEST_US", "Counts", "bounds_us", "bucket_of", "merged", "middle_ms", "percentile_ms"]

ROUNDING = 1e-9  # of sums of parts
Counts = Mapping[int, float]  # bucket -> tuples; parts of one if a line of several seconds is in two windows


def middle_ms(bucket: int) -> float:
    """Return the middle between the ends of a bucket, whose own unit is µs."""
    return sum(bounds_us(bucket)) / 2000


def merged(histograms: Iterable[tuple[Iterable[int], Iterable[float]]]) -> dict[int, float]:
    """Add up the columns `buckets` and `counts` of any number of rows."""
    total: dict[int, float] = defaultdict(float)
    for buckets, counts in histograms:
        for bucket, count in zip(buckets, counts, strict=True):
            total[bucket] += count
    return total


def percentile_ms(counts: Counts, share: float) -> float | None:
    """Return the least latency that at least this share of all tuples keeps to: its bucket's middle. None without
    tuples."""
    target, total = share * sum(counts.values()), 0.0
    for bucket in sorted(counts):
        total += counts[bucket]
        if 0 < target <= total * (1 + ROUNDING):
            return middle_ms(bucket)
    return None
