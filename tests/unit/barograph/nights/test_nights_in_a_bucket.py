"""The history of a suite in a bucket: another machine goes on with it, and a bucket that is away fails no night."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.nights import night_records
from analysis.storage.bucket import Bucket
from barograph.nights import findings
from barograph.nights.night_state import nights_folder
from barograph.nights.suite import Choice, Suite
from barograph.series.results import results

SUITE = Suite("try", "One experiment", None, "fake", 1.0, (Choice("stela/star"),))
Be = Callable[[str], None]


@pytest.fixture
def be(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Be:
    """Changes which machine this is."""

    def change(name: str) -> None:
        monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / name))
        monkeypatch.setenv("BAROGRAPH_RESULTS", str(bucket.location))

    change("a")
    return change


def record(number: int) -> dict[str, Any]:
    return {
        "v": 1, "night": f"2026-11-{number:02d}", "id": f"202611{number:02d}-010000", "suite": "try", "testbed": "fake",
        "commit": "c" * 40, "commit_s": 1.0, "dirty": False, "started_s": number * 86_400.0,
        "ended_s": number * 86_400.0 + 60, "machine": "m", "machine_facts": {}, "status": "complete", "experiments": [],
    }  # fmt: skip


def a_night(number: int, said: list[str]) -> None:
    results().fetch("nightly/try/nights", ".json")
    night_records.append_night(nights_folder("try"), record(number))
    findings.write_pages(SUITE)
    findings.store_pages("try", 0.0, said.append)


def test_another_machine_goes_on_with_the_history(be: Be, bucket: Bucket) -> None:
    said: list[str] = []
    a_night(1, said)
    names = set(bucket.objects("nightly/try/"))
    assert {"nightly/try/nights/20261101-010000.json", "nightly/try/index.html", "nightly/try/findings.json"} <= names
    be("b")
    assert not nights_folder("try").exists()
    a_night(2, said)
    assert [night.sequence for night in night_records.read_history(nights_folder("try")).nights] == [
        1,
        2,
    ] and said == []
    assert not [name for name in bucket.objects("nightly/") if "/." in name or name.endswith("under_way.json")]


def test_what_is_here_is_not_fetched_again(be: Be, bucket: Bucket) -> None:
    a_night(1, [])
    own = nights_folder("try") / "nights" / "20261101-010000.json"
    own.write_text("mine")
    results().fetch("nightly/try/nights", ".json")
    assert own.read_text() == "mine"


def test_a_bucket_that_is_away_is_told_and_fails_nothing(be: Be, monkeypatch: pytest.MonkeyPatch) -> None:
    night_records.append_night(nights_folder("try"), record(1))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    said: list[str] = []
    findings.store_pages("try", 0.0, said.append)
    (line,) = said
    assert line.startswith(f"the nights of try are not sent, kept in {nights_folder('try')}: ")
