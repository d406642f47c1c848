"""Juice (HP 5) of what was due, and the utility that a service level gives for it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from analysis.metrics import measurements
from analysis.metrics.juice import (
    SourceInput,
    inputs_of_sources,
    juice,
    juice_rows,
    served_stretches,
    unthrottled_units,
)

KEY: Mapping[str, Any] = {"run_id": "r", "event_id": "e1"}
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
    half: Edges = {("s1", "a"): (100, 100), ("a", "sink"): (0, 100)}
    assert found(half, half, s1=PLENTY) is None
    circle: Edges = {("s", "a"): (5, 5), ("a", "b"): (5, 5), ("b", "a"): (5, 5), ("b", "sink"): (5, 5)}
    assert found(circle, circle, s=PLENTY) is None


def test_edges_in_a_circle_have_no_juice() -> None:
    assert found({("s", "a"): (1, 1), ("a", "b"): (1, 1), ("b", "a"): (1, 1), ("b", "c"): (1, 1)}) is None


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
    older = {key: value for key, value in rows[2].items() if key != "due_unknown"}
    assert inputs_of_sources([older]) == {"s1": SourceInput(40, 30)}


def part(phase: str, end_s: float = 20.0) -> dict[str, Any]:
    start = 0.0 if phase == "after" else -end_s
    return {**KEY, "phase": phase, "steady": True, "start_s": start, "end_s": start + end_s, "mean": 1.0}


def throughput(*rates: float | None, start: float = 0.0) -> list[dict[str, Any]]:
    return [{**KEY, "window_s": start + 10.0 * i, "scope": "total", "component": "", "rate": rate, "complete": True}
            for i, rate in enumerate(rates)]  # fmt: skip


EDGES = [{"run_id": "r", "source": source, "target": target} for source, target in TWO]


@pytest.mark.parametrize(
    ("rate", "s2", "expected"),
    [(0.0, {"due": 5}, 0.0), (0.0, {"due_unknown": True}, 0.0), (0.0, {"emitted": 5}, 0.0), (0.0, {}, 0.0),
     (0.0, {"due": 0}, None), (9.0, {"due": 100, "emitted": 0}, 0.5)],
)  # fmt: skip
def test_a_topology_that_is_starved_has_a_juice_of_0(rate: float, s2: dict[str, Any], expected: float | None) -> None:
    """Though one of its bolts worked, and before the event all went well. What nobody says of a source is due."""
    busy = [window(start, s, due=100, emitted=100) for start in (-20.0, -10.0) for s in ("s1", "s2")]
    after = [window(start, "s2", **s2) for start in (0.0, 10.0)]
    after += [window(start, "s1", due=100, emitted=100) for start in (0.0, 10.0) if rate]
    of_before = [row | {"phase": "before"} for row in counts(TWO)]
    of_after = counts(ONE_SILENT) if rate else []
    rates = [*throughput(10.0, 10.0, start=-20.0), *throughput(rate, rate)]
    rows = juice_rows([*of_before, *of_after], [part("before"), part("after")], EDGES, [*busy, *after], rates)
    assert {row["phase"]: row["juice"] for row in rows} == {"before": 1.0, "after": expected}
    assert all(row["run_id"] == "r" and row["event_id"] == "e1" for row in rows)


def test_juice_is_a_mean_over_time_of_which_windows_without_a_tuple_are_part() -> None:
    """In three of four windows nothing came though it was due; then all that had waited, which is not twice as good."""
    sources = [window(10.0 * i, s, due=100, emitted=400 if i == 3 else 0) for i in range(4) for s in ("s1", "s2")]
    rates = throughput(0.0, 0.0, 0.0, 80.0)
    caught_up = counts({("s1", "a"): (400, 400), ("s2", "a"): (400, 400), ("a", "sink"): (800, 800)})
    (row,) = juice_rows(caught_up, [part("after", 40.0)], EDGES, sources, rates)
    assert row["juice"] == 0.25
    found = utilities({"juice": 0.5}, [part("after", 40.0)], juice=[row], activity=sources, event_throughput=rates)
    assert found == {"utility_after": 2.5}, "a quarter of the time it is met"
    assert served_stretches([part("after", 40.0)], sources, rates) == [
        {**KEY, "phase": "after", "start_s": 30.0, "end_s": 40.0}
    ]


def utilities(level: Mapping[str, Any], intervals: Sequence[Any], **tables: Sequence[Any]) -> dict[str, float]:
    levels = [{"run_id": "r", "latency_ms": None, "juice": None, "max_utility": 10.0} | level]
    read = {"topologies": levels, "intervals": intervals} | tables
    rows = measurements.measurements(lambda name: [dict(row) for row in read.get(name, [])])
    return {row["metric"]: row["value"] for row in rows if row["metric"].startswith("utility_")}


def timed(start: float, *latencies_ms: float) -> list[dict[str, Any]]:
    return [{**KEY, "window_s": start + 10.0 * i, "n": 10.0, "mean_ms": each} for i, each in enumerate(latencies_ms)]


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
        {"latency_ms": 20.0}, [part("before"), part("after")], latency=timed(-20.0, 40.0, 40.0),
        activity=[window(start, "s", **(due if start >= 0 else {"due": 9, "emitted": 9}))
                  for start in (-20.0, -10.0, 0.0, 10.0)],
        event_throughput=[*throughput(1.0, 1.0, start=-20.0), *throughput(rate, rate)],
    )  # fmt: skip
    assert found.pop("utility_before") == 5.0
    assert found == ({} if expected is None else {"utility_after": expected})


def test_the_utility_of_a_job_that_is_dead_most_of_the_time_is_that_of_the_rest() -> None:
    """It delivers in time for 320 s of 600; of the last half, which counts, it is dead in 28 of 30 windows."""
    after = part("after") | {"start_s": 300.0, "end_s": 600.0}
    due = [window(10.0 * i, "s", due=1000, emitted=1000 if i < 32 else 0) for i in range(60)]
    rates = throughput(*[100.0] * 32, *[0.0] * 28)
    level = {"latency_ms": 60.0, "max_utility": 35.0}
    found = utilities(level, [after], latency=timed(0.0, *[40.0] * 32), activity=due, event_throughput=rates)
    assert found == {"utility_after": pytest.approx(35.0 * 2 / 30)}
    idle = [row | {"due": 0} if row["window_s"] >= 320 else row for row in due]
    found = utilities(level, [after], latency=timed(0.0, *[40.0] * 32), activity=idle, event_throughput=rates)
    assert found == {"utility_after": 35.0}, "nothing was due in the other windows, which is no failure"


def test_utility_is_the_mean_over_time_of_a_knee() -> None:
    """Full up to the limit, hyperbolic above it (HP 4.1, equation 2), whatever the tuples of a window."""
    tables = {"event_throughput": throughput(1.0, 900.0, 5.0, None), "latency": timed(0.0, 10.0, 40.0, 80.0)}
    due = [window(10.0 * i, "s", due=9, emitted=9) for i in range(4)]
    found = utilities({"latency_ms": 20.0}, [part("after", 40.0)], activity=due, **tables)
    assert found == {"utility_after": pytest.approx(10 * (1 + 0.5 + 0.25) / 3)}


def test_a_juice_of_0_is_worth_nothing_and_one_that_is_not_known_has_no_utility() -> None:
    values = [{**KEY, "phase": phase, "juice": value} for phase, value in (("before", None), ("after", 0.0))]
    due = [window(10.0 * i, "s", due=9, emitted=9) for i in range(-2, 2)]
    tables = {"activity": due, "event_throughput": [*throughput(1.0, 1.0, start=-20.0), *throughput(0.0, 0.0)]}
    assert utilities({"juice": 0.8}, [part("before"), part("after")], juice=values, **tables) == {"utility_after": 0.0}
    half = [{**KEY, "phase": "after", "juice": 0.4}]
    tables["event_throughput"] = throughput(1.0, 1.0)
    assert utilities({"juice": 0.8}, [part("after")], juice=half, **tables) == {"utility_after": 5.0}


UNTHROTTLED = SourceInput(0, 0, is_unthrottled=True)


def test_a_source_that_emits_as_fast_as_it_can_always_has_something_to_emit() -> None:
    """What it says of what was due is what it emitted: nothing, where it could emit nothing."""
    full = SourceInput(100, 100, is_unthrottled=True)
    assert juice(TWO, counts(ONE_SILENT), {"s1": full, "s2": UNTHROTTLED}, True) == 0.5
    assert juice(TWO, counts(ONE_SILENT), {"s1": full}, True) == 0.5, "its worker is gone"
    assert juice(TWO, counts(TWO), {"s1": full, "s2": full}, True) == 1.0


def run(**spec: Any) -> dict[str, Any]:
    return {"run_id": "r/star", "spec": json.dumps(spec), "topology_changes": "{}"}


def test_whose_sources_are_unthrottled_is_said_by_the_experiment() -> None:
    fast, paced = ({"name": "star", "parameters": {"unthrottled": value}} for value in (True, False))
    other = {"name": "linear", "parameters": {"unthrottled": True}}
    assert unthrottled_units([run(topology=fast)]) == {"r/star"} and unthrottled_units([run(topology=paced)]) == set()
    assert unthrottled_units([run(topologies=[other, paced])]) == set()
    assert unthrottled_units([run(topologies=[other, fast])]) == {"r/star"}
    changed = run(topology=paced) | {"topology_changes": json.dumps({"parameters": {"unthrottled": True}})}
    assert unthrottled_units([changed]) == {"r/star"}
    of_another = {"name": "linear", "parameters": {"unthrottled": True}}
    changed = run(topologies=[of_another, paced]) | {"topology_changes": json.dumps(of_another)}
    assert unthrottled_units([changed]) == set()
    assert unthrottled_units([{"run_id": "r/", "spec": None}]) == set(), "other people's logs"


def test_an_unthrottled_topology_that_is_starved_is_worth_nothing() -> None:
    """Though its sources say that nothing was due: they emit as fast as they can, and could not."""
    idle, rates = [window(10.0 * i, s, due=0, emitted=0) for i in (0, 1) for s in ("s1", "s2")], throughput(0.0, 0.0)
    runs = [{"run_id": "r", "spec": json.dumps({"topology": {"name": "star", "parameters": {"unthrottled": True}}})}]
    for unthrottled, expected in (({"r"}, 0.0), (set[str](), None)):
        (row,) = juice_rows([], [part("after")], EDGES, idle, rates, unthrottled)
        assert row["juice"] == expected
    tables = {"activity": idle, "event_throughput": rates}
    assert utilities({"latency_ms": 20.0}, [part("after")], runs=runs, **tables) == {"utility_after": 0.0}
    assert utilities({"latency_ms": 20.0}, [part("after")], **tables) == {}
    half = {"activity": idle, "event_throughput": throughput(0.0, 9.0), "latency": timed(10.0, 5.0)}
    assert utilities({"latency_ms": 20.0}, [part("after")], runs=runs, **half) == {"utility_after": 5.0}
