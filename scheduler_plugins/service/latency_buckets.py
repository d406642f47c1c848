"""Buckets of latencies, as sinks write them (docs/contracts.md): log-linear over whole microseconds.

64 equal ones in each power of two, so that a bucket's middle is within 1/128 of all its values (0.8 %), or exact below
128 µs. `LatencyBuckets.java` has the same formula, and `analysis.metrics.latency` has it for Spark.
"""

from __future__ import annotations

BITS = 6  # 64 buckets in each power of two
LONGEST_US = 2**37 - 1  # 38 hours; longer latencies count as that


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
