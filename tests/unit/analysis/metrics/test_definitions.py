"""The one table of what is better: it knows every metric that a run is measured by, and guesses nothing of others."""

from analysis.metrics.definitions import METRICS, Better, DifferenceKind, metric


def test_what_is_compared_as_a_difference_says_how_much_matters_and_in_what() -> None:
    vague = [
        found.name
        for found in METRICS.values()
        if found.difference_kind is DifferenceKind.DIFFERENCE and found.smallest <= 0
    ]
    assert vague == []
    assert all(found.unit and found.words for found in METRICS.values())


def test_a_metric_that_is_not_in_the_table_is_never_better_or_worse() -> None:
    assert (metric("tuples_per_joule").better, metric("tuples_per_joule").words) == (Better.NONE, "tuples per joule")
