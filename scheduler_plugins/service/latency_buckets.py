"""Counts of latencies by bucket, as sinks write them (docs/contracts.md): log-linear over whole microseconds.

64 equal ones in each power of two, so that a bucket's middle is within 1/128 of all its values (0.8 %), or exact below
128 µs. `LatencyBuckets.java` has the same formula, and `analysis.metrics.latency` has it for Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

BITS = 6  # 64 buckets in each power of two
LONGEST_US = 2**37 - 1  # 38 hours; longer latencies count as that
ROUNDING = 1e-9  # of sums of parts
Counts = Mapping[int, float]  # bucket -> tuples; parts of one if a line of several seconds is in two windows


def bucket_of(latency_us: int) -> int:
    """Return the bucket of a latency; below 0 (clocks that disagree) those of `-1 - latency_us`, mirrored."""
    if latency_us < 0:
        return ~bucket_of(~latency_us)
    bounded = min(latency_us, LONGEST_US)
    shift = max(0, bounded.bit_length() - 1 - BITS)
    return (shift << BITS) + (bounded >> shift)


def bounds_us(bucket: int) -> tuple[int, int]:
    """Return the first and the last microsecond of a bucket."""
    if bucket < 0:
        first, last = bounds_us(~bucket)
        return ~last, ~first
    shift = max(0, (bucket >> BITS) - 1)
    first = (bucket - (shift << BITS)) << shift
    return first, first + (1 << shift) - 1


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
    """Return the middle of the first bucket that this share of all tuples keeps to. None without tuples."""
    target, total = share * sum(counts.values()), 0.0
    for bucket in sorted(counts):
        total += counts[bucket]
        if 0 < target <= total * (1 + ROUNDING):
            return middle_ms(bucket)
    return None
