"""Waits of executors that are not saturated: closed forms beside tuple by tuple, and in the world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.simulator.tuple_by_tuple import (
    SLEEPERS,
    Sleeper,
    batch_interval,
    sleeper_latency_s,
    sleeper_theory_s,
    sleeper_times,
)
from scheduler_plugins.simulator.capacity import idle_wait_s
from scheduler_plugins.simulator.work import Waits
from tests.support.worlds import FREE, Totals, chain, world_of


def idle_wait(rate: float, spin_s: float, sleep_s: float) -> tuple[float, float]:
    mean, variance = idle_wait_s(np.array([rate]), np.array([spin_s]), np.array([sleep_s]))
    return float(mean[0]), float(variance[0])


def test_a_tuple_waits_for_half_a_sleep_on_average_whatever_the_rate() -> None:
    for rate in (0.0, 1.0, 100.0, 5000.0):
        assert idle_wait(rate, 0.0, 0.010) == pytest.approx((0.005, 0.010**2 / 12))


def test_who_never_sleeps_notices_at_once_and_who_looks_for_long_seldom_sleeps() -> None:
    assert idle_wait(50.0, 0.06, 0.0) == (0.0, 0.0)
    seldom, mostly = idle_wait(100.0, 0.06, 0.001)[0], idle_wait(1.0, 0.06, 0.001)[0]
    assert seldom < 0.05 * 0.0005 and mostly > 0.9 * 0.0005, "Storm's own settings at many and at few tuples"


@pytest.mark.parametrize("case", SLEEPERS, ids=str)
def test_tuple_by_tuple_it_is_as_long(case: Sleeper) -> None:
    run = batch_interval(sleeper_times(case, 300_000, seed=3))
    theory = sleeper_theory_s(case)
    assert abs(run.mean - theory) <= 2 * run.half_width and run.half_width < 0.05 * theory


@pytest.mark.parametrize("case", SLEEPERS, ids=str)
def test_so_it_is_in_the_world(case: Sleeper) -> None:
    run = batch_interval(sleeper_times(case, 300_000, seed=3))
    assert sleeper_latency_s(case) == pytest.approx(run.mean, rel=0.02)


def test_the_variance_is_that_of_single_tuples() -> None:
    """At a low rate: nothing but the rest of a sleep."""
    case = Sleeper(2.0, 1e-6, 0.0, 0.0, 0.010)
    times = sleeper_times(case, 100_000, seed=3)
    mean, variance = idle_wait(case.rate, case.spin_s, case.sleep_s)
    assert times.mean() == pytest.approx(mean, rel=0.02) and times.var() == pytest.approx(variance, rel=0.02)


def test_a_spout_emits_when_it_looks_and_a_saturated_bolt_never_sleeps() -> None:
    waits = Waits(0.0, 0.010)
    calm = replace(chain(20.0, [1.0], 1), spout_waits=waits, bolt_waits=waits)
    world, totals = world_of(calm, machines=1), Totals()
    world.advance(1060, totals.take)
    assert totals.latency_s(1010) == pytest.approx(0.005 + 0.005 + 0.001, rel=0.02)
    flooded = replace(chain(200.0, [10.0], 1), spout_waits=waits, bolt_waits=waits)
    ages = []
    for work in (flooded, replace(flooded, bolt_waits=Waits())):
        world, totals = world_of(work, machines=1), Totals()
        world.advance(1060, totals.take)
        ages.append(totals.latency_s(1030))
    assert ages[0] == pytest.approx(ages[1])


def test_a_sleep_takes_longer_than_it_was_told() -> None:
    world, totals = world_of(chain(200.0, [20.0], 1), machines=1, costs=replace(FREE, sleep_slack_ms=0.5)), Totals()
    world.advance(1060, totals.take)
    assert totals.rate("bolt_1", 1010, 1060) == pytest.approx(1000 / 20.5)
