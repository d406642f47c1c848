"""The units of metrics, and what the cluster has of its topologies' numbers, on rows by hand."""

from typing import Any

import pytest

from analysis.metrics.throughput import downtime, throughput_rows, zeros
from analysis.metrics.topologies import (
    Units,
    downtimes_of_clusters,
    since_submission,
    sums_of_clusters,
    throughput_of_clusters,
    with_clusters,
)

Row = dict[str, Any]


def event(t_s: float, kind: str, **more: Any) -> Row:
    return {"run_id": "r", "t_s": t_s, "kind": kind, "event_id": None, "event": None} | more


def units(events: list[Row], *names: str) -> Units:
    rows = [
        {"run_id": "r", "topology": name, "topology_id": f"{name}-1", "position": i} for i, name in enumerate(names)
    ]
    return Units.of([{"run_id": "r"}], rows, events)


ARRIVAL = event(150, "event_performed", event_id="e1", event="arrival", topologies=["b", "x"])
DEPARTURE = event(250, "event_performed", event_id="e2", event="departure", topologies=["a"])
TWO = units([ARRIVAL, DEPARTURE], "a", "b")
AXIS = {"run_id": "r", "topology": "all", "event_id": "e0", "zero_s": 150.0, "first_s": 100.0, "last_s": 300.0}


def test_a_run_of_one_topology_has_one_unit_and_all_events() -> None:
    of_other = event(1, "steady", topology="elsewhere")
    one = units([of_other], "a")
    assert one.events_of_units([of_other]) == [of_other | {"topology": "a"}] and not one.clusters
    assert one.with_cluster == one.of_machines == {"r": ("a",)}
    nameless = Units.of([{"run_id": "r"}], [], [])
    assert nameless.topologies == {"r": ("",)}


def test_an_event_of_one_topology_is_its_own_but_its_zero_is_everybodys() -> None:
    lines = [
        event(1, "steady", topology="a"), event(2, "machines_left"), event(3, "decision", topologies=["b"]), ARRIVAL,
    ]  # fmt: skip
    found = {(row["topology"], row["kind"]) for row in TWO.events_of_units(lines)}
    everybody = ("machines_left", "event_performed")
    assert found == {(name, kind) for name in ("a", "b", "all") for kind in everybody} | {
        ("a", "steady"), ("b", "decision"), ("all", "decision"),
    }  # fmt: skip


def test_who_arrives_is_observed_from_its_arrival_and_who_departs_until_then() -> None:
    observed = [
        {"run_id": "r", "topology": name, "first_s": first, "worker_last_s": 300.0, "machine_last_s": 300.0}
        for name, first in (("a", 100.0), ("b", 157.0))
    ]  # fmt: skip
    found = zeros(TWO.events_of_units([ARRIVAL, DEPARTURE]), observed, TWO.spans_s)
    assert [(row["topology"], row["zero_s"], row["first_s"], row["last_s"]) for row in found] == [
        ("a", 150, 100, 250), ("b", 150, 150, 300),
    ]  # fmt: skip


def rates(name: str, of: dict[float, float | None], scope: str = "total") -> list[Row]:
    return [
        {"run_id": "r", "topology": name, "event_id": "e0", "window_s": w, "scope": scope, "component": "",
         "rate": rate}
        for w, rate in of.items()
    ]  # fmt: skip


def sums(*rows: Row) -> dict[tuple[str, float], float | None]:
    found = throughput_of_clusters([AXIS], rows, TWO)
    return {(row["scope"], row["window_s"]): row["rate"] for row in found}


def test_a_window_is_the_sum_of_who_runs_in_it() -> None:
    a = {-50.0 + 10 * i: 5.0 for i in range(15)}
    b: dict[float, float | None] = {10.0 * i: 3.0 for i in range(15)} | {20.0: None}
    found = sums(*rates("a", dict(a)), *rates("b", b))
    assert found["total", -10] == 5 and found["total", 0] == 8 and found["total", 90] == 8
    assert found["total", 100] == 3, "a departed at 100 s"
    assert found["total", 20] is None, "b ran and nobody knows its rate: that is not nothing"
    assert {scope for scope, _ in found} == {"total"}
    lacking = sums(*rates("a", dict(a)), *rates("b", {10.0: 3.0}))
    assert lacking["total", 10] == 8 and lacking["total", 30] is None


def test_the_cluster_is_down_when_every_topology_is() -> None:
    spans = [
        {"run_id": "r", "topology": name, "event_id": "e1", "zero_s": 150.0, "first_s": 100.0, "last_s": 250.0,
         "until_s": 250.0}
        for name in ("a", "b", "all")
    ]  # fmt: skip
    silent = [
        {"run_id": "r", "topology": name, "event_id": "e1", "from_second": start, "until_second": until}
        for name, start, until in (("a", 5, 30), ("a", 40, 45), ("b", 0, 12), ("b", 20, 42))
    ]  # fmt: skip
    (found,) = downtimes_of_clusters(spans, silent, TWO)
    assert (found["topology"], found["downtime_s"], found["longest_s"]) == ("all", 7 + 10 + 2, 10)
    assert downtimes_of_clusters([spans[0], spans[2]], silent, TWO) == [], "of b nothing is known"


def test_what_arrives_is_down_until_it_works_and_what_departed_never_is() -> None:
    """Whether it waits for a slot for most of the watch or for all of it."""
    own = {"event_id": "e1", "zero_s": 150.0, "first_s": 150.0, "last_s": 250.0, "until_s": 250.0}
    silent = [{"run_id": "r", "topology": "b", "event_id": "e1", "from_second": 0, "until_second": 9},
              {"run_id": "r", "topology": "b", "event_id": "e1", "from_second": 20, "until_second": 23},
              {"run_id": "r", "topology": "c", "event_id": "e1", "from_second": 0, "until_second": 99}]  # fmt: skip
    silent.append({"run_id": "r", "topology": "d", "event_id": "e1", "from_second": 0, "until_second": 95})
    found = downtime([own | {"run_id": "r", "topology": name} for name in "bcd"], silent)
    assert [(row["downtime_s"], row["lasts"]) for row in found] == [(12, False), (99, True), (95, False)]
    departed = {
        "run_id": "r",
        "topology": "a",
        "event_id": "e2",
        "zero_s": 250.0,
        "first_s": 150.0,
        "last_s": 250.0,
        "until_s": 250.0,
    }
    assert downtime([departed], []) == []


PROBES = {"worker_last_s": None, "machine_last_s": 302.0, "line_s": None, "first_s": None}
SUBMITTED = [event(96, "topology_submitted", topology="a"), event(150.5, "topology_submitted", topology="b"),
             event(301, "run_ended")]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "lifetime", "from_s", "until_s"),
    [("a", [], 96, 301), ("b", [ARRIVAL], 150, 301), ("a", [DEPARTURE], 96, 250),
     ("a", [event(220, "topology_killed", topology="a")], 96, 220)],
)  # fmt: skip
def test_a_topology_without_a_worker_is_there_from_its_submission_on(
    name: str, lifetime: list[Row], from_s: float, until_s: float
) -> None:
    """It executes nothing, and adds nothing to the cluster, until it departs or the run ends: probes report."""
    other = "b" if name == "a" else "a"
    lines = [*SUBMITTED, event(150, "scale_requested", event_id="e1", event="scale_out"), *lifetime]
    both = units(lines, "a", "b")
    bounds = [
        {"run_id": "r", "topology": name} | PROBES,
        {"run_id": "r", "topology": other, "first_s": 100.0, "worker_last_s": 301.0, "machine_last_s": 302.0,
         "line_s": 1.0},
    ]  # fmt: skip
    events = both.events_of_units(lines)
    bounds = with_clusters(since_submission(bounds, events, both), both)
    axes = {row["topology"]: row | {"event_id": "e1"} for row in zeros(events, bounds, both.spans_s)}
    starved = axes[name]
    assert (starved["zero_s"], starved["first_s"], starved["last_s"]) == (150, from_s, until_s)
    reported = [{"run_id": "r", "topology": of, "event_id": "e1", "window_s": float(w), "component": component,
                 "executed": tuples, "emitted": tuples, "due": None, "due_unknown": False, "dropped": None,
                 "queue": None}
                for of, component, tuples in ((name, None, None), (other, "sink", 50))
                for w in range(-50, 150, 10)]  # fmt: skip
    sinks = [{"run_id": "r", "topology": of, "component": "sink", "sink": True, "throughput": True} for of in axes]
    rows = throughput_rows([axes[each] for each in "ab"], reported, sinks)
    rates = {row["window_s"]: row["rate"] for row in rows if row["topology"] == name and row["complete"]}
    assert set(rates.values()) == {0.0} and max(rates) + 10 <= until_s - 150
    rows = throughput_of_clusters([axes["all"]], rows, both)
    assert {row["rate"] for row in rows if row["complete"] and row["window_s"] >= -40} == {5.0}
    assert {row["scope"] for row in rows} == {"total", "spouts"}, "who has no process emits nothing"


def test_where_probes_are_silent_too_or_nothing_was_submitted_nobody_knows() -> None:
    both = units([*SUBMITTED], "a", "b")
    events = both.events_of_units(SUBMITTED)
    assert since_submission([], events, both) == []
    unsubmitted = Units.of([{"run_id": "r"}], [{"run_id": "r", "topology": n, "topology_id": i, "position": 1}
                                               for n, i in (("a", "a-1"), ("b", None))], [])  # fmt: skip
    (found,) = since_submission([{"run_id": "r", "topology": "b"} | PROBES], events, unsubmitted)
    assert found["first_s"] is None and zeros(events, [found]) == []
    alone = Units.of([{"run_id": "r"}], [{"run_id": "r", "topology": "a", "topology_id": "a-1", "position": 1}], [])
    lines = [event(96, "topology_submitted"), event(301, "run_ended")]
    (found,) = since_submission([{"run_id": "r", "topology": "a"} | PROBES], alone.events_of_units(lines), alone)
    (zero,) = zeros(alone.events_of_units(lines), [found])
    assert (zero["first_s"], zero["last_s"]) == (96, 301), "the only one of its run as well"


def measured(name: str, metric: str, value: float, steady: bool | None = None) -> Row:
    return {"run_id": "r", "topology": name, "event_id": "e1", "metric": metric, "value": value, "censored": False,
            "steady": steady}  # fmt: skip


def test_sums_are_of_who_was_there_and_none_where_one_lacks_its_number() -> None:
    span = {"run_id": "r", "topology": "all", "event_id": "e1", "zero_s": 150.0, "first_s": 100.0, "last_s": 250.0}
    given = [
        measured("a", "lost_before", 2), measured("a", "lost_after", 3), measured("b", "lost_after", 4),
        measured("a", "late_after", 1), measured("a", "throughput_after", 9),
    ]  # fmt: skip
    found = {row["metric"]: (row["value"], row["steady"]) for row in sums_of_clusters(given, [span], TWO)}
    assert found == {"lost_before": (2, None), "lost_after": (7, None)}
    starved = [*given[:2], measured("b", "throughput_after", 0), given[3]]
    found = {row["metric"]: (row["value"], row["steady"]) for row in sums_of_clusters(starved, [span], TWO)}
    expected = {"lost_before": (2, None), "lost_after": (3, None)}
    assert found == expected, "what sent nothing lost nothing, and may be late"
