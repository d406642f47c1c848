"""What Otava said is asked for once; whatever it depends on is a part of the question."""

from __future__ import annotations

from pathlib import Path

from analysis.nights.findings import CACHE_FILE, ChangePointCache, review
from analysis.nights.night_records import append_night
from analysis.nights.regressions import Settings
from analysis.stats.change_points import Rule, change_points
from tests.support.nights_by_hand import record, stepped


def test_the_same_values_are_asked_about_once(tmp_path: Path) -> None:
    values, rule = stepped(20, 10, -10), Rule()
    first = ChangePointCache(tmp_path)
    answer = first.change_points(values, rule)
    first.keep()
    again = ChangePointCache(tmp_path)
    assert again.change_points(values, rule) == answer == change_points(values, rule)
    assert (first.searches, again.searches) == (1, 0)


def test_other_values_and_another_rule_are_other_questions(tmp_path: Path) -> None:
    known = ChangePointCache(tmp_path)
    values = stepped(20, 10, -10)
    known.change_points(values, Rule())
    known.change_points([*values, 90.0], Rule())
    known.change_points(values, Rule(max_p=0.5))
    known.change_points(values, Rule(minimum_percent=9.0))
    assert known.searches == 3, "the size is no question to Otava"


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / CACHE_FILE).write_text("{")
    assert ChangePointCache(tmp_path).change_points(stepped(20, 10, -10), Rule()) != ()


def test_what_is_of_no_series_any_more_is_forgotten(tmp_path: Path) -> None:
    known = ChangePointCache(tmp_path)
    known.change_points(stepped(20, 10, -10), Rule())
    known.keep()
    size = (tmp_path / CACHE_FILE).stat().st_size
    later = ChangePointCache(tmp_path)
    later.keep()
    assert (tmp_path / CACHE_FILE).stat().st_size < size


def test_a_review_gives_the_same_with_and_without_what_was_known(tmp_path: Path) -> None:
    folder = tmp_path / "quick"
    for i, value in enumerate(stepped(20, 5, -10)):
        append_night(folder, record(i, value))
    first, again = review(folder, Settings()), review(folder, Settings())
    assert first.all == again.all != ()
    assert (folder / CACHE_FILE).is_file()
