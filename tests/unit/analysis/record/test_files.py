import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analysis.errors import RecordError
from analysis.record.files import (
    SeriesPaths,
    append_line,
    is_complete,
    json_lines,
    keep_bytes,
    parsed_lines,
    read_json,
    read_json_or_none,
    write_json_atomic,
    write_text_atomic,
)
from barograph.errors import ConfigurationError
from barograph.plan.blocks import stamp, stamp_time


def test_after_a_line_that_a_full_disk_cut_short_comes_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    append_line(file, {"t": 1}, sync=True)
    with file.open("a") as cut:
        cut.write('{"t": 2, "kind": "ste')
    append_line(file, {"t": 3})
    assert list(json_lines(file)) == [{"t": 1}, {"t": 3}]
    assert list(parsed_lines(file)).count(None) == 1


def test_a_line_of_any_damage_is_one_damaged_line(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'{"t": 1}\n\xff\xfe\n' + b"[" * 100_000 + b'\n17\n\0\0\n{"t": 1e999}\n{"t": 2}\n')
    lines = list(parsed_lines(file))
    assert len(lines) == 7 and lines.count(None) == 4 and lines[-1] == {"t": 2}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json_atomic(path, {"status": "complete"})
    with pytest.raises(ValueError, match="JSON"):
        write_json_atomic(path, {"status": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        write_text_atomic(path, "\ud800")  # fails when the part file is there already
    assert read_json(path) == {"status": "complete"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_a_disk_that_is_full_at_the_last_moment_leaves_no_part_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_text_atomic(tmp_path / "run.json", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text_atomic(tmp_path / "run.json", "new")
    with pytest.raises(OSError, match="No space left"):
        keep_bytes(tmp_path / "run.json", b"new")
    keep_bytes(tmp_path / "run.json", b"old")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("run.json", "old")]


@pytest.mark.parametrize(
    ("text", "complete"),
    [('{"status": "complete"}', True), ('{"status": "failed"}', False), ('{"status": "comp', False), ("[1]", False)],
)
def test_only_a_whole_record_that_says_so_is_complete(tmp_path: Path, text: str, complete: bool) -> None:
    (tmp_path / "run.json").write_text(text)
    assert is_complete(tmp_path) is complete


def test_reading_names_the_file_and_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(RecordError, match=r"run\.json: holds a list, but a JSON object is wanted"):
        read_json(tmp_path / "run.json")
    assert read_json_or_none(tmp_path / "run.json") is None and read_json_or_none(tmp_path / "other.json") is None


def test_a_folder_without_runs_is_no_series(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no series") as caught:
        SeriesPaths(tmp_path).all_runs()
    assert caught.value.blame == "configuration"


def test_raw_files_are_those_of_both_formats_and_weigh_what_json_would(tmp_path: Path) -> None:
    run = SeriesPaths(tmp_path).run("stela-r1").create()
    for name, size in (("workers/a.avro", 10), ("workers/b.jsonl", 7), ("workers/c.tmp", 99), ("events.jsonl", 3)):
        (run.root / name).write_bytes(b"x" * size)
    series = SeriesPaths(tmp_path)
    assert [Path(file).name for file in series.raw_files("workers")] == ["a.avro", "b.jsonl"]
    assert [Path(file).name for file in series.raw_files("events.jsonl")] == ["events.jsonl"]
    assert series.raw_bytes() == 2 * 10 + 7 + 3
    assert series.has_avro()
    (run.workers / "a.avro").unlink()
    assert not series.has_avro()


def test_the_time_in_a_name_is_that_of_its_stamp() -> None:
    assert stamp_time(f"{stamp(1_795_250_701.9)}-a1b2c3d4") == datetime(2026, 11, 21, 8, 45, 1, tzinfo=UTC)
    assert [stamp_time(name) for name in ("index", "2026-11-21", "20261321-084501")] == [None] * 3
