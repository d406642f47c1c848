"""Boots and money of a report, from the lines and the file that the harness leaves."""

from dataclasses import fields
from pathlib import Path

import pytest

from analysis.record.files import RunPaths, SeriesPaths, append_event, write_json_atomic
from analysis.report import page, series_page, series_tables
from analysis.report.page import render
from analysis.report.series_page import Section, SeriesContent

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
    assert series_tables.machine_boots([run]) == [
        series_tables.Boot("stela-r1", "m5", 31.5, 90.0),
        series_tables.Boot("stela-r1", "m6", None, None),
    ]


def test_machines_that_were_ready_did_not_boot(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "runs" / "stela-r1")
    append_event(run, 190.0, "machines_joined", machines=["m5"])
    assert series_tables.machine_boots([run]) == []


def test_money_stands_beside_its_estimate(run: RunPaths, tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    assert series_tables.series_cost(paths) is None
    write_json_atomic(tmp_path / "money.json", DOCUMENT)
    found = series_tables.series_cost(paths)
    assert found is not None and found.prices_of == "2026-11-21"
    assert found.executions[0].begun == "2025-11-21 04:40 UTC"
    page = _page(boots=series_tables.machine_boots([run]), money=found)
    assert "$1.31 for 7.50 machine-hours on ec2, of a budget of $5.00" in page
    assert '<td class="n">31.5</td><td class="n">90.0</td>' in page and ">4.50<" in page
    bare = _page(boots=[], money=None)
    assert "<h2>Cost" not in bare and "booted during a run" not in bare


def _page(**given: object) -> str:
    content = _bare(**given)
    links = page.download_links(series_page.downloads_by_name(content), "figures")
    return render("report.html.j2", c=content, links=links)


def _bare(**given: object) -> SeriesContent:
    """A report of nothing but what is given."""
    empty: dict[str, object] = {field.name: [] for field in fields(SeriesContent)}
    words = dict.fromkeys(("title", "experiment", "series_id"), "x")
    numbers = dict.fromkeys(("complete", "all_runs", "files_read", "lines_read"), 0)
    only = Section("", "", "", "x", None, [], {}, [], [], [], [])
    return SeriesContent(**(empty | words | numbers | {"sections": [only]} | given))  # type: ignore[arg-type]
