"""What a night keeps of a series: numbers of complete runs, in the order in which they were measured, and claims."""

import json
from pathlib import Path

import pytest

from analysis.claims.ledger import judge_all
from analysis.claims.rows import RunValue, SeriesConditions
from analysis.claims.statements import Claim, ClaimKind, Resolution
from analysis.nights import pages
from analysis.nights.findings import evaluate
from analysis.nights.night_records import History
from analysis.nights.regressions import Settings
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.report.ledger_table import ledger_row
from barograph.nights.outcome import claims_of, collect_numbers, failures_of, numbers_of
from bench.statistics.synthetic_nights import experiment, night
from tests.support.nights_by_hand import STAR, parsed
from tests.support.series_by_hand import cut_short


def run(run_id: str, variant: str, order: int, status: str = "complete") -> dict[str, object]:
    return {"run_id": run_id, "variant": variant, "order": order, "status": status}


def row(run_id: str, value: float | None, event: str = "e1", *, censored: bool = False) -> dict[str, object]:
    return {"run_id": run_id, "event_id": event, "metric": "downtime_s", "value": value, "censored": censored}


def test_numbers_of_complete_runs_count_in_the_order_of_the_blocks_and_a_horizon_is_no_value() -> None:
    runs = [run("a-r2", "a", 3), run("a-r1", "a", 1), run("b-r1", "b", 2), run("a-r3", "a", 5, "failed")]
    rows = [row("a-r2", 20.0), row("a-r1", 10.0), row("b-r1", 1.0), row("a-r3", 99.0), row("gone", 5.0)]
    odd = [row("b-r1", value) for value in (None, float("inf"), float("nan"))]
    found = collect_numbers(runs, [*rows, *odd, row("a-r1", 90.0, "e2", censored=True)])
    assert found["a"]["downtime_s"] == {
        "e1": {"values": [10.0, 20.0], "horizons": []}, "e2": {"values": [], "horizons": [90.0]},
    }  # fmt: skip
    assert found["b"]["downtime_s"]["e1"]["values"] == [1.0]


def test_runs_that_the_system_under_test_failed_are_counted_by_variant(tmp_path: Path) -> None:
    """Each once, also one that was repeated; none of tables that cannot be read."""
    paths = SeriesPaths(tmp_path / "stela" / "star" / "20261121-000000-a")
    blames = {"a-r1": None, "a-r2": "system_under_test", "a-r3": "infrastructure", "b-r1": "system_under_test"}
    small_tables.write(paths, "runs", [
        run(run_id, run_id[0], place, "failed" if blame else "complete") | {"failure_blame": blame}
        for place, (run_id, blame) in enumerate(blames.items())
    ])  # fmt: skip
    assert failures_of(paths.root) == {"a": 1, "b": 1}
    for run_id in ("a-r1", "a-r2"):
        (paths.root / "attempts" / f"{run_id}.attempt-1").mkdir(parents=True)
        failure = {"blame": "system_under_test", "message": "it died"}
        record = {"status": "failed", "variant": {"name": "a"}, "failure": failure}
        (paths.root / "attempts" / f"{run_id}.attempt-1" / "run.json").write_text(json.dumps(record))
    assert failures_of(paths.root) == {"a": 2, "b": 1}
    cut_short(paths.root, "runs")
    assert failures_of(paths.root) == {}


def test_values_of_sides_that_were_not_steady_are_counted_and_others_say_nothing() -> None:
    runs = [run(f"a-r{n}", "a", n) for n in (1, 2)]
    rows = [row(f"a-r{n}", 4.0, event) | {"steady": steady} for n, event, steady in
            ((1, "e1", False), (2, "e1", True), (1, "e2", True), (1, "e3", None))]  # fmt: skip
    assert collect_numbers(runs, rows)["a"]["downtime_s"] == {
        "e1": {"values": [4.0, 4.0], "horizons": [], "unsteady": 1},
        "e2": {"values": [4.0], "horizons": [], "unsteady": 0},
        "e3": {"values": [4.0], "horizons": []},
    }  # fmt: skip


def test_of_several_topologies_each_is_a_variants_of_its_own() -> None:
    runs = [{"run_id": "a-r1", "variant": "a", "status": "complete", "order": 1}]
    rows = [
        {"run_id": "a-r1", "event_id": "e1", "metric": "m", "value": value, "censored": False, "topology": name}
        for name, value in (("star", 1.0), ("all", 3.0))
    ]  # fmt: skip
    found = collect_numbers(runs, rows, several=True)
    assert {name: of["m"]["e1"]["values"] for name, of in found.items()} == {"a:star": [1.0], "a:all": [3.0]}


def test_only_a_utility_of_a_latency_rests_on_the_tuples_that_have_one() -> None:
    runs = [run("a-r1", "a", 1)]
    rows = [row("a-r1", 30.0) | {"metric": metric, "topology": name}
            for metric in ("utility_after", "downtime_s") for name in ("star", "linear")]  # fmt: skip
    found = collect_numbers(runs, rows, several=True, latency_levels={"star"})
    marked = {(name, metric) for name, of in found.items() for metric in of if of[metric]["e1"].get("of_latency")}
    assert marked == {("a:star", "utility_after")}
    (only,) = collect_numbers(runs, rows[:1], latency_levels={""})["a"]["utility_after"].values()
    assert only["of_latency"]


@pytest.mark.parametrize("table", ["runs", "measurements", "topologies"])
def test_a_table_that_cannot_be_read_has_no_numbers_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, table: str
) -> None:
    paths = SeriesPaths(tmp_path / "stela" / "star" / "20261121-000000-a")
    small_tables.write(paths, "runs", [run("a-r1", "a", 1)])
    small_tables.write(paths, "measurements", [row("a-r1", 4.0)])
    small_tables.write(
        paths, "topologies", [{"run_id": "a-r1", "topology": "star", "position": 1, "throughput": "sinks"}]
    )
    assert numbers_of(paths.root)["a"]["downtime_s"]["e1"]["values"] == [4.0]
    cut_short(paths.root, table)
    assert numbers_of(paths.root) == {}
    assert f"stela/star/20261121-000000-a/tables/{table}.parquet cannot be read: " in caplog.text


@pytest.mark.parametrize(("head", "version"), [({"v": 2}, 2), ({"v": 1}, 1), ({}, 1)])
def test_claims_are_kept_with_the_version_of_their_ledger(
    tmp_path: Path, head: dict[str, object], version: int
) -> None:
    rows = [{"id": "S02", "experiment": "stela/star", "verdict": "reproduced", "more": 1}, {"id": "S99"}]
    (tmp_path / "claims.json").write_text(json.dumps({**head, "claims": rows}))
    assert claims_of(tmp_path, "stela/star") == [{"v": version, "id": "S02", "verdict": "reproduced"}]


TENTH = Resolution("tenth", "for a test", factor=1.1)
GAINS = {
    "undecided": [100.0, 165.0, 280.0],
    "met (indication)": [165.0, 166.0, 165.0],
    "met": [165.0, 166.0] * 3,
    "not run": [],
}


def test_what_a_ledger_says_its_night_says(tmp_path: Path) -> None:
    """On the way of every night: a ledger's rows, `claims_of`, the night's record, its history and page."""
    claims = [
        Claim(name, "", "SP fig 4a", "faster", STAR, ClaimKind.RATIO, "throughput_after", name, 65.0, "%", TENTH,
              f"even {name}") for name in GAINS
    ]  # fmt: skip
    runs = GAINS | {f"even {name}": [100.0] * len(gains) for name, gains in GAINS.items()}
    values = {(STAR, name, "throughput_after", "e1"): [RunValue(f"{name}-r{i}", one, block=("s", i))
              for i, one in enumerate(of)] for name, of in runs.items()}  # fmt: skip
    rows = [ledger_row(row) for row in judge_all(claims, SeriesConditions(values))]
    (tmp_path / "claims.json").write_text(json.dumps({"v": 2, "claims": rows}))
    record = night(0, "quick", [experiment(STAR, {}, claims=claims_of(tmp_path, STAR))])
    found = evaluate(History("quick", parsed([record])), Settings())
    assert {claim.name: claim.cells[0].words for claim in found.claims} == {name: name for name in GAINS}
    assert [row["verdict"] for row in pages.claim_table(found, 0).rows] == ["undecided", "met (indication)", "met"]
