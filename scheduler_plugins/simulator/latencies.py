"""Latencies of single tuples, of which the fluid knows mean and variance only: a gamma distribution with these.

A latency is a sum of services and waits that are at least 0; the gamma distribution is that of such sums where they are
exponential, and has any mean and variance. Of the tuples of one row each is at its own quantile, all equally likely, by
the approximation of Wilson and Hilferty ("The distribution of chi-square", PNAS 17, 1931), and the last one at the
median of the largest of so many; then all are scaled so that their sum is the fluid's.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtri

from scheduler_plugins.service.latency_buckets import LONGEST_US, bounds_us, bucket_of
from scheduler_plugins.simulator.layout import Floats, Ints

MOST_QUANTILES = 256  # of one row; where there are more tuples several are at each
LEAST_VARIATION = 1e-6  # squared, below: all are the mean


@cache
def first_us() -> Floats:
    """The first microsecond of each bucket from 0 on."""
    return np.array([bounds_us(bucket)[0] for bucket in range(bucket_of(LONGEST_US) + 1)], dtype=np.float64)


def buckets_of(latency_us: Floats) -> Ints:
    """`latency_buckets.bucket_of` of whole numbers from 0 on."""
    return np.asarray(np.searchsorted(first_us(), latency_us, side="right") - 1, dtype=np.int64)


class Histograms:
    """Of rows with `n` tuples each (1 or more), their mean and variance in seconds: what a sink would have counted."""

    def __init__(self, n: Ints, mean_s: Floats, variance_s2: Floats) -> None:
        quantiles = np.minimum(n, MOST_QUANTILES)
        row = np.repeat(np.arange(len(n)), quantiles)
        begins = np.cumsum(quantiles) - quantiles
        place = np.arange(len(row)) - begins[row]
        others, parts = (n - 1)[row], np.maximum(quantiles - 1, 1)[row]  # the last one is a tuple of its own
        is_last = place == quantiles[row] - 1
        weight = np.where(is_last, 1, others // parts + (place < others % parts))
        before = np.cumsum(weight) - weight
        middle = (before - before[begins][row] + weight / 2) / n[row]
        share = np.where(is_last, 0.5 ** (1.0 / n[row]), middle)
        values = _gamma_quantiles(share, (variance_s2 / np.maximum(mean_s, 1e-12) ** 2)[row])
        total = np.bincount(row, values * weight, minlength=len(n))
        latency_us = np.rint(values * (mean_s * n * 1e6 / np.maximum(total, 1e-12))[row])
        self.sum_ms = np.round(mean_s * n * 1000.0, 3).tolist()
        self.max_ms = (latency_us[begins + quantiles - 1] / 1000.0).tolist()
        bucket = buckets_of(latency_us)
        # Quantiles ascend, so that equal buckets of a row stand together.
        first = np.ones(len(bucket), dtype=bool)
        first[1:] = (bucket[1:] != bucket[:-1]) | (row[1:] != row[:-1])
        starts = np.flatnonzero(first)
        self._buckets: list[int] = bucket[starts].tolist()
        self._counts: list[int] = np.add.reduceat(weight, starts).tolist() if len(starts) else []
        self._begins = np.searchsorted(row[starts], np.arange(len(n) + 1)).tolist()

    def buckets(self, row: int) -> list[int]:
        return self._buckets[self._begins[row] : self._begins[row + 1]]

    def counts(self, row: int) -> list[int]:
        return self._counts[self._begins[row] : self._begins[row + 1]]


def _gamma_quantiles(share: Floats, variation: Floats) -> Floats:
    """Of distributions with mean 1 and these squared coefficients of variation (1 / shape)."""
    ninth = np.maximum(variation, LEAST_VARIATION) / 9.0
    cubed = np.maximum(1.0 - ninth + ndtri(share) * np.sqrt(ninth), 0.0)
    return np.asarray(cubed**3)
