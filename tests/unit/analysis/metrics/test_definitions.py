"""The one table of what is better: it knows every metric that a run is measured by, and guesses nothing of others."""

import pytest

from analysis.metrics.definitions import METRICS, Better, DifferenceKind, metric


def test_what_is_compared_as_a_difference_says_how_much_matters_and_in_what() -> None:
    vague = [
        found.name
        for found in METRICS.values()
        if found.difference_kind is DifferenceKind.DIFFERENCE and found.smallest <= 0
    ]
    assert vague == []
    assert all(found.unit and found.words for found in METRICS.values())


@pytest.mark.parametrize(
    ("name", "better"),
    [("throughput_after", "higher"), ("latency_all_p95_ms_after", "lower"), ("downtime_s", "lower"),
     ("convergence_sp_s", "lower"), ("due_after", "none"), ("machines_joined", "none")],
)  # fmt: skip
def test_directions(name: str, better: str) -> None:
    assert metric(name).better == better


def test_a_metric_that_is_not_in_the_table_is_never_better_or_worse() -> None:
    assert (metric("tuples_per_joule").better, metric("tuples_per_joule").words) == (Better.NONE, "tuples per joule")
