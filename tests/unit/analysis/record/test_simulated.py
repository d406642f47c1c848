"""Which records are of simulated runs, and when those were made."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.record.simulated import (
    date_s,
    first_date_s,
    is_of_testbed,
    is_simulated,
    is_simulated_series,
)
from barograph.plan.experiment import SIMULATED
from inventory.simulated import SimulatedTestbed

SIMULATED_S, MADE_S = 1_767_225_600.0, 1_795_500_000.0


def series(folder: Path, testbed: str | None) -> Path:
    folder.mkdir()
    spec = {} if testbed is None else {"spec": {"testbed": {"name": testbed}}}
    (folder / "series.json").write_text(json.dumps({"v": 1, **spec}))
    return folder


def test_the_testbed_has_the_name_that_is_looked_for() -> None:
    assert SimulatedTestbed.name == SIMULATED


@pytest.mark.parametrize(
    ("document", "simulated"),
    [
        ({"spec": {"testbed": {"name": "simulated"}}}, True),
        ({"spec": '{"testbed": {"name": "simulated"}}'}, True),
        ({"harness_facts": {"simulated": {"seed": 1}}}, True),
        ({"harness_facts": '{"simulated": {"seed": 1}}', "spec": "{}"}, True),
        ({"spec": {"testbed": {"name": "local"}}, "harness_facts": {"cpus": 2}}, False),
        ({"spec": None, "harness_facts": None}, False),
        ({}, False),
    ],
)
def test_a_series_a_run_and_a_row_say_that_they_were_simulated(document: dict[str, Any], simulated: bool) -> None:
    assert is_simulated(document) == simulated


def test_without_a_testbed_every_one_with_machines_is_meant(tmp_path: Path) -> None:
    folders = {name: series(tmp_path / str(name), name) for name in ("simulated", "local", "ec2", None)}
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "series.json").write_text("{")
    assert [name for name, folder in folders.items() if is_simulated_series(folder)] == ["simulated"]
    assert [name for name, folder in folders.items() if is_of_testbed(folder, None)] == ["local", "ec2", None]
    assert [name for name, folder in folders.items() if is_of_testbed(folder, "simulated")] == ["simulated"]
    assert [name for name, folder in folders.items() if is_of_testbed(folder, "local")] == ["local"]
    assert not is_simulated_series(tmp_path / "damaged")


def test_a_simulated_run_is_dated_by_when_it_was_made() -> None:
    simulated = {"harness_facts": {"simulated": {}}, "started_s": SIMULATED_S}
    assert date_s({**simulated, "date_s": MADE_S}) == MADE_S
    assert date_s(simulated) is None, "the beginning of simulated time is no date"
    assert date_s({"started_s": 5.0}) == 5.0 and date_s({}) is None
    assert first_date_s([simulated, {**simulated, "date_s": MADE_S + 1}, {**simulated, "date_s": MADE_S}]) == MADE_S
    assert first_date_s([simulated]) is None
