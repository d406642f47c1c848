from typing import Any

from analysis.record.small_tables import Row
from analysis.report.series_tables import cpu_limit_warnings


def machine(run: str, name: str, used: float | None, phase: str = "before", **changes: Any) -> Row:
    row = {"run_id": run, "machine": name, "event_id": "e1", "phase": phase, "joins_at_scale": False}
    return row | {"utilisation_mean": used} | changes


def test_nothing_is_said_of_machines_with_room() -> None:
    assert cpu_limit_warnings([]) == []
    assert cpu_limit_warnings([machine("r1", "m1", 0.99), machine("r1", "m2", 0.80), machine("r1", "m3", 0.75)]) == []


def test_most_machines_without_room_are_told_with_where_and_how_much() -> None:
    rows = [machine("r1", "m1", 0.99), machine("r1", "m2", 0.97), machine("r1", "m3", 0.6), machine("r2", "m1", 0.5)]
    rows += [machine("r2", "m1", 0.97, "after")]
    (said,) = cpu_limit_warnings(rows)
    assert "before the first event in 1 of 2 runs and after the first event in 1 of 2 runs" in said
    assert "(97 % of their quota)" in said


def test_the_master_and_who_has_not_joined_do_not_count() -> None:
    working = [machine("r1", "m1", 0.99), machine("r1", "m2", 0.98)]
    idle = [
        machine("r1", "master", 0.1, joins_at_scale=None),
        *(machine("r1", f"m{i}", 0.1, joins_at_scale=True) for i in (3, 4, 5)),
    ]
    assert cpu_limit_warnings([*working, *idle])
    assert cpu_limit_warnings([row | {"phase": "after"} for row in [*working, *idle]]) == []


def test_only_the_first_event_and_only_what_was_measured() -> None:
    assert cpu_limit_warnings([machine("r1", "m1", 0.99, event_id="e2"), machine("r1", "m2", None)]) == []
