"""Counts of latencies by bucket, as sinks write them (docs/contracts.md): bounds of buckets, percentiles of tuples.

Buckets are log-linear over whole microseconds: 64 equal ones in each power of two. A bucket's middle is within 1/128 of
all its values (0.8 %), or exact below 128 µs. Counts of tasks, seconds and runs add up. `LatencyBuckets.java` has the
same formula, and `analysis.metrics.latency` has it for Spark.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

BITS = 6  # 64 buckets in each power of two
LONGEST_US = 2**37 - 1  # 38 hours; what is longer counts as that
ROUNDING = 1e-9  # of sums of parts
Counts = Mapping[int, float]  # bucket -> tuples; parts of one where a line of several seconds is in two windows


def bucket_of(latency_us: int) -> int:
    """The bucket of a latency; below 0 (clocks that disagree) those of `-1 - latency_us`, mirrored."""
    if latency_us < 0:
        return ~bucket_of(~latency_us)
    bounded = min(latency_us, LONGEST_US)
    shift = max(0, bounded.bit_length() - 1 - BITS)
    return (shift << BITS) + (bounded >> shift)


def bounds_us(bucket: int) -> tuple[int, int]:
    """The first and the last microsecond of a bucket."""
    if bucket < 0:
        first, last = bounds_us(~bucket)
        return ~last, ~first
    shift = max(0, (bucket >> BITS) - 1)
    first = (bucket - (shift << BITS)) << shift
    return first, first + (1 << shift) - 1


def middle_ms(bucket: int) -> float:
    return sum(bounds_us(bucket)) / 2000


def merged(histograms: Iterable[tuple[Iterable[int], Iterable[float]]]) -> dict[int, float]:
    """Columns `buckets` and `counts` of any number of rows, added up."""
    total: dict[int, float] = defaultdict(float)
    for buckets, counts in histograms:
        for bucket, count in zip(buckets, counts, strict=True):
            total[bucket] += count
    return total


def percentile_ms(counts: Counts, share: float) -> float | None:
    """The least latency that at least this share of all tuples keeps to: its bucket's middle. None without tuples."""
    wanted, reached = share * sum(counts.values()), 0.0
    for bucket in sorted(counts):
        reached += counts[bucket]
        if 0 < wanted <= reached * (1 + ROUNDING):
            return middle_ms(bucket)
    return None
