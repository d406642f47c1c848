"""Boots and money of a report, from the lines and the file that the harness leaves."""

from pathlib import Path

import pytest

from analysis.record.files import RunPaths, SeriesPaths, append_event, write_json_atomic
from analysis.report import series_facts, series_page, series_tables
from tests.support import bundled_series

EXECUTION = {"opened_s": 1_763_700_000.0, "runs": 6, "expected_usd": 1.2, "longest_usd": 4.5, "used_usd": 1.31,
             "machine_hours": 7.5, "prices_of": "2026-11-21"}  # fmt: skip
DOCUMENT = {
    "v": 1, "testbed": "ec2", "budget_usd": 5.0, "used_usd": 1.31, "machine_hours": 7.5, "executions": [EXECUTION],
    "types": [{"type": "type_1", "machines": 9, "hours": 6.25, "usd": 0.9}],
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "runs" / "stela-r1")
    append_event(run, 100.0, "machines_requested", machines=["m5", "m6"])
    append_event(run, 140.0, "machine_booted", machine="m5", boot_s=31.5)
    append_event(run, 140.0, "machine_booted", machine="m6", boot_s=None)
    append_event(run, 190.0, "machines_joined", machines=["m5"])
    return run


def test_a_boot_has_two_times_and_what_was_not_measured_is_none(run: RunPaths) -> None:
    assert series_facts.machine_boots([run]) == [
        series_facts.Boot("stela-r1", "m5", 31.5, 90.0),
        series_facts.Boot("stela-r1", "m6", None, None),
    ]


def test_machines_that_were_ready_did_not_boot(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "runs" / "stela-r1")
    append_event(run, 190.0, "machines_joined", machines=["m5"])
    assert series_facts.machine_boots([run]) == []


def test_money_stands_beside_its_estimate(run: RunPaths, tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    assert series_facts.series_cost(paths) is None
    write_json_atomic(tmp_path / "money.json", DOCUMENT)
    found = series_facts.series_cost(paths)
    assert found is not None and found.prices_of == "2026-11-21"
    assert found.executions[0].begun == "2025-11-21 04:40 UTC"
    executions, types = series_tables.cost_tables(found)
    assert executions.cells() == [["2025-11-21 04:40 UTC", "6", "1.20", "4.50", "1.31", "7.50"]]
    assert types.cells() == [["type_1", "9", "6.25", "0.90"]]
    assert series_tables.boot_table(series_facts.machine_boots([run])).cells() == [
        ["stela-r1", "m5", "31.5", "90.0"], ["stela-r1", "m6", "–", "–"],
    ]  # fmt: skip


def test_the_report_has_money_and_boots_where_there_are_any(tmp_path: Path) -> None:
    root = bundled_series.series(tmp_path)
    append_event(SeriesPaths(root).all_runs()[0], 100.0, "machines_requested", machines=["m5"])
    write_json_atomic(root / "money.json", DOCUMENT)
    report = series_page.build_report(root).read_text()
    assert "$1.31 for 7.50 machine-hours on ec2, of a budget of $5.00" in report
    assert "Machines that booted during a run" in report and 'download="boots.csv"' in report
    assert 'download="money.csv"' in report and 'download="money_types.parquet"' in report
