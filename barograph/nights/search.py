"""A search for the first bad of n commits, by queries to an oracle that is sometimes wrong and sometimes silent. Pure.

Commits are numbered 0 … n−1, oldest first; the one before 0 is good, n−1 is bad. Each has a probability of being the
first bad one, the same for all at the start; an answer that is wrong with the stated error rate changes them by Bayes'
rule. The next query is for the commit that halves what is left, so an exact oracle is queried as by `git bisect`, and a
noisy one is queried again where it matters: at the border. Commits that cannot be queried (they do not build) are
passed over; what lies between two that can is given as a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, exp, log, log2

from barograph.compare.difference import Verdict

MOST_UNDECIDED = 2  # then a third adds nothing
LEAST_ERROR = 1e-6


@dataclass(frozen=True)
class SearchAnswer:
    """An answer. `skip`: it can never be measured; `undecided`: it was measured, without a verdict."""

    commit: int
    verdict: Verdict


@dataclass(frozen=True)
class Certainty:
    """The certainty of answers. `error_rate`: how often a good or a bad is the other; the search ends at
    `confidence`."""

    error_rate: float = 0.05
    confidence: float = 0.9

    def most_answers(self, commits: int) -> int:
        """Return three times the answers of a search by halves, and some to confirm: beyond, the oracle is worse than
        stated."""
        return 3 * ceil(log2(commits + 1)) + 10


@dataclass(frozen=True)
class Query:
    commit: int


@dataclass(frozen=True)
class FirstBad:
    """The first bad commit is one of `first` … `last`; more than one where those between cannot be queried."""

    first: int
    last: int
    probability: float
    sure: bool = True  # False: the answers contradict each other too much


def next_step(commits: int, answers: Sequence[SearchAnswer], certainty: Certainty) -> Query | FirstBad:
    """Return the next step. The same answers give the same step, so a search can be resumed anywhere."""
    chances = probabilities(commits, answers, certainty.error_rate)
    askable = _candidates(commits, answers)
    likeliest = max(_ranges(commits, askable), key=lambda each: sum(chances[each[0] : each[1] + 1]))
    probability = sum(chances[likeliest[0] : likeliest[1] + 1])
    if probability >= certainty.confidence or not askable:
        return FirstBad(*likeliest, probability)
    if sum(answer.verdict != "skip" for answer in answers) >= certainty.most_answers(commits):
        return FirstBad(*_credible(chances, certainty.confidence), certainty.confidence, sure=False)
    bad_by = list(accumulate(chances))  # the probability that a commit is bad already
    return Query(min(askable, key=lambda commit: abs(bad_by[commit] - 0.5)))


def probabilities(commits: int, answers: Sequence[SearchAnswer], error_rate: float) -> list[float]:
    """Return for each commit the probability that it is the first bad one."""
    error = max(error_rate, LEAST_ERROR)
    weights = [0.0] * commits
    for answer in answers:
        if answer.verdict in ("good", "bad"):
            for first_bad in range(commits):
                is_bad = answer.commit >= first_bad
                weights[first_bad] += log(1 - error if is_bad == (answer.verdict == "bad") else error)
    top = max(weights)
    odds = [exp(weight - top) for weight in weights]
    return [each / sum(odds) for each in odds]


def _candidates(commits: int, answers: Sequence[SearchAnswer]) -> list[int]:
    """Return all commits but the last, which is known to be bad, and those without informative answers."""
    skipped = {answer.commit for answer in answers if answer.verdict == "skip"}
    silent = [answer.commit for answer in answers if answer.verdict == "undecided"]
    mute = {commit for commit in silent if silent.count(commit) >= MOST_UNDECIDED}
    return [commit for commit in range(commits - 1) if commit not in skipped | mute]


def _ranges(commits: int, askable: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of commits that no query can tell apart: from after a queryable one up to the next one."""
    ends = [*askable, commits - 1]
    return list(zip([0, *(end + 1 for end in ends)], ends, strict=False))


def _credible(chances: Sequence[float], confidence: float) -> tuple[int, int]:
    """Return the shortest range that holds the first bad commit with that probability."""
    sums = [0.0, *accumulate(chances)]
    count = len(chances)
    ranges = [
        (last - first, first, last)
        for first in range(count)
        for last in range(first, count)
        if sums[last + 1] - sums[first] >= min(confidence, sums[count] * 0.999999)
    ]
    _, first, last = min(ranges)
    return first, last
