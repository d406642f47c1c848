from analysis.record.small_tables import Row
from analysis.report import series_facts, series_tables

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
    for whole in (None, "e0"):
        found = series_tables.measurements_by_event(
            [measured("e1", "downtime_s"), measured(whole, "submit_to_loaded_s")]
        )
        assert {key: set(values) for key, values in found.items()} == {
            ("stela-r1", "e1"): {"downtime_s", "submit_to_loaded_s"}
        }


def shown(given: list[Row]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Titles, headings and cells of the tables of runs."""
    found = series_tables.measurements_by_event(given)
    tables = series_tables.run_tables(series_tables.run_rows([RUN], found), found, ())
    return [(title, [column.label for column in table.columns], table.cells()) for title, table in tables]


def test_tables_leave_out_columns_that_nobody_measured_and_mark_bounds() -> None:
    given = [measured("e1", "throughput_after", 1234.5), measured("e1", "convergence_sp_s", 90.0, censored=True)]
    headings = ["throughput after, tuples/s", "convergence time (SP), s"]
    assert shown(given) == [("Throughput and convergence", headings, [["1\u2009234.5", "> 90"]])]


def test_a_value_of_a_side_that_was_not_steady_has_a_mark() -> None:
    names = ("throughput_before", "throughput_after", "gain_percent", "convergence_sp_s")
    given = [measured("e1", name, 12.0, name == names[3], steady)
             for name, steady in zip(names, (False, True, None, False), strict=True)]  # fmt: skip
    ((_, _, cells),) = shown(given)
    assert cells == [["12.0 †", "12.0", "12.0", "> 12"]]
    found = series_tables.measurements_by_event(given)
    tables = series_tables.run_tables(series_tables.run_rows([RUN], found), found, ())
    assert series_tables.is_marked(table for _, table in tables)


def test_the_table_to_download_says_which_values_are_of_a_steady_part() -> None:
    given = [measured("e1", "gain_percent", 12.0, steady=False), measured("e1", "downtime_s", 3.0)]
    found = series_tables.measurements_by_event(given)
    (row,) = series_tables.run_data(series_tables.run_rows([RUN], found), found)
    assert (row["gain_percent"], row["gain_percent_steady"], row["downtime_s"]) == (12.0, False, 3.0)
    assert "downtime_s_steady" not in row


def test_a_run_that_measured_nothing_is_still_shown_with_its_reason() -> None:
    failed = RUN | {"status": "failed", "failure_blame": "infrastructure", "failure_message": "m3 is silent"}
    (row,) = series_tables.run_rows([failed], {})
    assert (row["counts"], row["why"]) == (False, "infrastructure: m3 is silent")


def test_a_run_that_does_not_count_is_told_with_its_reason() -> None:
    failed = RUN | {"status": "failed", "failure_blame": "system_under_test", "failure_message": "it threw"}
    cut = RUN | {"run_id": "stela-r2", "status": "incomplete"}
    assert series_facts.exclusions([RUN, failed, cut]) == [
        "stela-r1 (failed) is not counted: system under test: it threw.",
        "stela-r2 (incomplete) is not counted.",
    ]


def test_machines_are_described_once_with_their_largest_offset() -> None:
    machine = {"machine": "m1", "type": "type_1", "cores": 0.2, "memory_mb": 768.0, "bandwidth_mbit": 100.0,
               "slots": 4, "joins_at_scale": False}  # fmt: skip
    rows = [machine | {"machine": name, "clock_offset_ms": offset}
            for name, offset in (("m10", None), ("m2", 0.1), ("m2", -0.3))]  # fmt: skip
    assert [(row["machine"], row["clock_offset_ms"]) for row in series_facts.machine_facts(rows)] == [
        ("m2", 0.3), ("m10", None),
    ]  # fmt: skip
