"""Change points become steps only where they last and matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics.definitions import metric
from analysis.stats.change_points import Rule, Step, change_points, steps, without_lone_nights
from tests.support.nights_by_hand import quiet, stepped

RULE = Rule()


def found(values: list[float], name: str = "throughput_after", rule: Rule = RULE) -> tuple[Step, ...]:
    return steps(values, change_points(values, rule), metric(name), rule)


def test_a_step_is_found_at_its_night_with_its_size() -> None:
    (step,) = found(stepped(40, 20, -10))
    assert (step.before.stop, step.after.start) == (40, 40)
    assert step.percent == pytest.approx(-10, abs=1)
    assert step.p < RULE.max_p


@pytest.mark.parametrize("at", [20, 35, 39])
def test_a_night_or_two_far_away_are_no_step_once_the_level_is_back(at: int) -> None:
    for away, nights in ((-0.3, 1), (0.3, 1), (-0.3, 2)):
        values = quiet(40 + nights + 3 * (nights > 1))
        values[at : at + nights] = [value * (1 + away) for value in values[at : at + nights]]
        assert found(values) == ()


def test_the_last_night_may_be_the_first_of_a_step() -> None:
    values = quiet(40)
    (step,) = found([*values, 70.0])
    assert (step.after.start, len(step.after)) == (40, 1)


def test_a_step_that_does_not_matter_is_undone() -> None:
    values = stepped(60, 60, -2, scatter=0.2)
    assert change_points(values, RULE) != ()
    assert found(values) == ()
    assert len(found(values, rule=Rule(minimum_percent=1.0))) == 1


def test_small_steps_that_add_up_are_one_step() -> None:
    values = [v * (1 if i < 60 else 0.98 if i < 90 else 0.96) for i, v in enumerate(quiet(140, scatter=0.2))]
    (step,) = found(values)
    assert step.percent == pytest.approx(-4, abs=0.6)


def test_a_difference_must_be_worth_naming_in_its_unit() -> None:
    """Downtime of 1 s instead of 0 is 2 s too little; of 5 s it matters."""
    nothing = [0.0] * 30
    assert found([*nothing, *[1.0] * 10], "downtime_s") == ()
    (step,) = found([*nothing, *[5.0] * 10], "downtime_s")
    assert (step.before.level, step.after.level, step.percent) == (0.0, 5.0, None)


def test_the_same_code_must_not_do_as_much() -> None:
    values = stepped(30, 30, -5)
    candidates = change_points(values, RULE)
    assert len(steps(values, candidates, metric("throughput_after"), RULE, noise=1.0)) == 1
    assert steps(values, candidates, metric("throughput_after"), RULE, noise=12.0) == ()


def test_too_few_nights_say_nothing() -> None:
    assert found([100.0, 50.0, 50.0]) == ()
    assert found([100.0] * 50) == ()
    assert found([]) == ()


def test_a_lone_night_is_put_to_what_is_around_it_and_the_last_is_not() -> None:
    values = quiet(30)
    values[10] = 150.0
    values[29] = 150.0
    tamed = without_lone_nights(values)
    assert tamed[10] == pytest.approx(100, abs=3)
    assert tamed[29] == 150.0
    assert [a for i, a in enumerate(tamed) if i != 10] == [a for i, a in enumerate(values) if i != 10]


@given(st.lists(st.floats(0, 1e6), max_size=60))
def test_any_series_has_steps_that_lie_in_order_and_matter(values: list[float]) -> None:
    made = found(values)
    for step in made:
        assert 0 <= step.before.start < step.before.stop <= step.after.start < step.after.stop <= len(values)
        assert abs(step.difference) >= step.needed
    assert [step.after.start for step in made] == sorted(step.after.start for step in made)


@given(st.integers(0, 50), st.floats(0.01, 1000))
def test_a_unit_changes_nothing(seed: int, factor: float) -> None:
    """Percentages know no unit, so a step is found whatever a metric is counted in."""
    rng = np.random.default_rng(seed)
    values = [float(v) for v in 100 + rng.standard_normal(60)]
    values[40:] = [v * 0.8 for v in values[40:]]
    here, there = found(values), found([v * factor for v in values])
    assert [(step.before.stop, step.after.start) for step in here] == [
        (step.before.stop, step.after.start) for step in there
    ]
