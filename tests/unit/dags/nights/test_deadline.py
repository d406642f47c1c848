"""When a night must be over, as people say it; and a series that learns it."""

from datetime import datetime
from pathlib import Path

import pytest

from dags.duration import Overhead, run_s
from dags.errors import ExperimentError
from dags.nights.deadline import until_s
from dags.nights.outcome import outcome_of
from dags.progress import told_since
from dags.series import Series, open_series
from dags.steps.series_steps import NothingInTime, NothingMeasured, analyse, do_next_run
from dags.steps.until import FILE, set_until, too_late

EVENING = datetime(2026, 11, 21, 22, 30).astimezone().timestamp()
NO_OVERHEAD = Overhead(run_s=0.0)


def test_as_people_say_it() -> None:
    assert until_s(None, 6, EVENING) == EVENING + 6 * 3600
    assert until_s("90min", 6, EVENING) == EVENING + 90 * 60
    assert until_s("1.5h", 6, EVENING) == EVENING + 90 * 60
    assert until_s("2", 6, EVENING) == EVENING + 2 * 3600
    assert until_s("07:00", 6, EVENING) == datetime(2026, 11, 22, 7).astimezone().timestamp()
    assert until_s("23:15", 6, EVENING) == EVENING + 45 * 60


@pytest.mark.parametrize("said", ["tomorrow", "25h", "0h", "7:60", "-1h", ""])
def test_what_is_none(said: str) -> None:
    with pytest.raises(ExperimentError, match=r"--deadline is .*; allowed: a time such as 07:00, or 6h, 90min"):
        until_s(said, 6, EVENING)


def test_no_run_begins_that_would_end_later(series: Series) -> None:
    needed_s = run_s(series.experiment, NO_OVERHEAD)
    assert too_late(series, 1e12, NO_OVERHEAD) == "", "nobody set a deadline"
    set_until(series, 10_000.0)
    assert too_late(series, 10_000.0 - needed_s, NO_OVERHEAD) == ""
    assert "a further run would take about" in too_late(series, 10_001.0 - needed_s, NO_OVERHEAD)


def test_an_execution_that_resumes_the_series_has_forgotten_it(series: Series) -> None:
    set_until(series, 10_000.0)
    again = open_series(series.experiment, now_s=series.opened_s + 60)
    assert again.folder == series.folder and too_late(again, 1e12, NO_OVERHEAD) == ""


def test_a_damaged_file_is_no_deadline(series: Series) -> None:
    Path(series.folder / FILE).write_text("{")
    assert too_late(series, 1e12, NO_OVERHEAD) == ""


def test_a_series_without_a_run_in_time_has_nothing_to_analyse_and_has_not_failed(series: Series) -> None:
    with pytest.raises(NothingMeasured) as failed:
        analyse(series.folder)
    assert not isinstance(failed.value, NothingInTime)
    set_until(series, series.opened_s)
    assert do_next_run(series.folder) is None and do_next_run(series.folder) is None
    with pytest.raises(NothingInTime):
        analyse(series.folder)
    status, reason = outcome_of(series)
    assert status == "deadline" and reason.startswith("0 of 4 runs are complete; deadline ")
    assert len(told_since(series.folder, "deadline", series.opened_s)) == 1, "told once"
