import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics.steadiness import is_steady


def noisy(level: float, seconds: int, share: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [level * (1 + rng.gauss(0, share)) for _ in range(seconds)]


def test_level_series_is_steady_from_its_start() -> None:
    verdict = is_steady([100.0] * 90)
    assert verdict.steady
    assert verdict.since_s == 0.0


def test_too_short_series_is_not_steady_and_says_how_much_was_seen() -> None:
    verdict = is_steady([100.0] * 45)
    assert not verdict.steady
    assert "40 s of 60 s" in verdict.reason


def test_since_is_where_the_last_jump_was() -> None:
    verdict = is_steady([50.0] * 60 + [100.0] * 120)
    assert verdict.steady
    assert verdict.since_s == 60.0


def test_since_counts_from_the_start_of_a_series_that_is_no_whole_number_of_windows() -> None:
    assert is_steady([100.0] * 67).since_s == 7.0


def test_ten_second_windows_are_taken_as_they_are() -> None:
    verdict = is_steady([50.0, 50.0, *[100.0] * 8], 10.0)
    assert verdict.since_s == 20.0


def test_growth_is_not_steady() -> None:
    verdict = is_steady([100.0 + 0.5 * i for i in range(90)])
    assert not verdict.steady
    assert verdict.since_s is None


def test_a_silent_window_is_not_steady() -> None:
    verdict = is_steady([100.0] * 60 + [0.0] * 10 + [100.0] * 20)
    assert not verdict.steady
    assert "zero" in verdict.reason


def test_swinging_windows_are_not_steady() -> None:
    assert not is_steady([20.0, 180.0] * 6, 10.0).steady


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_two_percent_a_window_is_steady(seed: int) -> None:
    assert is_steady(noisy(100.0, 12, 0.02, seed), 10.0).steady


def test_nothing_is_steady_at_zero() -> None:
    assert not is_steady([0.0] * 120).steady


@given(st.lists(st.floats(0, 1e6), max_size=200))
def test_the_verdict_does_not_depend_on_the_unit(rates: list[float]) -> None:
    rates = [round(rate) for rate in rates]
    assert is_steady(rates).steady == is_steady([rate * 2.0 for rate in rates]).steady
    assert (is_steady(rates).since_s is None) == (not is_steady(rates).steady)
