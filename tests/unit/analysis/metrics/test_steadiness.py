import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from analysis.metrics.steadiness import STUDENT, is_steady


def test_too_short_series_is_not_steady_and_says_how_much_was_seen() -> None:
    verdict = is_steady([100.0] * 39)
    assert not verdict.steady
    assert "30 s of 40 s" in verdict.reason
    assert is_steady([100.0] * 40).steady


@pytest.mark.parametrize("climb", [(594, 733, 732, 733), (560, 720, 755, 757), (600, 700, 745, 750)])
def test_four_windows_that_begin_on_a_ramp_are_not_level(climb: tuple[float, ...]) -> None:
    """The first is a demo's "level at 698/s over 40 s", deviation 69, which the test of before passed."""
    verdict = is_steady(climb, 10.0)
    assert not verdict.steady
    assert verdict.reason.startswith("the first of 4 windows is ")


def test_windows_after_the_ramp_are_level_and_those_on_it_are_no_part_of_it() -> None:
    verdict = is_steady([590, 736, 733, 733, 735], 10.0)
    assert (verdict.steady, verdict.since_s) == (True, 10.0)
    assert verdict.reason == "level at 734.2/s over 40 s"


def test_a_last_window_that_falls_off_is_not_level() -> None:
    verdict = is_steady([*[100.0, 101.0] * 10, 85.0], 10.0)
    assert not verdict.steady
    assert "the last of 21 windows is 15.4% off the others; 5.0% allowed" in verdict.reason


@pytest.mark.parametrize(("noise", "fewest"), [(0.5, 4), (2.0, 8), (8.0, 12)])
def test_windows_that_scatter_must_be_more_to_show_that_there_is_no_trend(noise: float, fewest: int) -> None:
    """The interval of the slope lies within 10 % of the mean in 60 s, or the series is not known to be level."""
    windows = [100.0 + noise * sign for sign in (1, -1, -1, 1)] * 5
    steady = [n for n in range(4, 21, 4) if is_steady(windows[:n], 10.0).steady]
    assert steady == list(range(fewest, 21, 4))


@pytest.mark.parametrize("windows", [4, 6, 10])
def test_a_trend_is_not_level(windows: int) -> None:
    assert not is_steady([1000.0 * (1 + 0.02 * i) for i in range(windows)], 10.0).steady
    assert not is_steady([1000.0 * (1 - 0.02 * i) for i in range(windows)], 10.0).steady
    assert is_steady([1000.0 * (1 + 0.005 * i) for i in range(windows)], 10.0).steady


def test_quantiles_are_student_s() -> None:
    assert pytest.approx([t.ppf(0.95, freedom) for freedom in range(2, 2 + len(STUDENT))], abs=6e-4) == list(STUDENT)


def test_since_is_where_the_last_jump_was() -> None:
    verdict = is_steady([50.0] * 60 + [100.0] * 120)
    assert verdict.steady
    assert verdict.since_s == 60.0


def test_since_counts_from_the_start_of_a_series_that_is_no_whole_number_of_windows() -> None:
    assert is_steady([100.0] * 67).since_s == 7.0


def test_a_silent_window_is_not_steady() -> None:
    verdict = is_steady([100.0] * 60 + [0.0] * 10 + [100.0] * 20)
    assert not verdict.steady
    assert "zero" in verdict.reason


def test_swinging_windows_are_not_steady() -> None:
    assert not is_steady([20.0, 180.0] * 6, 10.0).steady


@given(st.lists(st.floats(0, 1e6), max_size=200))
def test_the_verdict_does_not_depend_on_the_unit(rates: list[float]) -> None:
    rates = [round(rate) for rate in rates]
    assert is_steady(rates).steady == is_steady([rate * 2.0 for rate in rates]).steady
    assert is_steady(rates).since_s is not None or not is_steady(rates).steady
