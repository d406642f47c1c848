"""`barograph list --keys`: every key of an experiment's file, with its type, default and meaning."""

from dataclasses import fields

import pytest

from barograph import cli
from barograph.plan import keys
from barograph.plan.events import KINDS
from barograph.plan.experiment import Durations, Experiment


def test_every_key_has_a_meaning() -> None:
    tables = keys.key_tables()
    assert {f"events.{kind}" for kind in KINDS} < set(tables)
    for title, (purpose, rows) in tables.items():
        assert purpose and rows, title
        assert [row for row in rows if not (row.key and row.type and row.meaning)] == [], title
    names = {row.key for row in tables["experiment"][1]}
    assert {"topology", "testbed", "machines", "variants", "events", "durations", "claims"} < names
    assert len(names) == len(fields(Experiment)) - 1, "the name is the file's"


def test_a_key_has_its_limits_and_its_default() -> None:
    _, rows = keys.key_tables()["testbed"]
    by_name = {row.key: row for row in rows}
    assert by_name["scale"].type == "number, at least 0.01, at most 1" and by_name["scale"].default == "1.0"
    assert by_name["joining"].type == "ready or booted" and by_name["joining"].default == "ready"
    assert by_name["name"].default == "required" and by_name["options"].default == ""


def test_they_are_printed_all_or_a_part_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--keys"]) == 0
    everything = capsys.readouterr().out
    assert all(f"\n{title}: " in f"\n{everything}" for title in keys.key_tables())
    assert cli.main(["list", "--keys", "durations"]) == 0
    part = capsys.readouterr().out
    assert part.startswith("durations: ") and part in everything
    assert all(f"\n  {each.name} " in part for each in fields(Durations))


def test_a_part_that_there_is_not_is_an_error_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--keys", "duration_of_life"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("configuration: no keys of 'duration_of_life'; there are ") and "events.crash" in error
