"""Comparisons on fakes from their opening to their last run: until certain, with a side that fails, cut short."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.compare.question import Budget
from analysis.record import wall_time
from barograph.campaign.steps import do_run, runs_of_execution
from barograph.compare import record, stopping
from barograph.compare.comparison import Comparison
from barograph.compare.stopping import InterimAnalysisFailure, InterimAnswer, Stop, decide, whole_blocks
from barograph.errors import Interrupted, RunBroken
from barograph.plan.blocks import plan_runs
from barograph.plan.experiment import load
from barograph.series.run_record import read_run
from barograph.series.series import Series, read_series

Compared = Callable[..., Comparison]
Opened = Callable[..., Series]
UNSURE = InterimAnswer(False, "±9 % is wider than ±5 %", "no difference that these runs can show")
SURE = InterimAnswer(True, "all intervals are within ±5 %", "my-branch is better than main")


class Looks:
    """In the place of the analysis between blocks: `answers` in their order, an exception is raised."""

    def __init__(self, *answers: InterimAnswer | Exception) -> None:
        self.answers, self.blocks = list(answers), list[int]()

    def __call__(self, series_dir: Path) -> InterimAnswer:
        series = read_series(series_dir)
        self.blocks.append(whole_blocks(series.plan(), series.complete() | series.current_attempts()))
        found = self.answers.pop(0) if self.answers else UNSURE
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Looks]:
    def install(*answers: InterimAnswer | Exception) -> Looks:
        found = Looks(*answers)
        monkeypatch.setattr(stopping, "run_interim_analysis", found)
        return found

    return install


def carried_out(series: Series) -> list[str | None]:
    """As the DAG does it: a task for every run that is left, none of which a failure of another one stops."""
    done: list[str | None] = []
    for _ in runs_of_execution(series.folder):
        try:
            done.append(do_run(series.folder))
        except RunBroken as error:
            done.append(str(error))
    return done


def messages(series: Series) -> list[str]:
    lines = [json.loads(line) for line in (series.folder / "progress.jsonl").read_text().splitlines()]
    return [line["text"] for line in lines if line["kind"] == "message"]


def test_it_stops_at_the_first_whole_block_that_is_certain(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    found = looks(UNSURE, UNSURE, SURE)
    series = opened(compared(20, until_certain=True))
    done = carried_out(series)
    assert found.blocks == [3, 4, 5], "after every whole block from the third on"
    assert len(series.complete()) == 10 and done[10:] == [None] * 30, "the tasks that are left do nothing"
    assert series.missing_runs() == 0
    enough = record.sufficiency(series.folder)
    assert enough is not None and (enough["why"], enough["blocks"], enough["said"]) == ("certain", 5, SURE.why)
    assert "enough after 5 blocks: all intervals are within ±5 %" in messages(series)
    assert [line["blocks"] for line in stopping.read_checks(series.folder)] == [3, 4, 5]
    with (series.folder / stopping.CHECKS_FILE).open("a") as file:
        file.write('{"t": 1}\n{"t": 1, "blo')
    stopping.note_check(series.folder, 1e12, 6, 1.0)
    assert [line["blocks"] for line in stopping.read_checks(series.folder)] == [3, 4, 5, 6]


def test_a_time_that_is_over_stops_it(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    looks()
    series = opened(compared(20, until_certain=True, budget=Budget(seconds=1200.0)))
    carried_out(series)
    enough = record.sufficiency(series.folder)
    assert enough is not None and "min of the budget of 20 min are used, and a block takes" in enough["said"]
    assert 3 < enough["blocks"] < 20 and stopping.total_time_s(series) <= 1200.0
    assert stopping.total_time_s(series) * (enough["blocks"] + 1) / enough["blocks"] > 1200.0, (
        "no block before it was needed"
    )


def test_a_side_that_always_fails_does_not_take_the_whole_budget(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({"stela_b": None})
    found = looks()
    series = opened(compared(20, until_certain=True))
    carried_out(series)
    enough = record.sufficiency(series.folder)
    assert enough is not None and (enough["why"], enough["blocks"]) == ("failed", 3)
    assert enough["said"] == "stela_b failed in 3 of 3 runs" and found.blocks == [3]


def test_an_analysis_that_fails_stops_nothing(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    looks(InterimAnalysisFailure("it ended with 1"), SURE)
    series = opened(compared(20, until_certain=True))
    carried_out(series)
    assert len(series.complete()) == 8
    assert "after 3 blocks: not analysed: it ended with 1" in messages(series)


def test_it_is_resumed_where_it_was_cut_short(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    on_fakes({})
    found = looks(UNSURE, SURE)
    asked = compared(20, until_certain=True)
    first = opened(asked)
    for _ in range(5):
        do_run(first.folder)
    with monkeypatch.context() as during:
        during.setattr(stopping, "run_interim_analysis", _interrupted)
        with pytest.raises(Interrupted):
            do_run(first.folder)
    assert len(first.complete()) == 6 and not first.is_sufficient(), "what was measured is kept"
    again = opened(asked)
    assert again.folder == first.folder and again.missing_runs() == 34
    carried_out(again)
    assert found.blocks == [3, 4] and len(again.complete()) == 8, "the analysis that was cut short came first"
    enough = record.sufficiency(again.folder)
    assert enough is not None and enough["blocks"] == 4


def _interrupted(_series_dir: Path) -> InterimAnswer:
    raise Interrupted("SIGINT received")


def test_a_failed_run_is_measured_again_when_it_is_resumed(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({"stela_b": None})
    carried_out(opened(compared(3)))
    on_fakes({})
    series = opened(compared(3), now_s=time.time() + 86_400)  # the fakes' clock has run ahead
    assert series.missing_runs() == 3
    carried_out(series)
    assert len(series.complete()) == 6
    assert (read_run(series.run_folder("stela_b-r1")) or {})["attempt"] == 2


ANSWERS = st.one_of(st.none(), st.just(SURE), st.just(UNSURE))
SAID = st.one_of(st.none(), st.just("said"))


@given(ANSWERS, SAID, SAID)
def test_nothing_stops_without_a_reason_and_the_budget_is_the_last(
    answer: InterimAnswer | None, failed: str | None, spent: str | None
) -> None:
    found = decide(answer, failed, spent)
    certain = answer is not None and answer.certain
    assert (found is not None) == (certain or failed is not None or spent is not None)
    assert found is None or found.why == ("failed" if failed else "certain" if certain else "budget")
    assert not isinstance(found, Stop) or found.said


@given(st.sets(st.integers(0, 7)))
def test_a_block_is_whole_when_it_and_those_before_it_have_nothing_to_do(places: set[int]) -> None:
    plan = plan_runs(load("stela/star"))[:6]
    done = {run.run_id for place, run in enumerate(plan) if place in places}
    expected = 0
    while expected < 3 and {2 * expected, 2 * expected + 1} <= places:
        expected += 1
    assert whole_blocks(plan, done) == expected


def test_where_the_time_went(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    looks(UNSURE, SURE)
    series = opened(compared(20, until_certain=True))
    carried_out(series)
    runs: list[Any] = [read_run(series.run_folder(run_id)) for run_id in series.complete()]
    runs_s = sum(run["ended_s"] - run["started_s"] for run in runs)
    watched_s = sum(phase["planned_s"] for run in runs for phase in run["phases"])
    checks_s = sum(line["seconds"] for line in stopping.read_checks(series.folder))
    found = stopping.wall_time(series, series.opened_s + runs_s + checks_s + 100.0, 30.0)
    assert found.watched_s == pytest.approx(watched_s) and found.switching_s == pytest.approx(runs_s - watched_s)
    assert found.rest_s == pytest.approx(70.0) and found.runs == 8
    assert found.over_runs_percent == pytest.approx(100 * (100.0 + checks_s) / runs_s)
    wall_time.write_wall_time(series.folder, found)
    assert wall_time.read_wall_time(series.folder) == found and "switching in 8 runs" in wall_time.wall_time_line(found)


def test_the_time_is_counted_though_the_clock_was_set_back(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    looks(UNSURE, SURE)
    series = opened(compared(20, until_certain=True), now_s=time.time() + 3600)
    carried_out(series)
    runs: list[Any] = [read_run(series.run_folder(run_id)) for run_id in series.complete()]
    runs_s = sum(run["ended_s"] - run["started_s"] for run in runs)
    checks = stopping.read_checks(series.folder, series.opened_s)
    assert len(checks) == 2 and stopping.read_checks(series.folder, 0.0) == []
    found = stopping.wall_time(series, time.time(), 30.0)
    assert found.runs == len(runs) == 8 and found.checks_s == sum(line["seconds"] for line in checks)
    assert found.wall_s >= runs_s + 30.0
    assert stopping.total_time_s(series) == pytest.approx(runs_s + found.checks_s), "an opening takes no negative time"


def test_a_fixed_number_of_blocks_is_never_looked_at(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    found = looks(SURE)
    series = opened(compared(4))
    assert None not in carried_out(series) and len(series.complete()) == 8
    assert found.blocks == [] and not series.is_sufficient()


def test_blocks_that_are_spent_leave_a_plan_that_is_done(
    compared: Compared, opened: Opened, on_fakes: Callable[..., None], looks: Callable[..., Looks]
) -> None:
    on_fakes({})
    looks()
    series = opened(compared(4, until_certain=True))
    carried_out(series)
    assert len(series.complete()) == 8 and series.missing_runs() == 0
    assert record.sufficiency(series.folder) is None, "a run that an accident spoilt could still be done again"
