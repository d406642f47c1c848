"""Service levels over time (HP 4.1, 5): the expressions of Spark against the functions that policies use, and what is
worth nothing, or not known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from analysis.metrics import measurements, service
from analysis.record.schemas import TABLES
from analysis.record.small_tables import frame_of_rows
from scheduler_plugins.model import ServiceLevel
from scheduler_plugins.service_level import EdgeCount, juice, utility

pytestmark = pytest.mark.spark
Edges = Mapping[tuple[str, str], tuple[float, float]]  # (source, target) -> sent, and executed of it, of a window
Inputs = Mapping[str, tuple[float | None, float | None] | None]  # source -> due, emitted; None: due unknown

FIGURE_1: Edges = {
    ("spout", "a"): (10, 10), ("a", "b"): (8, 8), ("a", "c"): (8, 6), ("b", "d"): (8, 8), ("c", "d"): (6, 6),
}  # fmt: skip
TWO: Edges = {("s1", "a"): (100, 100), ("s2", "a"): (100, 100), ("a", "sink"): (200, 200)}
ONE_SILENT: Edges = {("s1", "a"): (100, 100), ("a", "sink"): (100, 100)}
CHAIN: Edges = {("s", "sink"): (1000, 1000)}
CIRCLE: Edges = {("s", "a"): (5, 5), ("a", "b"): (5, 5), ("b", "a"): (5, 5), ("b", "sink"): (5, 5)}
LATENCY = {"latency_ms": 60.0}


@dataclass(frozen=True)
class Tick:
    """A window. `rate` at the sinks, None: nobody reported; `ms`: mean latency."""

    rate: float | None
    inputs: Inputs
    edges: Edges = field(default_factory=dict)
    ms: float | None = None


@dataclass(frozen=True)
class Case:
    """A topology by itself in a run. `start_s` of its first window; the run's first event is at 0."""

    level: Mapping[str, float]
    ticks: Sequence[Tick]
    edges: Edges = field(default_factory=lambda: CHAIN)
    start_s: float = 0.0
    unthrottled: bool = False


def chain(emitted: int, executed: int) -> Tick:
    """Of a source that sends 1000 tuples a window; each is timed at 40 ms."""
    return Tick(executed / 10, {"s": (1000, emitted)}, {("s", "sink"): (emitted, executed)}, 40.0 if executed else None)


def seldom(*silences: int) -> list[Tick]:
    """Tuples are due all the time of which one reaches the sink, in time, after each of these silences."""
    return [Tick(rate, {"s": (1000, 1000)}, {}, 40.0 if rate else None)
            for length in silences for rate in (*[0.0] * length, 0.1)]  # fmt: skip


FULL, SILENT, DEAD = chain(1000, 1000), chain(1000, 0), chain(0, 0)
HALF = chain(1000, 500)
BUSY = {"s1": (100, 100), "s2": (100, 100)}


def two(rate: float | None, edges: Edges = TWO, ms: float | None = None, **inputs: Any) -> Tick:
    return Tick(rate, inputs, edges, ms)


# name -> the case, and the utility that each window has; None: not known, "none": no row.
EXPECTED: dict[str, tuple[Case, list[Any]]] = {
    "a knee of latency": (
        Case({"latency_ms": 20.0}, [Tick(9.0, {"s": (9, 9)}, {}, ms) for ms in (10.0, 20.0, 40.0, 80.0)]),
        [10, 10, 5, 2.5]),
    "figure 1": (Case({"juice": 1.0}, [two(1.4, FIGURE_1, spout=(10, 10))], FIGURE_1), [8.75]),
    "nobody says what was due": (Case({"juice": 1.0}, [two(1.4, FIGURE_1)], FIGURE_1), [8.75]),
    "both levels": (Case({"juice": 1.0, "latency_ms": 20.0}, [Tick(50.0, {"s": (1000, 1000)}, HALF.edges, 40.0)]), [5]),
    "juice over its level": (Case({"juice": 0.4}, [HALF]), [10]),
    "half waits at the spout": (Case({"juice": 1.0}, [two(9, **(BUSY | {"s2": (200, 100)}))], TWO), [7.5]),
    "more than was due is of before": (Case({"juice": 1.0}, [two(9, **(BUSY | {"s2": (50, 100)}))], TWO), [10]),
    "a source emits nothing": (Case({"juice": 1.0}, [two(9, ONE_SILENT, **(BUSY | {"s2": (100, 0)}))], TWO), [5]),
    "a source has nothing due": (Case({"juice": 1.0}, [two(9, ONE_SILENT, **(BUSY | {"s2": (0, 0)}))], TWO), [10]),
    "a source is gone": (Case({"juice": 1.0}, [two(9, ONE_SILENT, **(BUSY | {"s2": (100, None)}))], TWO), [5]),
    "a source is gone, due unknown": (Case({"juice": 1.0}, [two(9, ONE_SILENT, **(BUSY | {"s2": None}))], TWO), [5]),
    "nothing passes a filter": (
        Case({"juice": 1.0}, [two(9, {("s", "f"): (50, 50)}, s=(50, 50))], {("s", "f"): (0, 0), ("f", "rare"): (0, 0)}),
        [10]),
    "not counted as sent": (Case({"juice": 1.0}, [two(9, {("s1", "a"): (0, 9)}, **BUSY)], TWO), [None]),
    "not counted as sent below": (
        Case({"juice": 1.0}, [two(9, TWO | {("a", "sink"): (0, 200)}, **BUSY)], TWO), [None]),
    "a circle": (Case({"juice": 1.0}, [two(9, CIRCLE, s=(5, 5))], CIRCLE), [None]),
    "nothing due, nothing came": (Case(LATENCY, [two(0.0, {}, s1=(0, 0), s2=(0, 0))] * 2), ["none"] * 2),
    "nothing due, something came": (
        Case({"juice": 1.0}, [two(9, {("a", "sink"): (0, 50)}, s1=(0, 0), s2=(0, 0))], TWO), ["none"]),
    "never a worker": (Case({"juice": 1.0, "latency_ms": 60.0}, [Tick(0.0, {})] * 3), [0, 0, 0]),
    "probes are silent too": (
        Case(LATENCY, [FULL, Tick(None, {}), Tick(0.0, {}), Tick(None, {})]), [10, None, 0, None]),
    "came, and was not timed": (Case(LATENCY, [Tick(7.0, {"s": (5, 5)})]), [None]),
    "unthrottled and starved": (Case(LATENCY, [two(0.0, {}, s=(0, 0))], unthrottled=True), [0]),
    "unthrottled, a worker is gone": (Case({"juice": 1.0}, [two(9, ONE_SILENT, s1=(100, 100))], TWO, 0.0, True), [5]),
    "what is caught up with is not twice as good": (
        Case({"juice": 1.0}, [SILENT] * 10 + [chain(1000, 1300)] * 6), [0] * 10 + [10] * 6),
    "of the last minute": (
        Case({"juice": 1.0}, [FULL] * 6 + [HALF] * 6, start_s=-60.0),
        [10] * 6 + [10 - 5 * n / 6 for n in range(1, 7)]),
    "dead at the end": (Case(LATENCY, [FULL] * 5 + [DEAD] * 5), [10] * 5 + [0] * 5),
    "dead at the start": (Case(LATENCY, [DEAD] * 5 + [FULL] * 5), [0] * 5 + [10] * 5),
    "dead in between": (Case({"juice": 0.8}, [FULL] * 5 + [SILENT] * 5 + [FULL]), [10] * 5 + [0] * 5 + [10]),
    "a list every 30 s": (Case(LATENCY, seldom(*[2] * 16), start_s=-180.0), [10] * 48),
    "and then none": (
        Case(LATENCY, seldom(*[2] * 10, 17), start_s=-180.0), [10] * 30 + [0] * 17 + [10]),
    "one that has just arrived": (Case(LATENCY, seldom(2, 2, 2, 2, 17)), [10] * 12 + [0] * 17 + [10]),
    "a start has silences of its own": (
        Case(LATENCY, seldom(3, 2, *[0] * 11, *[0] * 10, 2, *[0] * 3), start_s=-180.0),
        [0] * 3 + [10] + [0] * 2 + [10] * 22 + [0] * 2 + [10] * 4),
    "restarts after an event are no excuse for the next": (
        Case(LATENCY, seldom(*[0] * 18, 5, *[0] * 3, 5, 0), start_s=-180.0), [10] * 18 + ([0] * 5 + [10] * 4) * 2),
}  # fmt: skip
EXPECTED["restarts after an event are no excuse for the next"][1].pop()
EXPECTED["restarts after an event are no excuse for the next"][1].pop()


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Mapping[str, Mapping[float, Any]]:
    """Rows by case and start of window."""
    found: dict[str, dict[float, Any]] = {name: {} for name in EXPECTED}
    frames = _frames(spark, {name: case for name, (case, _) in EXPECTED.items()})
    for row in service.service(*frames).collect():
        found[row.run_id][row.window_s] = row
    return found


def _frames(spark: SparkSession, cases: Mapping[str, Case]) -> Sequence[Any]:
    """Return the arguments of `service.service`; each case is a run, and its topology has no name."""
    levels, rates, inputs, counts, timed, edges = ([] for _ in range(6))  # type: ignore[var-annotated]
    for run, case in cases.items():
        levels.append((run, "", case.level.get("latency_ms"), case.level.get("juice"), 10.0, case.unthrottled))
        edges += [{"run_id": run, "topology": "", "source": source, "target": target} for source, target in case.edges]
        for place, tick in enumerate(case.ticks):
            key = (run, "", case.start_s + 10.0 * place)
            rates.append((*key, "sink", tick.rate, True))
            for source, numbers in tick.inputs.items():
                due, emitted = numbers or (None, None)
                inputs.append((*key, source, due, emitted, numbers is None))
            counts += [(*key, *edge, *map(float, moved)) for edge, moved in tick.edges.items()]
            timed += [] if tick.ms is None else [(*key, tick.ms, 2 * tick.ms)]
    key_of = "run_id string, topology string, window_s double"
    frame = {
        name: frame_of_rows(spark, of, f"{key_of}, {columns}")
        for name, of, columns in (
            ("rates", rates, "scope string, rate double, complete boolean"),
            ("inputs", inputs, "source string, due bigint, emitted bigint, unknown boolean"),
            ("counts", counts, "source string, target string, sent double, executed double"),
            ("timed", timed, "mean_ms double, p95_ms double"),
        )
    }  # fmt: skip
    level_frame = frame_of_rows(spark, levels, service.LEVELS)
    busy = service.busy_windows(frame["rates"], frame["inputs"], level_frame)
    asked = level_frame.where(f.col("least_juice").isNotNull())
    served = busy.where("served").join(asked.select("run_id"), "run_id", how="left_semi")
    in_order = frame_of_rows(spark, service.edges_in_order(edges), service.EDGES)
    juices = service.juices(served, frame["counts"], frame["inputs"], in_order, level_frame)
    return busy, frame["timed"], juices, level_frame


@pytest.mark.parametrize("name", EXPECTED)
def test_utility_of_each_window(rows: Mapping[str, Mapping[float, Any]], name: str) -> None:
    case, expected = EXPECTED[name]
    found = rows[name]
    utilities = {start: row.utility for start, row in found.items()}
    starts = [case.start_s + 10.0 * place for place in range(len(case.ticks))]
    assert len(starts) == len(expected)
    assert utilities == pytest.approx({s: value for s, value in zip(starts, expected, strict=True) if value != "none"})
    for row in found.values():
        assert row.met == (None if row.utility is None else row.utility >= 10 - 1e-6)
        assert row.reported == (case.ticks[starts.index(row.window_s)].rate is not None)


def test_latency_and_juice_stand_beside(rows: Mapping[str, Mapping[float, Any]]) -> None:
    row = rows["both levels"][0.0]
    assert (row.latency_ms, row.p95_ms, row.juice, row.share) == (40.0, 80.0, 0.5, 0.5)
    assert {start: row.juice for start, row in rows["dead in between"].items()}[50.0] == 0.0
    assert rows["dead at the end"][60.0].latency_ms is None


def test_juice_is_that_of_policies_on_random_graphs(spark: SparkSession) -> None:
    """Joins, filters, several sources and sinks, more executed than sent, edges without tuples."""
    random, cases, expected = Random(0), dict[str, Case](), dict[str, float | None]()
    for number in range(250):
        names = [f"c{place}" for place in range(random.randint(2, 8))]
        edges = {
            (names[parent], name): (float(random.choice((0, 10, 20, 30))), float(random.choice((0, 5, 10, 40))))
            for place, name in enumerate(names)
            for parent in random.sample(range(place), min(place, random.randint(0, 3)))
        }  # fmt: skip
        sources = {source for source, _ in edges} - {target for _, target in edges}
        if not edges:
            continue
        inputs = {name: (random.choice((0, 10, 40)), random.choice((0, 10, 40))) for name in sources}
        counts = [EdgeCount(*edge, *moved) for edge, moved in edges.items()]
        sent = {source: sum(each.sent for each in counts if each.source == source) for source, _ in edges}
        if any(each.executed and not sent[each.source] for each in counts):
            continue  # not counted as sent: the analysis has no number, a policy's window may begin in between
        shares = {name: min(1.0, emitted / due) for name, (due, emitted) in inputs.items() if due}
        cases[str(number)] = Case({"juice": 1.0}, [Tick(1.0, inputs, edges)], edges)
        expected[str(number)] = juice(counts, shares) if shares else None
    *_, juices, _ = _frames(spark, cases)
    found = {row.run_id: row.juice for row in juices.collect()}
    assert len(expected) > 100 and len({value for value in expected.values() if value not in (None, 0.0, 1.0)}) > 20
    assert found == pytest.approx(expected, nan_ok=True)


def test_attained_shares_are_those_of_policies(spark: SparkSession) -> None:
    levels = [(limit, least) for limit in (None, 60.0) for least in (None, 0.8) if (limit, least) != (None, None)]
    values = [(ms, share) for ms in (None, 0.0, 60.0, 90.0, 6e5) for share in (None, 0.0, 0.4, 0.8, 1.0)]
    points = [(*level, *value) for level in levels for value in values]
    frame = frame_of_rows(spark, points, "limit_ms double, least_juice double, ms double, juice double")
    shares = frame.select("*", service.attained_share(f.col("ms"), f.col("juice")).alias("share")).collect()
    for row in shares:
        expected = utility(ServiceLevel(row.limit_ms, row.least_juice, 1.0), row.ms, row.juice)
        assert row.share == (None if expected is None else pytest.approx(expected)), row
    assert len(shares) == len(points)


# --- parts of a run ---------------------------------------------------------------------------------------------------


def curve(run: str, shares: Sequence[float | None], topology: str = "", start_s: float = 0.0) -> list[tuple[Any, ...]]:
    return [(run, topology, start_s + 10.0 * place, None, None, None, None if share is None else 20 * share, share,
             None if share is None else share >= 1, True) for place, share in enumerate(shares)]  # fmt: skip


@pytest.fixture(scope="module")
def attained(spark: SparkSession) -> Mapping[tuple[str, str], Mapping[str, float]]:
    windows = [
        *curve("steps", [0.2] * 10 + [0.6] * 10 + [1.0] * 20),
        *curve("never", [0.2] * 10 + [0.9, 0.9] + [0.5] * 18),
        *curve("restless", [0.5, 0.9] * 12),
        *curve("short", [0.5] * 11),
        *curve("unknown", [1.0] * 15 + [None] + [1.0] * 15),
        *curve("two", [1.0] * 20, "a"), *curve("two", [0.0] * 10 + [0.5] * 10, "b"),
        *curve("two", [0.5] * 10 + [0.75] * 10, "all"),
    ]  # fmt: skip
    ddl = TABLES["service"].ddl
    runs = {(row[0], row[1]) for row in windows}
    parts = [(*unit, "e1", "after", 0.0, float("inf")) for unit in runs]
    parts += [("steps", "", "e1", "before", -50.0, 0.0), ("steps", "", "e2", "after", 104.0, 270.0)]
    found = service.attainment(frame_of_rows(spark, windows, ddl), frame_of_rows(spark, parts, service.SPANS)).collect()
    assert set(found[0].asDict()) == {column.name for column in TABLES["attainment"].columns}
    (quantiles,) = (row["quantiles"] for row in found if (row["run_id"], row["event_id"]) == ("steps", "e1"))
    assert len(quantiles) == 41 and quantiles[0::10] == pytest.approx([0.2, 0.5, 0.8, 1.0, 1.0])
    numbers = measurements.service_levels(lambda _: [row.asDict() for row in found])
    result: dict[tuple[str, str], dict[str, Any]] = {}
    for row in numbers:
        of_part = result.setdefault((f"{row['run_id']} {row['topology']}".strip(), row["event_id"]), {})
        if row["value"] is not None:
            of_part[row["metric"]] = -row["value"] if row["censored"] else row["value"]
    return result


def test_what_was_attained(attained: Mapping[tuple[str, str], Mapping[str, float]]) -> None:
    """Half of the time met; settled with the last step, best minute is the last."""
    assert attained["steps", "e1"] == pytest.approx({
        "utility_after": 14.0, "met_percent_after": 50.0, "attained_mean_percent_after": 70.0,
        "attained_p5_percent_after": 20.0, "attained_p15_percent_after": 20.0, "attained_p50_percent_after": 80.0,
        "attained_p90_percent_after": 100.0, "time_to_max_utility_s": 210.0, "settling_s": 200.0,
        "overshoot_percent_after": 0.0,
    })  # fmt: skip
    of_e2 = attained["steps", "e2"]  # from the window whose middle is behind 104 s to the one before 270 s
    assert of_e2["utility_after"] == pytest.approx((10 * 12 + 7 * 20) / 17)
    assert of_e2["time_to_max_utility_s"] == pytest.approx(210 - 104) and of_e2["settling_s"] == pytest.approx(96)


def test_parts_of_a_long_run_are_whole_windows(spark: SparkSession) -> None:
    """A run of 4,000 s has parts of 20 s; so has a short one beside it, whose first window is alone in its part."""
    windows = [*curve("long", [0.0, 1.0] * 200), *curve("short", [0.5, None, 0.7], start_s=-10.0)]
    parts = service.over_time(frame_of_rows(spark, windows, TABLES["service"].ddl)).collect()
    assert set(parts[0].asDict()) == {column.name for column in TABLES["attained_over_time"].columns}
    assert {row["part_s"] for row in parts} == {20.0}
    shares = {run: {row["begin_s"]: row["share"] for row in parts if row["run_id"] == run} for run in ("long", "short")}
    assert shares["long"] == {20.0 * place: 0.5 for place in range(200)}
    assert shares["short"] == {-20.0: 0.5, 0.0: 0.7}


def test_times_that_were_not_reached_are_bounds(attained: Mapping[tuple[str, str], Mapping[str, float]]) -> None:
    """A negative number here is a censored one."""
    never, restless, short = (attained[name, "e1"] for name in ("never", "restless", "short"))
    assert (never["time_to_max_utility_s"], never["settling_s"]) == (-300.0, 120.0)
    assert never["overshoot_percent_after"] == pytest.approx(100 * ((2 * 0.9 + 4 * 0.5) / 6 - 0.5))
    assert (restless["time_to_max_utility_s"], restless["settling_s"]) == (-240.0, -240.0)
    assert "settling_s" not in short and short["time_to_max_utility_s"] == -110.0


def test_a_part_that_is_not_known_throughout_has_no_number(
    attained: Mapping[tuple[str, str], Mapping[str, float]]
) -> None:  # fmt: skip
    assert ("unknown", "e1") not in attained


def test_the_clusters_shares_are_of_the_windows_of_all(
    attained: Mapping[tuple[str, str], Mapping[str, float]]
) -> None:  # fmt: skip
    of = attained["two all", "e1"]
    assert (of["met_percent_after"], of["attained_mean_percent_after"]) == (50.0, pytest.approx(62.5))
    assert (of["attained_p5_percent_after"], of["attained_p90_percent_after"]) == (0.0, 100.0)
    assert (of["utility_after"], of["time_to_max_utility_s"]) == (pytest.approx(12.5), -200.0)


def test_parts_are_the_sides_of_events_and_the_time_of_the_policy() -> None:
    unit = {"run_id": "r", "topology": ""}
    zeros = [{**unit, "zero_s": 1000.0, "first_s": 900.0}]

    def event(name: str, kind: str, zero_s: float, from_s: float | None, until_s: float | None) -> dict[str, Any]:
        return {**unit, "event_id": name, "kind": kind, "zero_s": zero_s, "from_s": from_s, "until_s": until_s}

    rate, hold = event("e1", "rate", 1000.0, None, 1300.0), event("e2", "hold", 1300.0, 1000.0, None)
    found = {row[2:4]: row[4:] for row in service.part_rows([rate, hold], zeros)}
    forever = float("inf")
    assert found == {
        ("e0", "after"): (300.0, forever), ("e1", "before"): (-100.0, 0.0), ("e1", "after"): (0.0, 300.0),
        ("e2", "before"): (0.0, 300.0), ("e2", "after"): (300.0, forever),
    }  # fmt: skip
    without = service.part_rows([event("e0", "none", 1000.0, None, None)], zeros)
    assert without == [("r", "", "e0", "after", -100.0, forever)]
    arrived = service.part_rows([rate, hold], [zeros[0] | {"first_s": 1400.0}])
    assert arrived[0] == ("r", "", "e0", "after", 400.0, forever), "it was not there before"


def test_edges_come_after_all_edges_into_their_source() -> None:
    edges = [{"run_id": "r", "topology": "", "source": s, "target": t} for s, t in (*FIGURE_1, ("spout", "a"))]
    order = [row[3:] for row in service.edges_in_order(edges)]
    assert sorted(order) == sorted(FIGURE_1)
    assert all(order.index(into) < order.index(out) for into in order for out in order if into[1] == out[0])


def run(**spec: Any) -> dict[str, Any]:
    return {"run_id": "r", "topology": "star", "spec": json.dumps(spec), "topology_changes": "{}"}


def test_whose_sources_are_unthrottled_is_said_by_the_experiment() -> None:
    fast, paced = ({"name": "star", "parameters": {"unthrottled": value}} for value in (True, False))
    other = {"name": "linear", "parameters": {"unthrottled": True}}
    changed = run(topology=paced) | {"topology_changes": json.dumps({"parameters": {"unthrottled": True}})}
    for each in (run(topology=fast), run(topologies=[other, fast]), changed):
        assert service.unthrottled_units([each]) == {("r", "star")}
    of_another = run(topologies=[other, paced]) | {"topology_changes": json.dumps(other)}
    for each in (run(topology=paced), run(topologies=[other, paced]), of_another):
        assert service.unthrottled_units([each]) == set()
    unit = {"run_id": "r", "topology": ""}
    assert service.unthrottled_units([{**unit, "spec": None, "topology_changes": None}]) == set(), "others' logs"
