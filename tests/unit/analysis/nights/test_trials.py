"""The bench's trials tell truth from error: a rule that believes everything is caught by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.nights.findings import review
from analysis.nights.night_records import read_history
from analysis.nights.regressions import Settings
from analysis.stats.change_points import Rule
from bench.statistics import synthetic_nights
from bench.statistics.nights import alarms, by_night, detect_steps, false_alarms, spikes_that_alarm
from tests.support.nights_by_hand import stepped

EAGER = Rule(max_p=0.05, minimum_percent=0.0, confirming_nights=0)


def test_a_large_step_is_found_soon_and_its_range_is_right() -> None:
    found = detect_steps(Rule(), 1.0, 20.0, 4, seed=1)
    assert (found.share, found.median_nights, found.in_range) == (100.0, 3.0, 100.0)


def test_spikes_do_not_alarm_and_an_eager_rule_shows_that_the_trial_can_fail() -> None:
    assert spikes_that_alarm(Rule(), 2.0, 4, seed=1) == (0, 4)
    assert spikes_that_alarm(EAGER, 2.0, 4, seed=1)[0] == 4


@pytest.mark.long
def test_false_alarms_are_counted_once_and_by_rule() -> None:
    rules = [Rule(max_p=0.05, minimum_percent=20.0), Rule(max_p=0.05, minimum_percent=0.0, confirming_nights=0)]
    careful, eager = false_alarms(rules, synthetic_nights.noise, 2.0, 3, 60, seed=3)
    assert careful == 0
    assert eager > 0
    values = [100.0] * 20 + [80.0, 80.1, 79.9] * 4
    assert alarms(values, [Rule()]) == [1]


def test_the_invented_history_is_one_that_can_be_read(tmp_path: Path) -> None:
    synthetic_nights.write_history(tmp_path / "bench", series=20, nights=40, seed=1)
    history = read_history(tmp_path / "bench")
    assert (len(history.nights), history.damaged) == (39, ())
    found = review(tmp_path / "bench", Settings())
    assert len(found.series) == 20
    assert {one.key.metric for one in found.alarms} | {one.key.metric for one in found.all} >= {"throughput_after"}
    assert json.loads((tmp_path / "bench" / "nights" / "20260101-030000.json").read_text())["sequence"] == 1


def test_every_night_is_judged_by_all_nights_before_it() -> None:
    """A history that began anew each night would take three odd nights at its beginning for a level."""
    (seen,) = next(by_night(stepped(20, 180, -20), [Rule()], 199, 200))
    assert [one.since for one in seen.findings] == [20]
