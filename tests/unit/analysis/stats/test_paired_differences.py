import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats import paired_differences


def test_holm_against_a_worked_case() -> None:
    assert paired_differences.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_never_passes_one(p_values: list[float]) -> None:
    assert all(p <= corrected <= 1.0 for p, corrected in zip(p_values, paired_differences.holm(p_values), strict=True))


def test_cliffs_delta_at_its_ends_and_at_ties() -> None:
    assert paired_differences.cliffs_delta([4, 5], [1, 2]) == 1.0
    assert paired_differences.cliffs_delta([1, 2], [4, 5]) == -1.0
    assert paired_differences.cliffs_delta([1, 1], [1, 1]) == 0.0
