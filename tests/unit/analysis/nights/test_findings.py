"""Nights are written once and read strictly; what cannot be read is counted and told, and the rest counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import NightExists, NightFormError
from analysis.nights.findings import evaluate
from analysis.nights.night_records import append_night, clock_jumps, read_history
from analysis.nights.regressions import Settings
from tests.support.nights_by_hand import record


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


def test_a_clock_that_was_set_back_is_told_and_the_order_is_that_of_appending(tmp_path: Path) -> None:
    append_night(tmp_path, record(5, 100.0))
    append_night(tmp_path, record(1, 101.0))
    found = read_history(tmp_path)
    assert [night.night for night in found.nights] == ["2026-01-06", "2026-01-02"]
    (line,) = clock_jumps(found)
    assert "20260102-030000 begins" in line
    assert "before the end of 20260106-030000" in line


def test_a_night_that_ends_before_it_begins_is_told(tmp_path: Path) -> None:
    append_night(tmp_path, record(0, 100.0, ended_s=1.0))
    assert any("ends" in line and "before it begins" in line for line in clock_jumps(read_history(tmp_path)))


def test_no_folder_is_an_empty_history(tmp_path: Path) -> None:
    found = evaluate(read_history(tmp_path / "never"), Settings())
    assert (found.last, found.all, found.cells) == (None, (), ())
