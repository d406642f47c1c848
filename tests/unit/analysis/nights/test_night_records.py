"""Nights are written once and read strictly, what cannot be read is told; their calendar; Otava's answers are kept."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import NightExists, NightFormError
from analysis.nights.findings import CACHE_FILE, ChangePointCache, evaluate, review
from analysis.nights.night_records import LONGEST_GAP, append_night, calendar_cells, clock_jumps, read_history
from analysis.nights.regressions import Settings
from analysis.stats.change_points import Rule, change_points
from tests.support.nights_by_hand import parsed, record, stepped


def written(folder: Path, number: int) -> Path:
    for i in range(number):
        append_night(folder, record(i, 100.0 + i))
    return folder


def test_nights_come_back_in_the_order_of_appending(tmp_path: Path) -> None:
    found = read_history(written(tmp_path / "quick", 3))
    assert [night.id for night in found.nights] == ["20260101-030000", "20260102-030000", "20260103-030000"]
    assert [night.sequence for night in found.nights] == [1, 2, 3]
    assert found.nights[2].experiments[0].variants["stela"]["throughput_after"]["e1"].values == (102.0,) * 3
    assert found.damaged == ()


def test_a_second_night_of_the_same_id_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    path = append_night(tmp_path, record(0, 100.0))
    before = path.read_bytes()
    with pytest.raises(NightExists, match="20260101-030000 is on record already") as refused:
        append_night(tmp_path, record(0, 200.0))
    assert refused.value.blame == "capacity"
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is left behind"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"machin": "x"}, "machin"),
        ({"dirty": "no"}, "dirty"),
        ({"night": "21.11.2026"}, "night"),
        ({"id": "../escape"}, "id"),
        ({"status": "fine"}, "status"),
        ({"started_s": None}, "started_s"),
        ({"v": 2}, "a newer Barograph"),
    ],
)
def test_what_does_not_follow_the_form_is_not_written(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(NightFormError, match=said) as refused:
        append_night(tmp_path, record(0, 100.0) | wrong)
    assert refused.value.blame == "harness"
    assert not list(tmp_path.rglob("*.json"))


def test_no_number_is_not_a_number(tmp_path: Path) -> None:
    with pytest.raises(NightFormError, match=r"values.0"):
        append_night(tmp_path, record(0, {"values": [float("nan")]}))
    with pytest.raises(NightFormError, match="2 not steady of 1 values"):
        append_night(tmp_path, record(0, {"values": [1.0], "unsteady": 2}))


def test_damaged_nights_are_told_and_the_others_count(tmp_path: Path) -> None:
    folder = written(tmp_path / "quick", 4) / "nights"
    whole = (folder / "20260101-030000.json").read_text()
    (folder / "20260102-030000.json").write_text(whole[: len(whole) // 2])
    (folder / "20260103-030000.json").write_text(json.dumps(json.loads(whole) | {"v": 9}))
    (folder / "copy.json").write_text(whole)
    (folder / ".20260105-030000.json").write_text("half a night that was never linked")
    found = read_history(folder.parent)
    assert [night.id for night in found.nights] == ["20260101-030000", "20260104-030000"]
    assert [one.file for one in found.damaged] == ["20260102-030000.json", "20260103-030000.json", "copy.json"]
    assert all(word in one.why for one, word in zip(found.damaged, ("whole JSON", "newer", "copy"), strict=True))
    told = evaluate(found, Settings()).notes
    assert sum("is no night" in line for line in told) == 3


def test_the_next_night_comes_after_a_damaged_one(tmp_path: Path) -> None:
    folder = written(tmp_path / "quick", 2)
    (folder / "nights" / "20260102-030000.json").write_text("{")
    append_night(folder, record(2, 100.0))
    assert [night.sequence for night in read_history(folder).nights] == [1, 3]


def test_clocks_that_were_set_back_are_told_and_the_order_is_that_of_appending(tmp_path: Path) -> None:
    append_night(tmp_path, record(5, 100.0))
    append_night(tmp_path, record(1, 101.0))
    append_night(tmp_path, record(7, 100.0, ended_s=1.0))
    found = read_history(tmp_path)
    assert [night.night for night in found.nights] == ["2026-01-06", "2026-01-02", "2026-01-08"]
    ends, begins = clock_jumps(found)
    assert "20260108-030000 ends" in ends and "before it begins" in ends
    assert "20260102-030000 begins" in begins and "before the end of 20260106-030000" in begins


def test_no_folder_is_an_empty_history(tmp_path: Path) -> None:
    found = evaluate(read_history(tmp_path / "never"), Settings())
    assert (found.last, found.all, found.cells) == (None, (), ())


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


def test_otava_is_asked_once_about_values_and_rule_and_answers_of_no_series_go(tmp_path: Path) -> None:
    values = stepped(20, 10, -10)
    (tmp_path / CACHE_FILE).write_text("{")
    first = ChangePointCache(tmp_path)  # a damaged file is as good as none
    answer = first.change_points(values, Rule())
    assert answer == change_points(values, Rule()) != ()
    for asked, rule in (([*values, 90.0], Rule()), (values, Rule(max_p=0.5)), (values, Rule(minimum_percent=9.0))):
        first.change_points(asked, rule)
    assert first.searches == 3, "the size is no question to Otava"
    first.keep()
    again, size = ChangePointCache(tmp_path), (tmp_path / CACHE_FILE).stat().st_size
    assert again.change_points(values, Rule()) == answer and again.searches == 0
    again.keep()
    assert (tmp_path / CACHE_FILE).stat().st_size < size


def test_a_review_gives_the_same_with_and_without_what_was_known(tmp_path: Path) -> None:
    folder = tmp_path / "quick"
    for i, value in enumerate(stepped(20, 5, -10)):
        append_night(folder, record(i, value))
    first, again = review(folder, Settings()), review(folder, Settings())
    assert first.all == again.all != ()
    assert (folder / CACHE_FILE).is_file()
