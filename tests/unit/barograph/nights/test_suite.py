"""Suites as files: what ships can run, and what is wrong is named with its file, field and what is allowed."""

from itertools import pairwise
from typing import Any

import pytest

from barograph.errors import ExperimentError
from barograph.nights.procedure import CLOSING_S
from barograph.nights.suite import Choice, Suite, load_suite, parse_suite, require_cron, subset, suite_names
from barograph.plan.durations import longest_run_s
from barograph.plan.experiment import load

GOOD: dict[str, Any] = {
    "title": "Star", "schedule": "0 1 * * *", "testbed": "fake", "deadline_hours": 2,
    "experiments": [{"experiment": "stela/star", "variants": ["stela"], "repetitions": 2}],
}  # fmt: skip


def complaint(**changes: Any) -> str:
    with pytest.raises(ExperimentError) as caught:
        parse_suite("try", {**GOOD, **changes}, source="suites/try.yaml")
    return str(caught.value)


@pytest.mark.parametrize("name", suite_names())
def test_what_ships_can_be_run(name: str) -> None:
    suite = load_suite(name)
    assert [suite.resolved(choice).testbed.name for choice in suite.experiments] == ["local"] * len(suite.experiments)


def test_a_suite_is_laid_over_its_experiments() -> None:
    suite = parse_suite("try", {**GOOD, "options": {"region": "x"}}, source="suites/try.yaml")
    experiment = suite.resolved(suite.experiments[0])
    assert [variant.name for variant in experiment.variants] == ["stela"] and experiment.repetitions == 2
    assert experiment.testbed.name == "fake" and experiment.testbed.options["fake"] == {"region": "x"}
    whole = suite.resolved(Choice("stela/star"))
    assert whole.repetitions == load("stela/star").repetitions
    assert whole.durations == load("stela/star").durations
    assert suite.resolved(Choice("stela/star", horizon_s=120)).durations.horizon_s == 120


def test_renames_and_accepted_regressions() -> None:
    accepted = [{"series": "stela/star/*", "night": "2026-11-21", "why": "slower on purpose"}]
    suite = parse_suite("try", {**GOOD, "renames": {"metrics": {"old": "new"}}, "accepted": accepted}, source="x")
    assert suite.renames.metrics == {"old": "new"} and suite.renames.variants == {}
    assert suite.accepted[0].why == "slower on purpose"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shedule": "x"}, "unknown key shedule; known here: title, schedule, testbed, .*; did you mean schedule"),
        ({"experiments": [{"experiment": "stela/star", "reps": 3}]},
         "unknown key experiments.0.reps; known here: experiment, variants, repetitions"),
        ({"renames": {"runs": {}}}, "unknown key renames.runs; known here: experiments, variants, metrics"),
        ({"schedule": "0 1 * *"}, r"schedule is '0 1 \* \*'; allowed: five fields"),
        ({"deadline_hours": 25}, "deadline_hours is 25; allowed: .*less than or equal to 24"),
        ({"testbed": "lokal"}, "testbed is 'lokal'; known: .*local"),
        ({"experiments": [{"experiment": "stela/sun"}]}, "experiments.0: no experiment 'stela/sun'.*there are: "),
        ({"experiments": [{"experiment": "stela/star", "variants": ["x"]}]},
         "experiments.0: variants is x; stela/star has the variants even_rebalance, stela"),
        ({"experiments": GOOD["experiments"] * 2}, "experiments has stela/star twice"),
        ({"experiments": []}, "experiments is .*at least 1"),
        ({"accepted": [{"series": "*", "night": "yesterday", "why": "x"}]}, "accepted.0.night is 'yesterday'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    import re

    assert re.search(said, complaint(**changes)), complaint(**changes)


def test_a_missing_key_and_no_mapping() -> None:
    with pytest.raises(ExperimentError, match=r"suites/try.yaml: title is missing"):
        parse_suite("try", {key: value for key, value in GOOD.items() if key != "title"}, source="suites/try.yaml")
    with pytest.raises(ExperimentError, match="holds list, not a mapping"):
        parse_suite("try", [], source="suites/try.yaml")
    with pytest.raises(ExperimentError, match="no suite 'nope' in dags/suites/; there are: quick, stela"):
        load_suite("nope")


def test_cron() -> None:
    for cron in ("0 2 * * *", "*/15 0-6 1,15 * 1-5", "59 23 31 12 7"):
        assert require_cron(cron) == cron
    for wrong in ("60 * * * *", "* 24 * * *", "* * 0 * *", "5-2 * * * *", "@daily", "* * * * MON", "*/0 * * * *"):
        with pytest.raises(ValueError, match=r"five fields|lists and steps"):
            require_cron(wrong)


def test_a_part_of_a_suite() -> None:
    suite = load_suite("stela")
    assert [choice.experiment for choice in subset(suite, ["stela/diamond", "stela/star"]).experiments] == [
        "stela/star", "stela/diamond",
    ]  # fmt: skip
    with pytest.raises(ExperimentError, match="suite stela has no stela/sun; it has stela/star, "):
        subset(suite, ["stela/sun"])


def test_shipped_schedules_do_not_collide() -> None:
    """However long a night takes, its reservation of the testbed is over when the next one on it begins."""
    suites = [load_suite(name) for name in suite_names()]
    spans = sorted((suite.testbed, *span_h(suite)) for suite in suites if suite.schedule)
    assert len(spans) > 1
    for (testbed, _, end_h), (other, begin_h, _) in pairwise(spans):
        assert testbed != other or end_h <= begin_h
    firsts = {testbed: begin_h for testbed, begin_h, _ in reversed(spans)}
    assert all(end_h - 24 <= firsts[testbed] for testbed, _, end_h in spans), "nor into the next day's first"


def span_h(suite: Suite) -> tuple[float, float]:
    """Of a night that begins each day at one time: hours since midnight."""
    minute, hour, *every_day = str(suite.schedule).split()
    assert every_day == ["*", "*", "*"]
    begin_h = int(hour) + int(minute) / 60
    longest_s = max(longest_run_s(suite.resolved(choice)) for choice in suite.experiments)
    return begin_h, begin_h + suite.deadline_hours + (longest_s + CLOSING_S) / 3600
