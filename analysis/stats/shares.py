"""Exact statistics of shares of runs: in how many of its runs each of two sides failed. Pure.

A run is one trial, failed or not, however often it was repeated afterwards: so both sides have binomial numbers, and a
code that is measured again until it does not fail has failed all the same.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np


@cache
def bounds(failed: int, runs: int, confidence: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a share, from 0 to 1; each end is wrong in half of the error."""
    from scipy.stats import binomtest

    ends = binomtest(failed, runs).proportion_ci(confidence)
    return float(ends.low), float(ends.high)


def upper_bound(failed: int, runs: int) -> float:
    """Return the share, from 0 to 1, that is above the true one with 95 % confidence."""
    return bounds(failed, runs, 0.9)[1]


@dataclass(frozen=True)
class Failures:
    """The failed runs of each side, and all of its runs that are a result; b against a."""

    a: int
    runs_a: int
    b: int
    runs_b: int

    @property
    def points(self) -> float:
        """Return by how many percentage points b fails more often."""
        return 100.0 * (self.b / self.runs_b - self.a / self.runs_a)

    @property
    def p(self) -> float:
        """Return the p of Fisher's exact test, two-sided, that both fail equally often.

        It takes all runs. McNemar's test takes the blocks in which one of two sides failed, and leaves out a run whose
        partner was lost by the infrastructure: of 5 failures in 10 runs against none it has p = 0.06, this one 0.03.
        Runs of a bad block fail together, which makes the two numbers differ less than independent ones do; this test
        then errs less often, not more.
        """
        from scipy.stats import fisher_exact

        table = np.array([[self.a, self.runs_a - self.a], [self.b, self.runs_b - self.b]])
        return float(fisher_exact(table).pvalue)

    @property
    def alike(self) -> bool:
        """Return whether there is no evidence that one side fails more often: p is 5 % or more, and the larger share is
        less than 25 points above the other one even at its upper bound, which is high for few runs."""
        shares = sorted(((self.a / self.runs_a, self.a, self.runs_a), (self.b / self.runs_b, self.b, self.runs_b)))
        return not self.points or (self.p >= 0.05 and upper_bound(*shares[1][1:]) - shares[0][0] < 0.25)

    @property
    def is_more(self) -> bool:
        """Return whether b fails more often, and the two are not alike in it."""
        return self.points > 0 and not self.alike

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval of `points`, from those of both sides: each has half of the error."""
        side_confidence = (1 + confidence) / 2
        a, b = bounds(self.a, self.runs_a, side_confidence), bounds(self.b, self.runs_b, side_confidence)
        return 100.0 * (b[0] - a[1]), 100.0 * (b[1] - a[0])
