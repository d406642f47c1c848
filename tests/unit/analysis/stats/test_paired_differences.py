import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats import inference, same_code_floors


def test_ratio_interval_holds_the_point_and_is_the_same_for_a_seed() -> None:
    first = inference.median_ratio_interval([156, 160, 164], [96, 100, 104], seed=1)
    assert first == inference.median_ratio_interval([156, 160, 164], [96, 100, 104], seed=1)
    assert first.low <= first.point == 1.6 <= first.high
    assert (first.low, first.high) == (156 / 104, 164 / 96)


def test_a_ratio_over_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="positive denominator"):
        inference.median_ratio_interval([1.0], [0.0], seed=1)


def test_equal_values_have_a_point_for_an_interval() -> None:
    found = inference.median_interval([5.0, 5.0, 5.0], seed=3)
    assert (found.low, found.point, found.high) == (5.0, 5.0, 5.0)


def test_mann_whitney_of_three_against_three_apart_is_a_tenth() -> None:
    assert inference.mann_whitney([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)


def test_holm_against_a_worked_case() -> None:
    assert inference.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_never_passes_one(p_values: list[float]) -> None:
    assert all(p <= corrected <= 1.0 for p, corrected in zip(p_values, inference.holm(p_values), strict=True))


def test_cliffs_delta_at_its_ends_and_at_ties() -> None:
    assert inference.cliffs_delta([4, 5], [1, 2]) == 1.0
    assert inference.cliffs_delta([1, 2], [4, 5]) == -1.0
    assert inference.cliffs_delta([1, 1], [1, 1]) == 0.0


def test_floor_is_the_largest_difference_of_a_variant_from_itself() -> None:
    found = same_code_floors.largest_difference("throughput_after", [[100.0, 110.0, 105.0]])
    assert found is not None and (found.percent, found.pairs) == (pytest.approx(10.0), 3)
    assert same_code_floors.largest_difference("throughput_after", [[100.0]]) is None
