"""When a night must be over, as people say it; and a series that learns it."""

from datetime import datetime
from pathlib import Path

import pytest

from barograph.campaign.steps import NothingBeforeDeadline, NothingMeasured, analyse, do_run
from barograph.errors import ExperimentError
from barograph.nights.outcome import outcome_of
from barograph.nights.suite import deadline_s
from barograph.plan.durations import Overhead, run_s
from barograph.series.progress import lines_since
from barograph.series.series import DEADLINE_FILE, Series, open_series, set_deadline, too_late

EVENING = datetime(2026, 11, 21, 22, 30).astimezone().timestamp()
NO_OVERHEAD = Overhead(run_s=0.0)


def test_as_people_say_it() -> None:
    assert deadline_s(None, 6, EVENING) == EVENING + 6 * 3600
    assert deadline_s("90min", 6, EVENING) == EVENING + 90 * 60
    assert deadline_s("1.5h", 6, EVENING) == EVENING + 90 * 60
    assert deadline_s("2", 6, EVENING) == EVENING + 2 * 3600
    assert deadline_s("07:00", 6, EVENING) == datetime(2026, 11, 22, 7).astimezone().timestamp()
    assert deadline_s("23:15", 6, EVENING) == EVENING + 45 * 60


@pytest.mark.parametrize("said", ["tomorrow", "25h", "0h", "7:60", "-1h", ""])
def test_what_is_none(said: str) -> None:
    with pytest.raises(ExperimentError, match=r"--deadline is .*; allowed: a time such as 07:00, or 6h, 90min"):
        deadline_s(said, 6, EVENING)


def test_no_run_begins_that_would_end_later(series: Series) -> None:
    needed_s = run_s(series.experiment, NO_OVERHEAD)
    assert too_late(series, 1e12, NO_OVERHEAD) == "", "nobody set a deadline"
    set_deadline(series, 10_000.0)
    assert too_late(series, 10_000.0 - needed_s, NO_OVERHEAD) == ""
    assert "a further run would take about" in too_late(series, 10_001.0 - needed_s, NO_OVERHEAD)


def test_an_execution_that_resumes_the_series_has_forgotten_it(series: Series) -> None:
    set_deadline(series, 10_000.0)
    Path(series.folder / DEADLINE_FILE).write_text("{")
    assert too_late(series, 1e12, NO_OVERHEAD) == "", "a damaged file is no deadline"
    again = open_series(series.experiment, now_s=series.opened_s + 60)
    assert again.folder == series.folder and too_late(again, 1e12, NO_OVERHEAD) == ""


def test_a_series_without_a_run_in_time_has_nothing_to_analyse_and_has_not_failed(series: Series) -> None:
    with pytest.raises(NothingMeasured) as failed:
        analyse(series.folder)
    assert not isinstance(failed.value, NothingBeforeDeadline)
    set_deadline(series, series.opened_s)
    assert do_run(series.folder) is None and do_run(series.folder) is None
    with pytest.raises(NothingBeforeDeadline):
        analyse(series.folder)
    status, reason = outcome_of(series)
    assert status == "deadline" and reason.startswith("0 of 4 runs are complete; deadline ")
    assert len(lines_since(series.folder, "deadline", series.opened_s)) == 1, "told once"
