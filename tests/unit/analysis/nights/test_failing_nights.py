"""Nights whose code fails runs: what the others are like is no improvement, and no recovery."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from analysis.nights import pages
from analysis.nights.findings import Findings, evaluate, finding_sentence, findings_data, headline
from analysis.nights.first_page import finding_rows, first_page
from analysis.nights.night_records import History
from analysis.nights.regressions import RegressionKind, Settings, Status
from analysis.nights.timelines import timelines
from analysis.report.page import html
from barograph.nights.findings import finding_line
from bench.statistics.synthetic_nights import experiment, night
from tests.support.nights_by_hand import STAR, only, parsed, quiet, stepped

Runs = tuple[float, int, int]  # of a night: the level, how many of its runs are complete, and how many failed


def judged(nights: Sequence[Runs], variant: str = "stela") -> Findings:
    records = [
        night(i, "quick", [experiment(
            STAR, {variant: {"throughput_after": {"e1": [level] * complete}}} if complete else {},
            status="failed" if failed else "complete", reason="no slot" if failed else "",
            failed={"stela": failed} if failed else {},
        )])
        for i, (level, complete, failed) in enumerate(nights)
    ]  # fmt: skip
    return evaluate(History("quick", parsed(records)), Settings())


def crashing(levels: Sequence[float], since: int, runs: int = 3, until: int = 1000, seed: int = 3) -> list[Runs]:
    """From a night on each run fails in half of the cases."""
    rng = Random(seed)
    failed = [sum(rng.random() < 0.5 for _ in range(runs)) if since <= i < until else 0 for i in range(len(levels))]
    return [(level, runs - many, many) for level, many in zip(levels, failed, strict=True)]


@pytest.mark.parametrize("variant", ["stela", "stela:all"])
def test_what_is_faster_in_the_runs_that_it_does_not_crash_in_is_no_improvement(variant: str, tmp_path: Path) -> None:
    found = judged(crashing(stepped(30, 20, 10), 30), variant)
    one = only(found)
    assert (one.kind, one.status) == (RegressionKind.CHANGE, Status.CONFIRMED)
    assert one.failed.endswith(" of 60 runs failed since, 0 of 90 before")
    assert "improvement" not in headline(found)
    data = findings_data(found)
    assert data["counts"]["improvements"] == 0 and data["findings"][0]["kind"] == "change in complete runs"
    assert any("is no improvement: " + one.failed in line for line in found.notes)
    for text in (finding_sentence(one, found.history.nights), finding_line(one)):
        assert "in complete runs" in text and one.failed in text and "better" not in text and "improve" not in text
    rows = finding_rows(found, timelines(found))
    page = html(first_page(found, rows, {}, tmp_path), {})
    assert "Improvements" not in page


def test_what_fails_as_it_did_before_may_improve() -> None:
    nights = [(level, 2, 1) for level in stepped(30, 20, 10)]
    assert only(judged(nights)).kind is RegressionKind.IMPROVEMENT
    assert (
        only(judged([*nights[:30], *((level, 3, 0) for level, *_ in nights[30:])])).kind is RegressionKind.IMPROVEMENT
    )


def test_a_regression_is_one_whatever_fails() -> None:
    one = only(judged(crashing(stepped(30, 20, -10), 30)))
    assert (one.kind, one.status, one.failed) == (RegressionKind.REGRESSION, Status.CONFIRMED, "")


def test_it_has_recovered_only_in_runs_that_do_not_crash() -> None:
    levels = [level * (0.9 if 30 <= i < 45 else 1) for i, level in enumerate(quiet(65))]
    assert only(judged(crashing(levels, 65))).status is Status.RECOVERED
    regression, change = sorted(judged(crashing(levels, 45)).all, key=lambda one: one.since)
    assert (regression.kind, regression.status) == (RegressionKind.REGRESSION, Status.CONFIRMED)
    assert change.kind is RegressionKind.CHANGE


def test_one_failed_run_of_hundreds_is_no_change_of_what_fails() -> None:
    back = [level * (0.9 if 30 <= i < 45 else 1) for i, level in enumerate(quiet(120))]
    recovered = only(judged([(level, 3 - (i == 50), int(i == 50)) for i, level in enumerate(back)]))
    assert (recovered.kind, recovered.status) == (RegressionKind.REGRESSION, Status.RECOVERED)
    faster = only(judged([(level, 3 - (i == 60), int(i == 60)) for i, level in enumerate(stepped(30, 90, 10))]))
    assert (faster.kind, faster.failed) == (RegressionKind.IMPROVEMENT, "")


@pytest.mark.parametrize(("before", "failed"), [(12, {1, 4}), (30, {0, 2, 3, 5})])
def test_of_few_runs_that_fail_more_it_is_not_yet_known_that_they_fail_alike(before: int, failed: set[int]) -> None:
    """2 of 6, one a night, against none of 12: Fisher's p is 0.1. Nothing is praised for want of runs."""
    levels = stepped(before, 6 + len(failed) // 4, 10)
    nights = [(level, int(i - before not in failed), int(i - before in failed)) for i, level in enumerate(levels)]
    assert only(judged(nights)).kind is RegressionKind.CHANGE


@pytest.mark.parametrize("runs", [1, 3])
def test_in_no_night_is_a_code_improved_that_has_crashed_since(runs: int) -> None:
    """From the first failure on, night by night: 8 drawn histories of a code that crashes in half of its runs."""
    for seed in range(8):
        nights = crashing(stepped(30, 15, 10, seed=seed), 30, runs=runs, seed=seed)
        first = next(i for i, (_, _, failed) in enumerate(nights) if failed)
        kinds = {one.kind for last in range(first + 1, len(nights) + 1) for one in judged(nights[:last]).all}
        assert kinds == {RegressionKind.CHANGE}


def test_what_a_night_with_failures_differs_by_is_of_its_complete_runs() -> None:
    found = judged([*((level, 3, 0) for level in quiet(20)), (150.0, 1, 2)])
    (row,) = [pages.difference_row(one) for one in pages.night_differences(found.series, 20)]
    assert row["words"] == "better in complete runs"
