from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row
from analysis.report import series_facts

Tables = dict[str, list[Row]]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    tables: Tables = {}
    monkeypatch.setattr(series_facts, "rows", lambda _paths, name, **_of: tables.get(name, []))
    return tables


def warnings(tables: Tables, cpu: Iterable[Row]) -> list[str]:
    tables["cpu"] = list(cpu)
    joining = {(row["run_id"], row["machine"]) for row in tables["cpu"] if row["joins_at_scale"]}
    tables["machines"] = [{"run_id": run, "machine": name, "joins_at_scale": True} for run, name in sorted(joining)]
    return series_facts.machine_warnings(SeriesPaths(Path()))


def event(number: int, joined: tuple[str, ...] = (), released: tuple[str, ...] = ()) -> Row:
    return {
        "run_id": "r1",
        "topology": "",
        "event_id": f"e{number}",
        "zero_s": 100.0 * number,
        "joined": joined,
        "released": released,
    }


def machine(run: str, name: str, used: float | None, phase: str = "before", **changes: Any) -> Row:
    row = {"run_id": run, "topology": "", "machine": name, "event_id": "e1", "phase": phase, "joins_at_scale": False}
    return row | {"utilisation_mean": used, "steal_percent_mean": None} | changes


def test_nothing_is_said_of_machines_with_room(tables: Tables) -> None:
    assert warnings(tables, []) == []
    assert warnings(tables, [machine("r1", "m1", 0.99), machine("r1", "m2", 0.80), machine("r1", "m3", 0.75)]) == []


def test_most_machines_without_room_are_told_with_where_and_how_much(tables: Tables) -> None:
    rows = [machine("r1", "m1", 0.99), machine("r1", "m2", 0.97), machine("r1", "m3", 0.6), machine("r2", "m1", 0.5)]
    rows += [machine("r2", "m1", 0.97, "after")]
    (said,) = warnings(tables, rows)
    assert "before the first event in 1 of 2 runs and after the first event in 1 of 2 runs" in said
    assert "(97 % of their quota)" in said


def test_the_master_and_who_has_not_joined_do_not_count(tables: Tables) -> None:
    working = [machine("r1", "m1", 0.99), machine("r1", "m2", 0.98)]
    idle = [
        machine("r1", "master", 0.1, joins_at_scale=None),
        *(machine("r1", f"m{i}", 0.1, joins_at_scale=True) for i in (3, 4, 5)),
    ]
    tables["scale_events"] = [event(1, joined=("m3", "m4", "m5"))]
    assert warnings(tables, [*working, *idle])
    assert warnings(tables, [row | {"phase": "after"} for row in [*working, *idle]]) == []


def test_only_the_first_event_and_only_what_was_measured(tables: Tables) -> None:
    assert warnings(tables, [machine("r1", "m1", 0.99, event_id="e2"), machine("r1", "m2", None)]) == []


def test_who_joins_at_a_later_event_or_has_left_does_not_count_after_the_first(tables: Tables) -> None:
    busy = [machine("r1", "m1", 0.99, "after"), machine("r1", "m2", 0.98, "after")]
    later = [machine("r1", f"m{i}", 0.1, "after", joins_at_scale=True) for i in (3, 4, 5)]
    left = [machine("r1", f"m{i}", 0.1, "after") for i in (6, 7, 8)]
    tables["scale_events"] = [event(1, released=("m6", "m7", "m8")), event(2, joined=("m3", "m4", "m5"))]
    assert warnings(tables, [*busy, *later, *left])


def test_much_that_the_hypervisor_took_is_told_with_where(tables: Tables) -> None:
    """Also of the master, and of any event: whatever a run did, it had less of the box."""
    rows = [machine("r1", "m1", 0.5, steal_percent_mean=1.0), machine("r2", "m1", 0.5, steal_percent_mean=0.5),
            machine("r2", "master", 0.1, "after", joins_at_scale=None, event_id="e2", steal_percent_mean=12.34),
            machine("r3", "m1", 0.5)]  # fmt: skip
    (text,) = warnings(tables, rows)
    assert "up to 12.3 % of a machine's CPU time" in text and "run r2; median over runs 6.7 %" in text
    assert warnings(tables, rows[:1]) == []
