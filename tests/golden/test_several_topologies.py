"""Runs of several topologies with the same task numbers and names: each has the numbers that it has alone, the cluster
their sums, and one that arrives or departs has none while it is not there."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from analysis.compare.blocks import runs_of
from analysis.compare.evaluation import series_blocks
from analysis.compare.question import Pair
from analysis.ingest import run_tables
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.schemas import STORED, TABLES
from analysis.report import series_page, series_tables
from barograph.nights.outcome import numbers_of
from tests.golden import several
from tests.golden.series import GoldenSeries
from tests.golden.several import NAMES
from tests.support.series_by_hand import write_table

pytestmark = pytest.mark.spark
RUN = "stela-r1"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def three(in_one_pass: Mapping[str, GoldenSeries]) -> SeriesPaths:
    return SeriesPaths(in_one_pass["several"].root)


@pytest.fixture(scope="module")
def measured(three: SeriesPaths) -> dict[tuple[str, str], dict[str, float]]:
    return numbers(three)


def numbers(paths: SeriesPaths, run: str = RUN) -> dict[tuple[str, str], dict[str, float]]:
    """(topology, event) -> metric -> value, of one run."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in small_tables.rows(paths, "measurements", runs=[run]):
        found[row["topology"], row["event_id"]][row["metric"]] = row["value"]
    return found


def rows(paths: SeriesPaths, name: str, topology: str, run: str = RUN) -> list[Row]:
    found = small_tables.rows(paths, name, runs=[run], topology=topology)
    return sorted(found, key=lambda row: tuple(str(row[column]) for column in TABLES[name].key))


def shifted(found: list[Row], by_s: float) -> list[Row]:
    """Without the run, and its epoch seconds as if it had begun so much earlier."""
    own = [{name: value for name, value in row.items() if name != "run_id"} for row in found]
    return [
        {name: round(value - by_s * (value > several.START), 6) if isinstance(value, float) else value
         for name, value in row.items()}
        for row in own
    ]  # fmt: skip


def test_each_topology_has_the_numbers_that_it_has_alone(three: SeriesPaths) -> None:
    of_machines = ("cpu", "cpu_windows", "network", "network_windows")
    metrics = [name for name in STORED if TABLES[name].names_topology and name not in (*of_machines, "measurements")]
    assert len(metrics) > 15
    for name in metrics:
        found, alone = (shifted(rows(three, name, "star", run), s) for run, s in ((RUN, 1000.0), ("alone", 2000.0)))
        assert found or name in ("actions", "group_windows", "readings"), name
        assert found == alone, name
    for name in of_machines:  # there they are the only topology's; at e2 the cluster's steady part is another
        whole = [row | {"topology": "star"} for row in rows(three, name, "all") if row.get("event_id", "e1") == "e1"]
        own = [row for row in rows(three, name, "star", "alone") if row.get("event_id", "e1") == "e1"]
        assert whole and shifted(whole, 0.0) == shifted(own, 0.0), name
    shared = ("cpu_", "memory_", "network_", "machines_", "attempts")
    beside, alone_by_event = numbers(three), numbers(three, "alone")
    for event in ("e0", "e1", "e2", "e3"):
        of = alone_by_event["star", event]
        of.pop("payback_s", None)  # bytes are of the cluster: beside others they are set against the tuples of all
        kept = {metric: value for metric, value in of.items() if not metric.startswith(shared)}
        assert beside["star", event] == pytest.approx(kept) and kept
        given = {metric: value for metric, value in of.items() if metric.startswith(shared)}
        assert {metric: beside["all", event][metric] for metric in given} == pytest.approx(given)


# Tuples per second at the sinks before and after each event; nothing where a topology is not there.
LEVELS = {
    "star": {"e1": (100, 130), "e2": (130, 130), "e3": (130, 130)},
    "diamond": {"e1": (40, 40), "e2": (40, 30), "e3": (30, None)},
    "page": {"e2": (None, 60), "e3": (60, 60)},
    "all": {"e1": (140, 170), "e2": (170, 220), "e3": (220, 190)},
}
UTILITIES = {
    "star": {"e1": (17.5, 17.5), "e2": (17.5, 17.5), "e3": (17.5, 17.5)},  # 35 × 10 ms / 20 ms
    "diamond": {"e1": (10, 10), "e2": (10, 10), "e3": (10, None)},
    "page": {"e2": (None, 20), "e3": (20, 20)},
    "all": {"e1": (27.5, 27.5), "e2": (27.5, 47.5), "e3": (47.5, 37.5)},
}


def test_everything_of_a_part_is_of_the_same_seconds(three: SeriesPaths) -> None:
    """CPU and latency of exactly those windows of which the throughput is; traffic, bytes and juice go by the same."""
    for topology in (*several.NAMES, "all"):
        parts = {(row["event_id"], row["phase"]): row for row in rows(three, "intervals", topology)}
        assert {row["end_s"] - row["start_s"] == 10 * row["windows"] for row in parts.values()} == {True}
        for row in rows(three, "cpu", topology):
            if row["machine"] != "m4" or row["event_id"] != "e1":  # it reports from e1 on
                assert row["samples"] == 10 * parts[row["event_id"], row["phase"]]["windows"], row
        for row in rows(three, "interval_latency", topology):
            part = parts[row["event_id"], row["phase"]]
            assert row["n"] == 10 * part["windows"] * part["mean"], row
        for row in rows(three, "tuple_rates", topology):
            part = parts[row["event_id"], row["phase"]]
            assert topology == "all" or row["executed_per_s"] == pytest.approx(2 * part["mean"]), "of work and sink"


@pytest.mark.parametrize(("metric", "levels"), [("throughput", LEVELS), ("utility", UTILITIES)])
def test_levels_are_those_of_each_and_their_sum(
    measured: dict[tuple[str, str], dict[str, float]], metric: str, levels: dict[str, dict[str, tuple[Any, Any]]]
) -> None:
    for topology, events in levels.items():
        found = {
            event: (of.get(f"{metric}_before"), of.get(f"{metric}_after"))
            for (name, event), of in measured.items() if name == topology and event != "e0"
        }  # fmt: skip
        assert found == events, topology


def test_silence_and_losses_are_a_topologys_own(measured: dict[tuple[str, str], dict[str, float]]) -> None:
    lost = {key: of["lost_after"] for key, of in measured.items() if "lost_after" in of}
    assert {key: value for key, value in lost.items() if value} == {("star", "e1"): 600, ("all", "e1"): 600}
    down = {key: of["downtime_s"] for key, of in measured.items() if "downtime_s" in of}
    assert {key: value for key, value in down.items() if value} == {
        ("star", "e1"): 6, ("page", "e2"): several.LOADS_S,
    }, "the others went on"  # fmt: skip
    assert measured["all", "e1"]["late_after"] == 4
    assert measured["all", "e1"]["machines_joined"] == 1 and "machines_joined" not in measured["star", "e1"]
    assert "cpu_percent_after" not in measured["star", "e1"]


def test_what_was_lost_while_an_event_lasted_is_not_of_the_rest(three: SeriesPaths) -> None:
    """The 600 tuples of star go in the first 6 s after e1, and 2 are late 20 s after it; what e1 had begun is over
    after 30 s."""
    found = rows(three, "losses", "star", "disturbed")
    lost = {(row["event_id"], row["phase"]): row["lost"] for row in found if row["source"] == "spout"}
    assert lost == {
        ("e1", "before"): 0, ("e1", "after"): 600, ("e1", "rest"): 0, ("e2", "before"): 600, ("e2", "after"): 0,
        ("e3", "before"): 0, ("e3", "after"): 0,
    }  # fmt: skip
    sent = {row["phase"]: row["sent"] for row in found if row["event_id"] == "e1" and row["source"] == "spout"}
    assert sent == {"before": 10_000, "after": 6 * 100 + 94 * 130, "rest": 70 * 130}
    late = {row["phase"]: row["late"] for row in rows(three, "emissions", "star", "disturbed")
            if row["event_id"] == "e1"}  # fmt: skip
    assert late == {"before": 0, "after": 2, "rest": 0}
    measured = numbers(three, "disturbed")["star", "e1"]
    assert (measured["lost_after"], measured["late_after"]) == (600, 2) and "lost_rest" not in measured
    assert not {row["phase"] for row in rows(three, "losses", "star")} - {"before", "after"}, "nothing lasts there"


def test_a_topology_that_is_starved_is_worth_nothing(three: SeriesPaths) -> None:
    found = numbers(three, "disturbed")
    juices = {row["window_s"]: row["juice"] for row in rows(three, "service", "diamond", "disturbed")}
    assert set(juices) == {10.0 * place for place in range(-9, 19)}
    assert juices == {start: 1 if start < 0 else 0 for start in juices}
    for name, utilities in (("star", (17.5, 17.5)), ("diamond", (10, 0)), ("all", (27.5, 17.5))):
        of = found[name, "e1"]
        assert (of["utility_before"], of["utility_after"]) == utilities, name
    assert found["diamond", "e1"]["due_after"] == 40 and found["diamond", "e1"]["throughput_after"] == 0


def test_nothing_is_of_before_an_arrival_or_after_a_departure(
    three: SeriesPaths, measured: dict[tuple[str, str], dict[str, float]]
) -> None:
    assert {event for name, event in measured if name == "page"} == {"e0", "e2", "e3"}
    assert measured["page", "e0"]["submit_to_loaded_s"] == 2.5
    assert "downtime_s" not in measured["diamond", "e3"] and "lost_after" not in measured["diamond", "e3"]
    assert measured["page", "e2"]["downtime_s"] == several.LOADS_S, "until its first tuple"
    for name in ("throughput", "event_throughput", "activity", "latency"):
        windows = {topology: rows(three, name, topology) for topology in ("diamond", "page")}
        zero = {"e1": 0, "e2": 100, "e3": 200, "e0": 0}
        at = {
            topology: [
                row["window_s"] + zero[row.get("event_id", "e0")] for row in found if row.get("rate", 1) is not None
            ]
            for topology, found in windows.items()
        }  # fmt: skip
        assert min(at["page"]) >= 100 and max(at["diamond"]) < 200, name
    slots = {(row["event_id"], row["slot"]) for row in rows(three, "slots", "diamond")}
    assert slots == {("e1", "m2:6700"), ("e2", "m2:6700")}


def test_windows_of_the_cluster_are_the_sums(three: SeriesPaths) -> None:
    for name in ("throughput", "event_throughput"):
        for scope in ("total", "spouts", "due"):
            of: dict[tuple[Any, float], float] = defaultdict(float)
            for topology in several.NAMES:
                for row in rows(three, name, topology):
                    if row["scope"] == scope and row["rate"] is not None:
                        of[row.get("event_id"), row["window_s"]] += row["rate"]
            whole = [row for row in rows(three, name, "all") if row["scope"] == scope and row["complete"]]
            assert len(whole) > 30
            for row in whole:
                assert row["rate"] == of[row.get("event_id"), row["window_s"]], (name, row)


def test_a_topology_that_never_gets_a_worker_is_worth_nothing_and_the_cluster_what_the_others_are(
    three: SeriesPaths,
) -> None:
    """`silent`: one that was there from the start; `starved`: one that arrives with e2."""
    levels = {
        "silent": {"star": {"e1": (0, 0), "e2": (0, 0), "e3": (0, 0)}, "diamond": LEVELS["diamond"],
                   "page": LEVELS["page"], "all": {"e1": (40, 40), "e2": (40, 90), "e3": (90, 60)}},
        "starved": {"star": LEVELS["star"], "diamond": LEVELS["diamond"], "page": {"e2": (None, 0), "e3": (0, 0)},
                    "all": {"e1": (140, 170), "e2": (170, 160), "e3": (160, 130)}},
    }  # fmt: skip
    utilities = {"silent": {"e1": (10, 10), "e2": (10, 30), "e3": (30, 20)},
                 "starved": {"e1": (27.5, 27.5), "e2": (27.5, 27.5), "e3": (27.5, 17.5)}}  # fmt: skip
    for run, of_topologies in levels.items():
        found = numbers(three, run)
        for topology, expected in of_topologies.items():
            sides = {event: (of.get("throughput_before"), of.get("throughput_after"))
                     for (name, event), of in found.items() if name == topology and event != "e0"}  # fmt: skip
            assert sides == expected, (run, topology)
        worth = {event: (of.get("utility_before"), of.get("utility_after"))
                 for (name, event), of in found.items() if name == "all" and event != "e0"}  # fmt: skip
        assert worth == utilities[run]
        assert found["all", "e1"]["lost_after"] == (0 if run == "silent" else 600)
    silent, starved = numbers(three, "silent"), numbers(three, "starved")
    assert silent["star", "e1"]["downtime_s"] == 99 and silent["all", "e1"]["downtime_s"] == 0
    assert starved["page", "e2"]["downtime_s"] == 99 and starved["all", "e2"]["downtime_s"] == 0
    assert silent["diamond", "e1"] == numbers(three)["diamond", "e1"]
    of_all = {row["scope"]: set[float | None]() for row in rows(three, "throughput", "all", "silent")}
    for row in rows(three, "throughput", "all", "silent"):
        of_all[row["scope"]] |= {row["rate"]} if -90 <= row["window_s"] < 90 else set()
    assert of_all == {"total": {40}, "spouts": {40}, "due": {None}}, "what was due of it nobody knows"
    assert "submit_to_loaded_s" not in starved.get(("page", "e0"), {}), "it never was"


def test_where_its_machines_say_nothing_either_the_sum_is_unknown(three: SeriesPaths) -> None:
    found = numbers(three, "unknown")
    assert found["diamond", "e1"]["throughput_after"] == 40 and not [key for key in found if key[0] == "star"]
    assert {row["rate"] for row in rows(three, "throughput", "all", "unknown")} == {None}
    sums = {"throughput_after", "lost_after", "downtime_s", "utility_after"}
    assert not sums & found["all", "e1"].keys() and found["all", "e1"]["attempts"] == 1


def test_a_comparison_has_the_zero_of_a_topology_that_was_starved(three: SeriesPaths, tmp_path: Path) -> None:
    """As if the run had been a complete one of block 1."""
    names = {"even_rebalance-r1": "even_rebalance-r1", "starved": RUN}
    for name in STORED:
        of = [row | {"run_id": names[row["run_id"]]} for row in small_tables.rows(three, name, runs=names.keys())]
        as_complete = {"status": "complete", "repetition": 1, "block": 1} if name == "runs" else {}
        if of and "struct" not in TABLES[name].ddl:  # workers' lines, which no comparison reads
            write_table(tmp_path, name, [row | as_complete for row in of])
    pair = runs_of(Pair("policy", "even_rebalance", "stela"), small_tables.rows(SeriesPaths(tmp_path), "runs"))
    blocks = {each.key: each.blocks for each in series_blocks(SeriesPaths(tmp_path), [pair])}
    values = {
        (metric, topology): [(block.a.number, block.b.number) for block in blocks[metric, "e2", topology]]
        for metric in ("throughput_after", "utility_after") for topology in ("page", "all")
    }  # fmt: skip
    assert values == {
        ("throughput_after", "page"): [(60, 0)], ("throughput_after", "all"): [(200, 160)],
        ("utility_after", "page"): [(20, 0)], ("utility_after", "all"): [(47.5, 27.5)],
    }  # fmt: skip
    assert [(block.a.number, block.b.number) for block in blocks["downtime_s", "e2", "page"]] == [(8, 99)]


def test_one_that_was_never_submitted_is_not_waited_for(three: SeriesPaths) -> None:
    found = numbers(three, "absent")
    assert found["all", "e1"]["throughput_after"] == 170
    assert not [key for key in found if key[0] == "page"]


@pytest.mark.parametrize("name", ["all", "", None, "a/b", "star"])
def test_a_record_with_a_wrong_name_says_so(tmp_path: Path, name: Any) -> None:
    shown = [several.facts_of("star"), several.facts_of("diamond") | {"name": name}]
    several.write_run(tmp_path, "stela", 1, 0, topologies=shown)
    paths = SeriesPaths(tmp_path)
    run_tables.write(paths, paths.all_runs())
    (row,) = small_tables.rows(paths, "runs")
    assert row["status"] == "incomplete"
    assert f"is {name!r}; allowed: a name of its own" in row["failure_message"], row
    assert "run.json: topologies[" in row["failure_message"]


def test_comparisons_and_nights_have_each_topology(three: SeriesPaths) -> None:
    runs = small_tables.rows(three, "runs")
    pair = runs_of(Pair("policy", "even_rebalance", "stela"), runs)
    found = {each.key: each for each in series_blocks(three, [pair])}
    values = {
        key[2]: (found[key].blocks[0].a.number, found[key].blocks[0].b.number)
        for key in found if key[:2] == ("throughput_after", "e1")
    }  # fmt: skip
    assert values == {"star": (110, 130), "diamond": (40, 40), "all": (150, 170)}
    assert {key[2] for key in found if key[0] == "latency_all_p95_ms_after"} == set(several.NAMES), "not of a sum"
    assert {each.topology for each in series_blocks(three, [pair], "page")} == {"page"}
    nights = numbers_of(three.root)
    assert set(nights) == {f"{v}:{name}" for v in several.LEVELS for name in (*several.NAMES, "all")}
    assert nights["stela:star"]["throughput_after"]["e1"]["values"] == [130]


def test_the_pages_have_a_section_for_each(three: SeriesPaths) -> None:
    page = series_page.build_report(three.root).read_text()
    for heading in ("All topologies", "star", "diamond", "page"):
        assert f">{heading}</h2>" in page, heading
    assert "All topologies: Stela&#39;s throughput after event 3 of 3 (departure) was 12" in page
    assert all(f'id="figure-{name}"' in page for name in ("utility", "attained", "service_map"))
    assert "page arrives" in page and "diamond departs" in page
    of_run = (three.run(RUN).root / "report.html").read_text()
    for words in (
        'id="figure-timeline"',
        'id="figure-timeline_diamond"',
        "e2: page arrives",
        "star 1, diamond 1, page 1",
    ):
        assert words in of_run, words
    for text in (page, of_run):
        identifiers = list(_identifiers(text))
        assert len(identifiers) == len(set(identifiers))


def test_service_levels_stand_in_one_table_and_of_many_topologies_nothing_else_does(
    three: SeriesPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = series_tables.service_table(three, ("even_rebalance", "stela"))
    rows_of = {(row["topology"], row["variant"]): row for row in table.rows}
    assert list(rows_of) == [(name, variant) for name in ("all", *NAMES) for variant in ("even + rebalance", "Stela")]
    assert rows_of["star", "Stela"]["level"] == "10 ms, worth 35"
    (star,) = (row for row in rows(three, "attainment", "star") if row["event_id"] == "e0")
    assert (
        rows_of["star", "Stela"]["attained_mean"]
        == pytest.approx(100 * star["attained_mean"])
        == pytest.approx(50, abs=3)
    )
    monkeypatch.setattr(series_page, "MOST_SECTIONS", 2)
    page = series_page.build_report(three.root).read_text()
    assert ">All topologies</h2>" in page and ">star</h2>" not in page and 'id="figure-service_map"' in page


def _identifiers(text: str) -> Iterator[str]:
    import re

    yield from re.findall(r'\bid="([^"]+)"', text)
