"""Numbers as readers see them: one form on every page, in every sentence and on the terminal."""

from math import inf

import pytest

from analysis.numerals import change, extent, number, with_unit


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0"), (-3.0, "−3"), (1234567.8, "1\u2009234\u2009568"), (103.14, "103"), (52.31, "52.3"),
     (8.256, "8.26"), (0.2149, "0.215"), (0.0042, "0.00420"), (inf, "∞"), (-inf, "−∞")],
)  # fmt: skip
def test_a_number_has_three_digits_that_say_something(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_sign_is_told_of_what_is_not_rounded_to_nothing() -> None:
    assert [number(value, 1, signed=True) for value in (12.34, -4.0, 0.04, -0.04)] == ["+12.3", "−4.0", "0.0", "0.0"]


def test_a_change_has_its_unit_and_a_percentage_one_digit() -> None:
    told = [change(*each) for each in ((12.345, "%"), (-24.0, "s"), (0.25, "s", 2), (None, "s"), (2.0, ""))]
    assert told == ["+12.3\u00a0%", "−24\u00a0s", "+0.25\u00a0s", "–", "+2"]
    assert with_unit("–", "s") == "–"


def test_an_extent_has_two_ends_unless_all_are_alike() -> None:
    assert [extent(values) for values in ([600.0, 150.0, 300.0], [600.0, 600.0])] == ["150 to 600", "600"]
