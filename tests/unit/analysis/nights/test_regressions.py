"""What a step means: suspected, confirmed, recovered, accepted; and between which commits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from analysis.nights.findings import evaluate
from analysis.nights.night_series import NEVER_SUFFIX
from analysis.nights.regressions import RegressionKind, Settings, Status
from analysis.nights.settings import Accepted
from analysis.stats.change_points import Candidate, Rule
from tests.support.nights_by_hand import Differs, history, judged, only, quiet, stepped

STEP = stepped(30, 20, -10)


@pytest.mark.parametrize(
    ("metric", "worse"), [("throughput_after", -10), ("latency_all_p95_ms_after", 10)]
)  # fmt: skip
def test_which_way_is_worse(metric: str, worse: float) -> None:
    for percent, kind in ((worse, RegressionKind.REGRESSION), (-worse, RegressionKind.IMPROVEMENT)):
        found = judged(stepped(30, 3, percent), metric)
        assert (only(found).kind, only(found).status) == (kind, Status.CONFIRMED)
        assert bool(found.alarms) is (percent == worse)


@pytest.mark.parametrize(
    ("nights", "status", "new"),
    [(1, Status.SUSPECTED, True), (2, Status.SUSPECTED, False), (3, Status.CONFIRMED, True),
     (4, Status.CONFIRMED, False), (20, Status.CONFIRMED, False)],
)  # fmt: skip
def test_a_step_is_suspected_at_once_and_confirmed_by_two_more_nights(nights: int, status: Status, new: bool) -> None:
    found = judged(STEP[: 30 + nights])
    one = only(found)
    assert (one.kind, one.status, one.new) == (RegressionKind.REGRESSION, status, new)
    assert (one.good, one.since, one.bad, one.nights_after) == (29, 30, 30, nights)
    assert one.confirmed == (32 if nights >= 3 else None)
    assert len(found.alarms) == (1 if nights == 3 else 0)


@pytest.mark.parametrize(("error", "found"), [(100.0, 1), (4000.0, 1), (10_000.0, 0), (None, 0)])
def test_a_step_of_lost_tuples_is_beyond_what_these_may_be_wrong_by(error: float | None, found: int) -> None:
    """None, and 12,000 from a night on: with 10,000 that no line can tell from none it is no regression."""
    values = [max(0.0, each - 100.0) for each in quiet(30)] + [12_000.0 + each for each in quiet(10)]
    nights = [{"values": [value] * 3, "horizons": [], "error": error} for value in values]
    assert len(judged(nights, "lost_after").of(RegressionKind.REGRESSION, Status.CONFIRMED)) == found


@pytest.mark.parametrize(("error", "status"), [(0.0, Status.CONFIRMED), (4000.0, Status.RECOVERED)])
def test_a_level_that_may_be_wrong_by_its_distance_from_the_old_one_is_back_there(error: float, status: Status) -> None:
    """None, 20,000 for fifteen nights, and 5,000 since: with 4,000 on either side nobody knows that it is more."""
    levels = [0.0] * 30 + [20_000.0] * 15 + [5_000.0] * 15
    values = [max(0.0, level + each - 100.0) for level, each in zip(levels, quiet(60), strict=True)]
    nights = [{"values": [value] * 3, "horizons": [], "error": error} for value in values]
    (one,) = judged(nights, "lost_after").of(RegressionKind.REGRESSION)
    assert one.status is status


def test_what_has_no_direction_is_never_judged() -> None:
    assert judged(stepped(30, 10, -50), "due_after").all == ()


def test_a_regression_that_was_fixed_has_recovered_and_the_fix_is_no_improvement() -> None:
    values = [v * (0.9 if 30 <= i < 45 else 1) for i, v in enumerate(quiet(60))]
    one = only(judged(values))
    assert (one.status, one.since, one.recovered) == (Status.RECOVERED, 30, 45)
    after_one = only(judged(values[:46]))
    assert (after_one.status, after_one.good_again) == (Status.CONFIRMED, 1), "one good night is no recovery"


def test_what_came_back_in_part_stands() -> None:
    values = [v * (0.8 if 30 <= i < 45 else 0.93 if i >= 45 else 1) for i, v in enumerate(quiet(60))]
    worse, better = sorted(judged(values).all, key=lambda one: one.since)
    assert (worse.kind, worse.status, better.kind) == (
        RegressionKind.REGRESSION,
        Status.CONFIRMED,
        RegressionKind.IMPROVEMENT,
    )
    assert worse.now == pytest.approx(93, abs=1)


def test_the_first_bad_commit_lies_after_the_last_good_night() -> None:
    of = history(STEP).nights
    commits = only(judged(STEP)).commits
    assert (commits.kind, commits.good, commits.bad, commits.between) == ("commits", of[29].commit, of[30].commit, 0)
    assert commits.words == f"{of[29].commit[:8]}..{of[30].commit[:8]}"


def test_missing_nights_widen_the_range_and_that_is_said() -> None:
    values: list[float | None] = [*STEP]
    values[29] = values[30] = None
    one = only(judged(values))
    assert (one.good, one.bad, one.commits.between) == (28, 31, 2)
    assert "2 nights between missing or not clear" in one.commits.words


def test_a_night_on_neither_side_widens_it_too() -> None:
    """Night 30 lies in the middle between both levels: it may be the last good one or the first bad one."""
    one = only(judged([100.0, 101.5, 99.0, 100.5, 98.5] * 6 + [94.9] + [90.0, 91.0, 89.0, 90.5] * 3))
    assert (one.good, one.bad, one.commits.between) == (29, 31, 1)
    assert one.since in (30, 31)


def test_the_same_commit_points_at_the_testbed() -> None:
    one = only(judged(STEP, differs=lambda i: {"commit": "c" * 40 if 25 < i < 35 else f"{i:040x}"}))
    assert one.commits.kind == "same"
    assert "look at the testbed" in one.commits.words


@pytest.mark.parametrize("differs", [{"dirty": True}, {"commit": ""}])
def test_what_was_not_committed_has_no_range(differs: Differs) -> None:
    one = only(judged(STEP, differs=lambda i: differs if i == 30 else {}))
    assert one.commits.kind == "unknown"


def test_the_floor_comes_from_nights_of_the_same_code() -> None:
    """Every commit is measured twice; those pairs say how much the same code scatters."""
    twice = judged(STEP, differs=lambda i: {"commit": f"{i // 2:040x}"})
    assert only(twice).floor == pytest.approx(2 * 1.0 * (1 / 30 + 1 / 20) ** 0.5, rel=0.6)
    assert only(judged(STEP)).floor is None


@pytest.mark.parametrize("when", ["2026-01-31", "20260131-030000", "2026-02-02"])
def test_an_accepted_regression_is_shown_but_no_alarm(when: str) -> None:
    settings = Settings(accepted=(Accepted("stela/*/throughput_after/*", when, "costs of the new queue"),))
    found = judged(STEP[:33], settings=settings)
    one = only(found)
    assert (one.status, one.why_accepted, found.alarms) == (Status.ACCEPTED, "costs of the new queue", ())
    assert found.notes == ()


@pytest.mark.parametrize("when", ["2025-12-24", "2026-01-10"])
@pytest.mark.parametrize("pattern", ["stela/*/throughput_after/*", "*/latency*"])
def test_an_entry_that_accepts_nothing_is_told_and_the_alarm_stays(when: str, pattern: str) -> None:
    found = judged(STEP[:33], settings=Settings(accepted=(Accepted(pattern, when, "why not"),)))
    assert len(found.alarms) == 1
    assert any(when in line and "no regression" in line for line in found.notes)


def test_nights_are_never_compared_across_machines() -> None:
    """Ten percent less on other machines is no regression, and what was there is not measured any more."""
    found = judged(STEP, differs=lambda i: {"machine": "small" if i >= 30 else "large"})
    assert found.all == ()
    assert any("other machines until 20260130-030000" in line for line in found.notes)
    earlier = stepped(20, 10, -10) + quiet(5)
    one = only(judged(earlier, differs=lambda i: {"machine": "small" if i >= 30 else "large"}))
    assert one.status is Status.NOT_MEASURED


def watched(seconds: Sequence[float], horizon_s: float) -> Differs:
    """What a night has of runs with these true times, watched for so long."""
    return {"values": [each for each in seconds if each <= horizon_s],
            "horizons": [horizon_s for each in seconds if each > horizon_s]}  # fmt: skip


@pytest.mark.parametrize("horizon_s", [40.0, 90.0])
def test_nights_whose_watches_only_end_earlier_are_no_regression(horizon_s: float) -> None:
    """The same times in every night; at first 600 s are watched, then too short for all of them, or for some."""
    times = [[50.0, 80.0, 110.0], [60.0, 70.0, 120.0], [70.0, 100.0, 60.0], [100.0, 50.0, 95.0]]
    nights = [watched(times[i % 4], 600.0 if i < 30 else horizon_s) for i in range(60)]
    for last in (31, 33, 40, 60):
        assert judged(nights[:last], "convergence_sp_s").of(RegressionKind.REGRESSION) == ()


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_runs_that_do_not_converge_any_more_are_a_regression(runs: int) -> None:
    nights = [watched([80.0 if i < 30 else 900.0] * runs, 600.0) for i in range(40)]
    one = only(judged(nights, "convergence_sp_s"))
    assert one.key.metric == "convergence_sp_s" + NEVER_SUFFIX
    assert (one.before, one.after, one.status, one.since) == (0.0, 100.0, Status.CONFIRMED, 30)
    alarms = [i for i in range(30, 40) if judged(nights[: i + 1], "convergence_sp_s").alarms]
    assert alarms == [34 if runs == 1 else 32], "one run a night says less"


def test_one_run_a_night_that_fails_to_converge_more_often_is_found_by_the_runs_of_both_sides() -> None:
    """A median of such nights is 0 or 100 %, and each would stand alone among its neighbours."""
    nights = [watched([900.0 if i >= 40 and i % 2 else 80.0], 600.0) for i in range(90)]
    one = only(judged(nights, "convergence_sp_s"))
    assert (one.kind, one.status) == (RegressionKind.REGRESSION, Status.CONFIRMED)
    assert one.after == pytest.approx(50.0, abs=3.0)
    assert one.good < 41 <= one.bad


def test_times_are_judged_where_they_were_reached() -> None:
    """One run in three never converges all along: the median of a night is that of Kaplan and Meier."""
    nights = [watched([each, each + 20, 900.0], 600.0) for each in stepped(30, 10, 60)]
    one = only(judged(nights, "convergence_sp_s"))
    assert (one.key.metric, one.kind, one.since) == ("convergence_sp_s", RegressionKind.REGRESSION, 30)
    assert (one.before, one.after) == (pytest.approx(120, abs=3), pytest.approx(180, abs=4))


def test_a_slow_drift_is_told_in_time() -> None:
    values = [v * (1 - 0.001 * max(0, i - 30)) for i, v in enumerate(quiet(180, scatter=1.0))]
    assert judged(values).of(RegressionKind.REGRESSION, Status.CONFIRMED)


def test_a_history_of_nothing_but_failures_has_no_series() -> None:
    found = judged([None] * 5)
    assert (found.series, found.all) == ((), ())
    assert found.failed_last_night == {"infrastructure": 1}


@pytest.mark.parametrize(("said", "new"), [({25, 29}, False), ({29}, True), ({25, 28, 29}, False), ({22, 29}, True)])
def test_a_change_that_comes_and_goes_is_told_once(said: set[int], new: bool) -> None:
    """Otava's answer is hardly beyond chance, so that it depends on tonight; with 22 nights it is a suspicion yet."""

    def find(values: Sequence[float], _: Rule) -> tuple[Candidate, ...]:
        return (Candidate(20, 1e-7),) if len(values) in said else ()

    one = only(evaluate(history(stepped(20, 9, -12)), Settings(), find))
    assert (one.status, one.new, one.alarms) == (Status.CONFIRMED, new, new)
