"""Tables and facts of a series: runs, steadiness, machines at their limit, boots and costs."""

from pathlib import Path
from typing import Any

import pytest

from analysis.record.files import RunPaths, SeriesPaths, append_event, write_json_atomic
from analysis.record.small_tables import Row
from analysis.report import series_facts, series_page, series_tables
from analysis.report.table import ResultTable
from tests.support import bundled_series

RUN = {"run_id": "stela-r1", "variant": "stela", "status": "complete", "failure_blame": None, "failure_message": None}


def measured(
    event: str | None, metric: str, value: float = 1.0, censored: bool = False, steady: bool | None = None
) -> Row:
    return {"run_id": "stela-r1", "event_id": event, "metric": metric, "value": value, "censored": censored,
            "steady": steady}  # fmt: skip


def test_a_run_has_a_row_an_event_in_the_plans_order() -> None:
    found = series_tables.measurements_by_event([measured(f"e{n}", "downtime_s") for n in (10, 2, 1)])
    assert [row["event_id"] for row in series_tables.run_rows([RUN], found)] == ["e1", "e2", "e10"]


def test_what_concerns_the_whole_run_stands_with_its_first_event() -> None:
    found = series_tables.measurements_by_event([measured("e1", "downtime_s"), measured("e0", "submit_to_loaded_s")])
    assert {key: set(values) for key, values in found.items()} == {
        ("stela-r1", "e1"): {"downtime_s", "submit_to_loaded_s"}
    }


def shown(given: list[Row]) -> list[tuple[str, ResultTable]]:
    found = series_tables.measurements_by_event(given)
    return series_tables.run_tables(series_tables.run_rows([RUN], found), found, ())


def test_tables_leave_out_columns_that_nobody_measured_and_mark_bounds() -> None:
    given = [measured("e1", "throughput_after", 1234.5), measured("e1", "convergence_sp_s", 90.0, censored=True)]
    ((title, table),) = shown(given)
    assert (title, table.cells()) == ("Throughput and convergence", [["1\u2009234.5", "> 90"]])
    assert [column.label for column in table.columns] == ["throughput after, tuples/s", "convergence time (SP), s"]


def test_a_value_of_a_side_that_was_not_steady_has_a_mark_and_a_column_in_the_file() -> None:
    names = ("throughput_before", "throughput_after", "gain_percent", "convergence_sp_s")
    given = [measured("e1", name, 12.0, name == names[3], steady)
             for name, steady in zip(names, (False, True, None, False), strict=True)]  # fmt: skip
    ((_, table),) = shown(given)
    assert table.cells() == [["12.0 †", "12.0", "12.0", "> 12"]] and series_tables.is_marked([table])
    found = series_tables.measurements_by_event(given)
    (row,) = series_tables.run_data(series_tables.run_rows([RUN], found), found)
    assert (row["throughput_before"], row["throughput_before_steady"], row["gain_percent"]) == (12.0, False, 12.0)
    assert "gain_percent_steady" not in row and row["convergence_sp_s_censored"] is True


def test_a_run_that_does_not_count_has_its_reason() -> None:
    failed = RUN | {"status": "failed", "failure_blame": "system_under_test", "failure_message": "it threw"}
    cut = RUN | {"run_id": "stela-r2", "status": "incomplete"}
    (row,) = series_tables.run_rows([failed], {})
    assert (row["counts"], row["why"]) == (False, "system under test: it threw")
    assert series_facts.exclusions([RUN, failed, cut]) == [
        "stela-r1 (failed) is not counted: system under test: it threw.",
        "stela-r2 (incomplete) is not counted.",
    ]


def test_machines_are_described_once_with_their_largest_offset() -> None:
    machine = {"machine": "m1", "type": "type_1", "cores": 0.2, "memory_mb": 768.0, "bandwidth_mbit": 100.0,
               "slots": 4, "joins_at_scale": False}  # fmt: skip
    offsets = (("m10", None), ("m2", 0.1), ("m2", -0.3))
    found = series_facts.machine_facts([{**machine, "machine": name, "clock_offset_ms": ms} for name, ms in offsets])
    assert [(row["machine"], row["clock_offset_ms"]) for row in found] == [("m2", 0.3), ("m10", None)]


# Machines at their limit.


def machine(run: str, name: str, used: float | None, phase: str = "before", **changes: Any) -> Row:
    row = {"run_id": run, "topology": "", "machine": name, "event_id": "e1", "phase": phase, "joins_at_scale": False}
    return row | {"utilisation_mean": used, "steal_percent_mean": None} | changes


FULL = [machine("r1", "m1", 0.99), machine("r1", "m2", 0.98)]
JOINING = [machine("r1", f"m{i}", 0.1, joins_at_scale=True) for i in (3, 4, 5)]
LEAVING = [machine("r1", f"m{i}", 0.1) for i in (6, 7, 8)]
MASTER = machine("r1", "master", 0.1, joins_at_scale=None)


def after(rows: list[Row]) -> list[Row]:
    return [row | {"phase": "after"} for row in rows]


@pytest.mark.parametrize(
    ("cpu", "events", "numbers"),
    [
        ([], [], []),
        ([machine("r1", "m1", 0.99), machine("r1", "m2", 0.80), machine("r1", "m3", 0.75)], [], []),
        ([machine("r1", "m1", 0.99), machine("r1", "m2", 0.97), machine("r1", "m3", 0.6), machine("r2", "m1", 0.5),
          machine("r2", "m1", 0.97, "after")], [],
         ["before the first event in 1 of 2 runs and after the first event in 1 of 2 runs (97 % of their quota)"]),
        # The master, and machines that have not joined, do not count.
        ([*FULL, MASTER, *JOINING], [("e1", ("m3", "m4", "m5"), ())], ["before the first event in 1 of 1 runs (98 %"]),
        (after([*FULL, MASTER, *JOINING]), [("e1", ("m3", "m4", "m5"), ())], []),
        # Only the first event counts, and only what was measured.
        ([machine("r1", "m1", 0.99, event_id="e2"), machine("r1", "m2", None)], [], []),
        (after([*FULL, *JOINING, *LEAVING]), [("e1", (), ("m6", "m7", "m8")), ("e2", ("m3", "m4", "m5"), ())],
         ["after the first event in 1 of 1 runs (98 %"]),
        # Steal counts also of the master, and at any event: whatever a run did, it had less of the box.
        ([machine("r1", "m1", 0.5, steal_percent_mean=1.0), machine("r2", "m1", 0.5, steal_percent_mean=0.5),
          machine("r2", "master", 0.1, "after", joins_at_scale=None, event_id="e2", steal_percent_mean=12.34)], [],
         ["up to 12.3 % of a machine's CPU time to others while it was measured (run r2; median over runs 6.7 %)"]),
        ([machine("r1", "m1", 0.5, steal_percent_mean=1.0)], [], []),
    ],
)  # fmt: skip
def test_machines_without_room_are_told_with_when_and_how_much(
    monkeypatch: pytest.MonkeyPatch, cpu: list[Row], events: list[tuple[str, tuple[str, ...], tuple[str, ...]]],
    numbers: list[str],
) -> None:  # fmt: skip
    joining = {(row["run_id"], row["machine"]) for row in cpu if row["joins_at_scale"]}
    tables: dict[str, list[Row]] = {
        "cpu": cpu,
        "machines": [{"run_id": run, "machine": name, "joins_at_scale": True} for run, name in sorted(joining)],
        "scale_events": [
            {"run_id": "r1", "topology": "", "event_id": event, "zero_s": 100.0 * int(event[1:]), "joined": joined,
             "released": released}
            for event, joined, released in events
        ],
    }  # fmt: skip
    monkeypatch.setattr(series_facts, "rows", lambda _paths, name, **_of: tables.get(name, []))
    found = series_facts.machine_warnings(SeriesPaths(Path()))
    assert len(found) == len(numbers) and all(part in text for part, text in zip(numbers, found, strict=True))


# Boots and costs.

EXECUTION = {"opened_s": 1_763_700_000.0, "runs": 6, "expected_usd": 1.2, "longest_usd": 4.5, "used_usd": 1.31,
             "machine_hours": 7.5, "prices_of": "2026-11-21"}  # fmt: skip
DOCUMENT = {
    "v": 1, "testbed": "ec2", "budget_usd": 5.0, "used_usd": 1.31, "machine_hours": 7.5, "executions": [EXECUTION],
    "types": [{"type": "type_1", "machines": 9, "hours": 6.25, "usd": 0.9}],
}  # fmt: skip


def test_a_boot_has_two_times_and_what_was_not_measured_is_missing(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "runs" / "stela-r1")
    append_event(run, 190.0, "machines_joined", machines=["m5"])
    assert series_facts.machine_boots([run]) == [], "it was ready"
    append_event(run, 100.0, "machines_requested", machines=["m5", "m6"])
    append_event(run, 140.0, "machine_booted", machine="m5", boot_s=31.5)
    append_event(run, 140.0, "machine_booted", machine="m6", boot_s=None)
    assert series_tables.boot_table(series_facts.machine_boots([run])).cells() == [
        ["stela-r1", "m5", "31.5", "90.0"], ["stela-r1", "m6", "–", "–"],
    ]  # fmt: skip


def test_the_report_has_costs_beside_their_estimate_and_boots_where_there_are_any(tmp_path: Path) -> None:
    root = bundled_series.series(tmp_path)
    assert series_tables.cost_sections(SeriesPaths(root)) == []
    append_event(SeriesPaths(root).all_runs()[0], 100.0, "machines_requested", machines=["m5"])
    write_json_atomic(root / "money.json", DOCUMENT)
    (section,) = series_tables.cost_sections(SeriesPaths(root))
    executions, types = (block for block in section.blocks if isinstance(block, ResultTable))
    assert executions.cells() == [["2025-11-21 04:40 UTC", "6", "1.20", "4.50", "1.31", "7.50"]]
    assert types.cells() == [["type_1", "9", "6.25", "0.90"]]
    report = series_page.build_report(root).read_text()
    assert "$1.31 for 7.50 machine-hours on ec2, of a budget of $5.00" in report and "list of 2026-11-21" in report
    for name in ("boots.csv", "money.csv", "money_types.parquet"):
        assert f'download="{name}"' in report
