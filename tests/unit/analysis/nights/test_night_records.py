"""A cell for each night, and for each that should have been."""

from __future__ import annotations

from datetime import date, timedelta

from analysis.nights.night_records import LONGEST_GAP, calendar_cells
from tests.support.nights_by_hand import parsed, record


def days(*numbers: int) -> list[tuple[str, int | None]]:
    records = [record(number, 1.0) for number in numbers]
    return [(cell.day[5:], cell.night) for cell in calendar_cells(parsed(records))]


def test_a_missing_night_has_a_cell_of_its_own() -> None:
    assert days(0, 1, 2, 5) == [
        ("01-01", 0), ("01-02", 1), ("01-03", 2), ("01-04", None), ("01-05", None), ("01-06", 3)
    ]  # fmt: skip


def test_a_weekly_suite_misses_weeks_not_days() -> None:
    assert days(0, 7, 14, 28) == [("01-01", 0), ("01-08", 1), ("01-15", 2), ("01-22", None), ("01-29", 3)]


def test_two_nights_of_a_day_and_a_clock_set_back_are_no_gap() -> None:
    assert [night for _, night in days(3, 4, 4, 5, 1, 2)] == [0, 1, 2, 3, 4, 5]


def test_a_year_without_nights_is_not_drawn_day_by_day() -> None:
    found = days(0, 1, 2, 400)
    assert len(found) == 4 + LONGEST_GAP
    last_missing = (date(2026, 1, 1) + timedelta(days=399)).isoformat()[5:]
    assert found[-2] == (last_missing, None)


def test_other_machines_and_failures_are_marked() -> None:
    records = [record(0, 1.0), record(1, None, status="partial"), record(2, 1.0, machine="type_2")]
    found = calendar_cells(parsed(records))
    assert [cell.other_machines for cell in found] == [False, False, True]
    assert (found[1].status, found[1].words) == ("partial", "stela/star: infrastructure")
