"""The search for the first bad commit: any history, some that cannot be built, answers that are wrong."""

from collections.abc import Callable, Collection
from math import ceil, log2
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.compare.difference import Verdict
from barograph.nights.bisection import Certainty, FirstBad, Query, SearchAnswer, next_step, probabilities

Oracle = Callable[[int], Verdict]
# Surer than one commit of 200 is unlikely: an exact search must not end because most of a range cannot be built.
EXACT = Certainty(error_rate=0.0, confidence=0.999)


def search(commits: int, oracle: Oracle, certainty: Certainty = EXACT) -> tuple[FirstBad, list[SearchAnswer]]:
    answers: list[SearchAnswer] = []
    while isinstance(step := next_step(commits, answers, certainty), Query):
        answers.append(SearchAnswer(step.commit, oracle(step.commit)))
    return step, answers


def exact(first_bad: int, unbuildable: Collection[int] = ()) -> Oracle:
    return lambda commit: "skip" if commit in unbuildable else "bad" if commit >= first_bad else "good"


def noisy(first_bad: int, error_rate: float, rng: Random) -> Oracle:
    def ask(commit: int) -> Verdict:
        is_bad = (commit >= first_bad) != (rng.random() < error_rate)
        return "bad" if is_bad else "good"

    return ask


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, frozenset[int]]:
    commits = draw(st.integers(1, 60))
    return commits, draw(st.integers(0, commits - 1)), draw(st.frozensets(st.integers(0, commits - 1)))


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_an_exact_oracle_is_asked_as_by_halves(history: tuple[int, int]) -> None:
    commits, first_bad = history
    found, answers = search(commits, exact(first_bad))
    assert (found.first, found.last, found.sure) == (first_bad, first_bad, True)
    assert len(answers) <= ceil(log2(commits)) + 1
    assert len({answer.commit for answer in answers}) == len(answers)


@given(histories())
def test_what_cannot_be_built_leaves_the_range_that_it_must_and_no_more(
    history: tuple[int, int, frozenset[int]],
) -> None:
    commits, first_bad, unbuildable = history
    found, answers = search(commits, exact(first_bad, unbuildable))
    askable = [commit for commit in range(commits - 1) if commit not in unbuildable]
    last_good = max((commit for commit in askable if commit < first_bad), default=-1)
    known_bad = min((commit for commit in askable if commit >= first_bad), default=commits - 1)
    assert (found.first, found.last) == (last_good + 1, known_bad)
    assert len({answer.commit for answer in answers}) == len(answers)


@given(histories(), st.integers(0, 40))
def test_a_search_goes_on_wherever_it_stopped(history: tuple[int, int, frozenset[int]], stop: int) -> None:
    commits, first_bad, unbuildable = history
    found, answers = search(commits, exact(first_bad, unbuildable))
    begun = answers[:stop]
    while isinstance(step := next_step(commits, begun, EXACT), Query):
        begun.append(SearchAnswer(step.commit, exact(first_bad, unbuildable)(step.commit)))
    assert (step, begun) == (found, answers)


@pytest.mark.parametrize("error_rate", [0.02, 0.05, 0.1])
def test_answers_that_are_wrong_as_often_as_stated_leave_the_stated_confidence(error_rate: float) -> None:
    certainty, right, asked, searches, commits = Certainty(error_rate, 0.9), 0, 0, 400, 20
    for seed in range(searches):
        rng = Random(seed)
        first_bad = rng.randrange(commits)
        found, answers = search(commits, noisy(first_bad, error_rate, rng), certainty)
        right += found.sure and found.first == found.last == first_bad
        asked += len(answers)
    assert right / searches >= 0.88, "0.9, less two standard errors of 400 searches"
    assert asked / searches < 2.5 * log2(commits)


def test_one_wrong_answer_is_asked_about_again() -> None:
    """By halves it would be believed for good."""
    wrong = iter([True])

    def ask(commit: int) -> Verdict:
        return "good" if (commit >= 3) == next(wrong, False) else "bad"

    found, answers = search(16, ask, Certainty(0.05, 0.95))
    assert (found.first, found.last) == (3, 3)
    assert len({answer.commit for answer in answers}) < len(answers)


def test_an_oracle_that_never_knows_ends_with_everything_still_possible() -> None:
    found, answers = search(5, lambda _: "undecided")
    assert (found.first, found.last) == (0, 4)
    assert sorted(answer.commit for answer in answers) == [0, 0, 1, 1, 2, 2, 3, 3]


@given(
    st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.sampled_from(["good", "bad", "skip"])), max_size=12)
)
def test_probabilities_are_some(commits: int, answers: list[tuple[int, Verdict]]) -> None:
    found = probabilities(commits, [SearchAnswer(min(commit, commits - 1), said) for commit, said in answers], 0.05)
    assert sum(found) == pytest.approx(1.0) and min(found) >= 0.0
