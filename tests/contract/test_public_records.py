"""Companies, and the tasks that Storm gives them to, are the same in Java (PublicRecordsTest.java) and in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topologies.keys import java_hash, task_of
from topologies.public_records import company, contractor, pack, symbol

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "public_records.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES["names"], ids=lambda case: str(case["number"]))
def test_names_are_those_of_the_components(case: dict[str, Any]) -> None:
    number = case["number"]
    assert (symbol(number), company(number), contractor(number)) == (
        case["symbol"],
        case["company"],
        case["contractor"],
    )
    assert 34 <= len(company(number)) <= 80


@pytest.mark.parametrize("case", CASES["keys"], ids=lambda case: case["key"])
def test_a_key_goes_to_the_task_that_storm_chooses(case: dict[str, Any]) -> None:
    assert java_hash(case["key"]) == case["hash"]
    assert {tasks: task_of(case["hash"], int(tasks)) for tasks in case["task_of"]} == case["task_of"]


def test_a_file_is_packed_as_the_components_unpack_it(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text(CASES["file"]["csv"], encoding="utf-8")
    assert pack("here", str(path)) == CASES["file"]["packed"]
