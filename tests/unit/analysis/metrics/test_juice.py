"""Juice (HP 5) of what was due, and the utility that a service level gives for it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from analysis.metrics import measurements
from analysis.metrics.convergence import interval_rows, phase_windows
from analysis.metrics.juice import SourceInput, inputs_of_sources, juice, juice_rows, unthrottled_units

UNIT = {"run_id": "r", "topology": ""}

KEY: Mapping[str, Any] = {**UNIT, "event_id": "e1"}
Edges = dict[tuple[str, str], tuple[int, int]]  # (source, target) -> sent, and executed of it

FIGURE_1: Edges = {
    ("spout", "a"): (10, 10), ("a", "b"): (8, 8), ("a", "c"): (8, 6), ("b", "d"): (8, 8), ("c", "d"): (6, 6),
}  # fmt: skip
FIGURE_5: Edges = {
    ("spout_1", "a"): (1000, 500), ("a", "b"): (500, 500), ("spout_2", "d"): (1000, 1000), ("d", "e"): (1000, 500),
    ("e", "b"): (250, 250), ("e", "f"): (250, 200), ("b", "c"): (750, 750),
}  # fmt: skip
TWO: Edges = {("s1", "a"): (100, 100), ("s2", "a"): (100, 100), ("a", "sink"): (200, 200)}
ONE_SILENT: Edges = {("s1", "a"): (100, 100), ("a", "sink"): (100, 100)}  # an edge on which nothing went has no counts
PLENTY = SourceInput(100, 100)
NOTHING_EMITTED = SourceInput(100, 0)


def counts(edges: Edges) -> list[dict[str, Any]]:
    return [{**KEY, "phase": "after", "source": source, "target": target, "sent": sent, "executed": executed}
            for (source, target), (sent, executed) in edges.items()]  # fmt: skip


def found(edges: Edges, topology: Edges | None = None, **inputs: SourceInput) -> float | None:
    return juice(topology or edges, counts(edges), inputs)


@pytest.mark.parametrize("inputs", [{}, {"spout": PLENTY, "spout_1": PLENTY, "spout_2": SourceInput(None, 70)}])
def test_the_papers_examples(inputs: dict[str, SourceInput]) -> None:
    """Where nobody says what was due, too: other people's logs, sources without a rate."""
    assert found(FIGURE_1, **inputs) == pytest.approx(0.875)
    assert found(FIGURE_5, **inputs) == pytest.approx(0.475)


@pytest.mark.parametrize(
    ("edges", "s2", "expected"),
    [
        (TWO, SourceInput(100, 100), 1.0),
        (TWO, SourceInput(200, 100), 0.75),  # the other half waits at the spout
        (TWO, SourceInput(50, 100), 1.0),  # of before; the first source has no more than 1 by it
        (ONE_SILENT, NOTHING_EMITTED, 0.5),
        (ONE_SILENT, SourceInput(0, 0), 1.0),  # nothing was due: it stays out
        (ONE_SILENT, SourceInput(100, None), 0.5),  # its process is gone, and its tuples fall due
        (ONE_SILENT, SourceInput(0, None, is_unknown=True), 0.5),  # nobody knows how many: none of them was emitted
        (TWO, SourceInput(60, 100, is_unknown=True), None),
    ],
)
def test_a_source_has_what_it_emitted_of_what_was_due(edges: Edges, s2: SourceInput, expected: float | None) -> None:
    assert found(edges, TWO, s1=PLENTY, s2=s2) == expected


def test_nothing_due_is_no_juice() -> None:
    idle = SourceInput(0, 0)
    assert found({}, TWO, s1=idle, s2=idle) is None
    assert found({}, {}) is None


def test_what_was_not_counted_is_no_number() -> None:
    assert found({}, TWO) is None and found({}, TWO, s1=PLENTY, s2=PLENTY) is None, "no line says what was sent"
    without_sent = {edge: (0, executed) for edge, (_, executed) in TWO.items()}
    assert found(without_sent, TWO, s1=PLENTY, s2=PLENTY) is None
    for lacking in (without_sent, TWO | {("a", "sink"): (0, 200)}):
        rows = juice_rows(counts_of(lacking, 0.0), EDGES, [window(0.0, "s1", due=100, emitted=100)], throughput(9.0))
        assert by_window(rows) == {0.0: None}
    circle: Edges = {("s", "a"): (5, 5), ("a", "b"): (5, 5), ("b", "a"): (5, 5), ("b", "sink"): (5, 5)}
    assert found(circle, circle, s=PLENTY) is None


def test_where_nothing_passes_a_filter_its_tuples_end() -> None:
    """All were processed; the other branch goes on."""
    branches: Edges = {("s", "a"): (50, 50), ("s", "f"): (50, 50), ("a", "sink"): (50, 50), ("f", "rare"): (0, 0)}
    assert found(branches, branches, s=PLENTY) == 1.0


def window(start: float, component: str | None, **numbers: Any) -> dict[str, Any]:
    return {**KEY, "window_s": start, "component": component, "due": None, "emitted": None, "due_unknown": False,
            "queue": None} | numbers  # fmt: skip


def test_inputs_are_of_sources_alone() -> None:
    rows = [
        window(0.0, None), window(0.0, "bolt"), window(0.0, "s1", due=40, emitted=30), window(10.0, "s1", due=60),
        window(0.0, "s2", due_unknown=True), window(0.0, "s3", emitted=7),
    ]  # fmt: skip
    assert inputs_of_sources(rows) == {
        "s1": SourceInput(100, 30), "s2": SourceInput(None, None, is_unknown=True), "s3": SourceInput(None, 7),
    }  # fmt: skip


def throughput(*rates: float | None, start: float = 0.0) -> list[dict[str, Any]]:
    return [{**KEY, "window_s": start + 10.0 * i, "scope": "total", "component": "", "rate": rate, "complete": True}
            for i, rate in enumerate(rates)]  # fmt: skip


def timed(start: float, *latencies_ms: float | None) -> list[dict[str, Any]]:
    return [{**KEY, "window_s": start + 10.0 * i, "n": 10.0, "mean_ms": each}
            for i, each in enumerate(latencies_ms) if each is not None]  # fmt: skip


def counts_of(edges: Edges, *starts: float) -> list[dict[str, Any]]:
    return [row | {"window_s": start} for start in starts for row in counts(edges)]


def by_window(rows: list[dict[str, Any]]) -> dict[float, float | None]:
    return {row["window_s"]: row["juice"] for row in rows}


EDGES = [{**UNIT, "source": source, "target": target} for source, target in TWO]


@pytest.mark.parametrize(
    ("rate", "s2", "expected"),
    [(0.0, {"due": 5}, 0.0), (0.0, {"due_unknown": True}, 0.0), (0.0, {"emitted": 5}, 0.0), (0.0, {}, 0.0),
     (9.0, {"due": 100, "emitted": 0}, 0.5), (9.0, {"due_unknown": True, "emitted": 1}, None)],
)  # fmt: skip
def test_a_topology_that_is_starved_has_a_juice_of_0(rate: float, s2: dict[str, Any], expected: float | None) -> None:
    """Though one of its bolts worked, and before the event all went well. What nobody says of a source is due."""
    busy = [window(start, s, due=100, emitted=100) for start in (-20.0, -10.0) for s in ("s1", "s2")]
    after = [window(start, "s2", **s2) for start in (0.0, 10.0)]
    after += [window(start, "s1", due=100, emitted=100) for start in (0.0, 10.0) if rate]
    of_after = counts_of(ONE_SILENT, 0.0, 10.0) if rate else []
    rates = [*throughput(10.0, 10.0, start=-20.0), *throughput(rate, rate)]
    rows = juice_rows([*counts_of(TWO, -20.0, -10.0), *of_after], EDGES, [*busy, *after], rates)
    assert by_window(rows) == {-20.0: 1.0, -10.0: 1.0, 0.0: expected, 10.0: expected}
    assert all(row["run_id"] == "r" and row["event_id"] == "e1" for row in rows)


def test_where_nothing_was_due_there_is_no_juice() -> None:
    idle = [window(start, s, due=0, emitted=0) for start in (0.0, 10.0) for s in ("s1", "s2")]
    assert juice_rows([], EDGES, idle, throughput(0.0, 0.0)) == []
    late = counts_of({("a", "sink"): (0, 50)}, 0.0)
    assert juice_rows(late, EDGES, idle, throughput(5.0, 0.0)) == [], "what came was due before"


CHAIN = [{**UNIT, "source": "s", "target": "sink"}]


def of_chain(*windows: tuple[int, int]) -> dict[str, Any]:
    """The tables of a topology whose source sends 1000 tuples a window; `windows`: emitted, and executed at the sink.
    Each is timed at 40 ms where there are any."""
    sent = [{**KEY, "window_s": 10.0 * i, "source": "s", "target": "sink", "sent": emitted, "executed": executed}
            for i, (emitted, executed) in enumerate(windows)]  # fmt: skip
    activity = [window(10.0 * i, "s", due=1000, emitted=emitted) for i, (emitted, _) in enumerate(windows)]
    rates = throughput(*[executed / 10 for _, executed in windows])
    return {
        "activity": activity, "event_throughput": rates, "juice": juice_rows(sent, CHAIN, activity, rates),
        "latency": timed(0.0, *[40.0 if executed else None for _, executed in windows]),
        "intervals": interval_rows(phase_windows(rates), {}),
    }  # fmt: skip


def test_what_is_caught_up_with_is_not_twice_as_good() -> None:
    """A third of the time nothing comes; in the rest a fifth is lost and what had waited is executed, or is lost too.
    Tuples of before are no more than those that are missing."""
    silent = [(1000, 0)] * 10
    for executed, expected in ((1300, 2 / 3), (800, 0.8 * 2 / 3)):
        found = by_window(of_chain(*silent, *[(1000, executed)] * 20)["juice"])
        assert sum(filter(None, found.values())) / len(found) == pytest.approx(expected) and len(found) == 30


def test_an_event_does_not_smooth_what_was_before_it() -> None:
    half = counts_of({("s", "sink"): (1000, 500)}, *(10.0 * i for i in range(6)))
    whole = counts_of({("s", "sink"): (1000, 1000)}, *(10.0 * i for i in range(-6, 0)))
    due = [window(10.0 * i, "s", due=1000, emitted=1000) for i in range(-6, 6)]
    found = by_window(juice_rows([*whole, *half], CHAIN, due, throughput(*[50.0] * 12, start=-60.0)))
    assert found == {10.0 * i: 1.0 if i < 0 else 0.5 for i in range(-6, 6)}


def test_a_tuple_that_is_counted_in_the_next_window_is_not_missing() -> None:
    """Lines of two machines end up to a second apart, and tuples are on their way: juice is of the last minute."""
    found = by_window(of_chain(*[(1000, 950 if i % 2 else 1050) for i in range(60)])["juice"])
    assert min(value or 0.0 for value in found.values()) > 0.98


def utilities(level: Mapping[str, Any], **tables: Sequence[Any]) -> dict[str, float]:
    levels = [{**UNIT, "latency_ms": None, "juice": None, "max_utility": 10.0, **level}]
    read = {"topologies": levels} | tables
    rows = measurements.measurements(lambda name: [dict(row) for row in read.get(name, [])])
    return {row["metric"]: row["value"] for row in rows if row["metric"].startswith("utility_")}


@pytest.mark.parametrize("level", [{"latency_ms": 60.0}, {"juice": 0.8}, {"latency_ms": 60.0, "juice": 1.0}])
@pytest.mark.parametrize(
    ("windows", "served"),
    [([(1000, 1000)] * 32 + [(0, 0)] * 28, 32), ([(0, 0)] * 55 + [(1000, 1000)] * 5, 5),
     ([(1000, 1000)] * 25 + [(1000, 0)] * 30 + [(1000, 1000)] * 5, 30)],
)  # fmt: skip
def test_utility_is_that_of_the_whole_watch(
    level: dict[str, float], windows: list[tuple[int, int]], served: int
) -> None:
    """It is dead at the end, at the start (as one that waits for a slot), or in between; what of it is steady is less
    than the watch."""
    found = utilities(level | {"max_utility": 35.0}, **of_chain(*windows))
    assert found == {"utility_after": pytest.approx(35.0 * served / 60)}


def test_before_is_the_whole_watch_as_well() -> None:
    """Of two sides that are alike the one is worth what the other is; of an event it is what lies before it."""
    after = of_chain(*[(1000, 0)] * 10, *[(1000, 1000)] * 20)
    before = {name: [row | {"window_s": row["window_s"] - 300.0} for row in after[name]]
              for name in ("activity", "event_throughput", "latency")}  # fmt: skip
    both = {name: [*rows, *after[name]] for name, rows in before.items()}
    found = utilities({"latency_ms": 60.0, "max_utility": 30.0}, **both)
    assert found == {"utility_before": pytest.approx(20.0), "utility_after": pytest.approx(20.0)}
    last = [row | {"complete": False} if row["window_s"] >= 200 else row for row in both["event_throughput"]]
    both["event_throughput"] = last
    assert utilities({"latency_ms": 60.0}, **both)["utility_after"] == 5.0, "whole windows only"


def seldom(*silences: int, start: float = 0.0) -> dict[str, Any]:
    """A topology with tuples due all the time of which one reaches the sink, in time, after each of these silences (in
    windows)."""
    rates = [rate for length in silences for rate in (*[0.0] * length, 0.1)]
    return {
        "activity": [window(start + 10.0 * i, "s", due=1000, emitted=1000) for i in range(len(rates))],
        "event_throughput": throughput(*rates, start=start),
        "latency": timed(start, *[40.0 if rate else None for rate in rates]),
    }


def together(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def test_a_sink_that_speaks_seldom_is_not_down_in_between() -> None:
    """A list every 30 s. What had arrived by then holds until the next one; a silence longer than is usual is one."""
    level = {"latency_ms": 60.0, "max_utility": 35.0}
    before = seldom(*[2] * 6, start=-180.0)
    assert utilities(level, **together(before, seldom(*[2] * 10))) == {"utility_before": 35.0, "utility_after": 35.0}
    found = utilities(level, **together(before, seldom(2, 2, 2, 2, 17)))
    assert found["utility_after"] == pytest.approx(35.0 * 13 / 30)
    assert utilities(level, **seldom(*[2] * 10)) == {"utility_after": 35.0}, "one that has just arrived"
    arrival = utilities(level, **seldom(2, 2, 2, 2, 17))
    assert arrival == {"utility_after": pytest.approx(35.0 * 13 / 30)}


def test_what_is_usual_is_no_start_and_no_outage() -> None:
    """A topology that speaks in each window had silences as it began, or has one while it is watched, or was dead."""
    level = {"latency_ms": 60.0, "max_utility": 35.0}
    starts = seldom(3, 2, *[0] * 11, start=-180.0)
    found = utilities(level, **together(starts, seldom(*[0] * 10, 2, *[0] * 17)))
    assert found == {"utility_before": pytest.approx(35.0 * 13 / 18), "utility_after": pytest.approx(35.0 * 28 / 30)}
    assert utilities(level, **seldom(*[0] * 10, 2, *[0] * 17)) == {"utility_after": pytest.approx(35.0 * 28 / 30)}
    dead = seldom(17, start=-180.0)
    found = utilities(level, **together(dead, seldom(*[0] * 10, 8, *[0] * 11)))
    assert found["utility_after"] == pytest.approx(35.0 * 22 / 30)


def test_the_usual_silence_is_that_of_before_the_first_event() -> None:
    """Restarts after it are no excuse for those after the second."""
    first = together(seldom(*[0] * 18, start=-180.0), seldom(5, *[0] * 3, 5, *[0] * 15))
    tables = together(first, {name: [{**row, "event_id": "e2", "window_s": row["window_s"] - 300.0} for row in rows]
                              for name, rows in together(seldom(5, *[0] * 3, 5, *[0] * 15),
                                                         seldom(4, *[0] * 25, start=300.0)).items()})  # fmt: skip
    rows = measurements.measurements(lambda name: (tables | {"topologies": [
        {**KEY, "latency_ms": 60.0, "juice": None, "max_utility": 30.0}]}).get(name, []))  # fmt: skip
    found = {(row["event_id"], row["metric"]): row["value"] for row in rows if row["metric"].startswith("utility_")}
    assert found["e1", "utility_after"] == found["e2", "utility_before"] == pytest.approx(20.0)
    assert found["e2", "utility_after"] == pytest.approx(26.0)


@pytest.mark.parametrize(
    ("rate", "due", "expected"),
    [(0.0, {"due": 5, "emitted": 5}, 0.0), (0.0, {"due_unknown": True}, 0.0), (0.0, {}, 0.0), (0.0, {"due": 0}, None),
     (7.0, {"due": 5}, None), (None, {"due": 5}, None)],
)  # fmt: skip
def test_a_latency_that_no_tuple_has_though_some_were_due_is_worth_nothing(
    rate: float | None, due: dict[str, Any], expected: float | None
) -> None:
    """Nor has it a worth where nothing was due, tuples came and were not timed, or nobody reported."""
    found = utilities(
        {"latency_ms": 20.0}, latency=timed(-20.0, 40.0, 40.0),
        activity=[window(start, "s", **(due if start >= 0 else {"due": 9, "emitted": 9}))
                  for start in (-20.0, -10.0, 0.0, 10.0)],
        event_throughput=[*throughput(1.0, 1.0, start=-20.0), *throughput(rate, rate)],
    )  # fmt: skip
    assert found.pop("utility_before") == 5.0
    assert found == ({} if expected is None else {"utility_after": expected})


def test_utility_is_the_mean_over_time_of_a_knee() -> None:
    """Full up to the limit, hyperbolic above it (HP 4.1, equation 2), whatever the tuples of a window."""
    tables = {"event_throughput": throughput(1.0, 900.0, 5.0, None), "latency": timed(0.0, 10.0, 40.0, 80.0)}
    due = [window(10.0 * i, "s", due=9, emitted=9) for i in range(4)]
    found = utilities({"latency_ms": 20.0}, activity=due, **tables)
    assert found == {"utility_after": pytest.approx(10 * (1 + 0.5 + 0.25) / 3)}


def test_a_juice_of_0_is_worth_nothing_and_one_that_is_not_known_has_no_utility() -> None:
    values = [{**KEY, "window_s": start, "juice": value}
              for start, value in ((-20.0, 1.0), (-10.0, None), (0.0, 0.0), (10.0, 0.4))]  # fmt: skip
    due = [window(10.0 * i, "s", due=9, emitted=9) for i in range(-2, 2)]
    tables = {"activity": due, "event_throughput": throughput(1.0, 1.0, 1.0, 1.0, start=-20.0)}
    assert utilities({"juice": 0.8}, juice=values, **tables) == {"utility_after": 2.5}


UNTHROTTLED = SourceInput(0, 0, is_unthrottled=True)


def test_a_source_that_emits_as_fast_as_it_can_always_has_something_to_emit() -> None:
    """What it says of what was due is what it emitted: nothing, where it could emit nothing."""
    full = SourceInput(100, 100, is_unthrottled=True)
    assert juice(TWO, counts(ONE_SILENT), {"s1": full, "s2": UNTHROTTLED}, True) == 0.5
    assert juice(TWO, counts(ONE_SILENT), {"s1": full}, True) == 0.5, "its worker is gone"
    assert juice(TWO, counts(TWO), {"s1": full, "s2": full}, True) == 1.0


def run(**spec: Any) -> dict[str, Any]:
    return {"run_id": "r", "topology": "star", "spec": json.dumps(spec), "topology_changes": "{}"}


def test_whose_sources_are_unthrottled_is_said_by_the_experiment() -> None:
    fast, paced = ({"name": "star", "parameters": {"unthrottled": value}} for value in (True, False))
    other = {"name": "linear", "parameters": {"unthrottled": True}}
    changed = run(topology=paced) | {"topology_changes": json.dumps({"parameters": {"unthrottled": True}})}
    for each in (run(topology=fast), run(topologies=[other, fast]), changed):
        assert unthrottled_units([each]) == {("r", "star")}
    of_another = run(topologies=[other, paced]) | {"topology_changes": json.dumps(other)}
    for each in (run(topology=paced), run(topologies=[other, paced]), of_another):
        assert unthrottled_units([each]) == set()
    assert unthrottled_units([{**UNIT, "spec": None, "topology_changes": None}]) == set(), "other people's logs"


def test_an_unthrottled_topology_that_is_starved_is_worth_nothing() -> None:
    """Though its sources say that nothing was due: they emit as fast as they can, and could not."""
    idle, rates = [window(10.0 * i, s, due=0, emitted=0) for i in (0, 1) for s in ("s1", "s2")], throughput(0.0, 0.0)
    runs = [run(topology={"name": "star", "parameters": {"unthrottled": True}}) | UNIT]
    assert by_window(juice_rows([], EDGES, idle, rates, {("r", "")})) == {0.0: 0.0, 10.0: 0.0}
    tables = {"activity": idle, "event_throughput": rates}
    assert utilities({"latency_ms": 20.0}, runs=runs, **tables) == {"utility_after": 0.0}
    assert utilities({"latency_ms": 20.0}, **tables) == {}
    half = {"activity": idle, "event_throughput": throughput(0.0, 9.0), "latency": timed(10.0, 5.0)}
    assert utilities({"latency_ms": 20.0}, runs=runs, **half) == {"utility_after": 5.0}
