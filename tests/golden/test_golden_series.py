import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from analysis.claims import ledger
from analysis.record.files import SeriesPaths
from analysis.record.schemas import STORED, TABLES
from tests.golden import records
from tests.golden.series import GoldenSeries

pytestmark = pytest.mark.spark
EVERY_RUN = [f"{variant}-r{n}" for variant in ("even_rebalance", "stela") for n in (1, 2, 3, 4)]
EXPECTED: Mapping[str, Mapping[str, float]] = json.loads((Path(__file__).parent / "expected.json").read_text())


@pytest.mark.parametrize("run_id", EXPECTED)
def test_measurements_are_the_known_ones(golden_series: GoldenSeries, run_id: str) -> None:
    measured = golden_series.measured(run_id)
    assert {metric: measured[metric] for metric in EXPECTED[run_id]} == pytest.approx(EXPECTED[run_id], rel=1e-6)


def test_every_window_holds_the_tuples_that_the_generator_tallied(golden_series: GoldenSeries) -> None:
    for run_id, expected in golden_series.expected.items():
        rows = golden_series.rows("throughput", f"run_id = '{run_id}' and scope = 'total' and complete")
        assert len(rows) == 28
        for row in rows:
            first = int(row["window_s"]) + records.BEFORE_S
            assert row["rate"] == sum(expected.sink_tuples[first : first + 10]) / 10


def test_lost_tuples_are_those_that_were_lost(golden_series: GoldenSeries) -> None:
    for run_id, expected in golden_series.expected.items():
        measured = golden_series.measured(run_id)
        assert (measured["lost_before"], measured["lost_after"]) == (0, expected.lost_after)


def test_damaged_lines_are_counted_per_file_and_nothing_else_is_missing(golden_series: GoldenSeries) -> None:
    damaged = {row["file"]: row for row in golden_series.rows("damaged", "damaged > 0")}
    assert sorted(file.rpartition("-")[0] for file in damaged) == ["workers/m1-6700", "workers/m2-6700"]
    assert all((row["run_id"], row["damaged"], row["lines"]) == ("stela-r1", 1, 301) for row in damaged.values())
    first = [row["first_damaged"] for file, row in damaged.items() if file.startswith("workers/m2-6700")]
    assert first[0].startswith("90 bytes with a wrong checksum, which begin: 02"), first
    assert len(golden_series.rows("worker_samples", "run_id = 'stela-r1' and machine in ('m1', 'm2')")) == 600
    assert not golden_series.rows("damaged", "missing > 0 or (missing is null and file like '%.avro')")


def test_a_run_that_never_converged_is_censored_at_its_horizon(golden_series: GoldenSeries) -> None:
    rows = golden_series.rows("convergence", "run_id = 'even_rebalance-r1' and definition = 'st'")
    assert [(row["time_s"], row["censored"], row["horizon_s"]) for row in rows] == [(None, True, 170.0)]


def test_only_workers_whose_executors_changed_restarted(golden_series: GoldenSeries) -> None:
    slots = {row["slot"]: row for row in golden_series.rows("slots", "run_id = 'stela-r1'")}
    assert [slot for slot, row in sorted(slots.items()) if row["restarts"]] == ["m3:6700", "m3:6701"]
    assert [slot for slot, row in sorted(slots.items()) if row["changed"]] == [
        "m3:6700",
        "m3:6701",
        "m5:6700",
        "m5:6701",
    ]


def test_runs_that_do_not_count_are_kept_with_the_reason(golden_series: GoldenSeries) -> None:
    runs = {row["run_id"]: row for row in golden_series.rows("runs", "status != 'complete'")}
    assert runs["stela-r4"]["failure_message"] == "the bridge fell back: no answer in 2 s"
    assert "run.json" in runs["even_rebalance-r4"]["failure_message"]
    assert runs["even_rebalance-r4"]["status"] == "incomplete"


def test_claims_get_their_verdicts(golden_series: GoldenSeries) -> None:
    rows = {row.claim.name: row for row in ledger.evaluate([golden_series.root])}
    verdicts = {name: row.verdict for name, row in rows.items() if row.claim.experiment == "stela/star"}
    assert verdicts == {
        "S02/star restarts": "reproduced",
        "S02/star schedule": "reproduced",
        "S02/star slots": "reproduced",
        "S03": "undecided",
        "S09/star SP": "differs",
        "S09/star ST": "undecided",
    }
    assert rows["S03"].measured == pytest.approx(60.266, abs=0.01)
    assert (rows["S03"].low, rows["S03"].high) == (pytest.approx(45.88, abs=0.01), pytest.approx(76.07, abs=0.01))
    assert rows["S03"].reason.endswith(
        "; about 94 blocks would decide, if runs go on like these; 1 of 4 runs of stela failed: system under test 1; in"
        " each block stela ran after even_rebalance: what drifts within a block is in the number"
    )
    assert rows["S09/star SP"].verdict_text == "differs (indication)"
    assert "even_rebalance: no median, 3 of 3 not within 170 s" in rows["S09/star ST"].reason
    assert rows["S04"].verdict == "not run"
    assert all("r4" not in run_id for row in rows.values() for run_id in row.run_ids)


def test_views_have_their_declared_columns_and_no_files(golden_series: GoldenSeries) -> None:
    from analysis.ingest import tables

    paths = SeriesPaths(golden_series.root)
    for name in TABLES.keys() - STORED:
        assert not paths.table(name).exists()
        found = tables.read(golden_series.spark, paths, name)
        assert found.dtypes == tables.empty(golden_series.spark, name).dtypes, name


def test_a_view_reads_the_columns_that_are_asked_for(golden_series: GoldenSeries) -> None:
    from analysis.ingest import tables

    found = tables.read(golden_series.spark, SeriesPaths(golden_series.root), "task_samples").select("task", "executed")
    plan = found._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    (read,) = re.findall(r"ReadSchema: (struct<.*>)", plan)
    assert read == "struct<tasks:struct<task:array<int>,executed:array<bigint>>,damaged_text:string>"


def test_tables_have_their_declared_columns(golden_series: GoldenSeries) -> None:
    from analysis.ingest import tables

    for name in STORED:
        stored = golden_series.spark.read.parquet(str(SeriesPaths(golden_series.root).table(name)))
        assert stored.dtypes == tables.empty(golden_series.spark, name).dtypes, name


def test_the_report_is_self_contained_and_says_what_matters(golden_series: GoldenSeries) -> None:
    page = SeriesPaths(golden_series.root).report.read_text()
    outside = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"|(@import|url\((?!#))', page)
    assert {target for target, _ in outside} == {f"runs/{run}/report.html" for run in EVERY_RUN}
    assert page.count("<svg") == 4
    answer = page.index("Stela&#39;s throughput after the scale-out was 60")
    assert answer < page.index("<svg") < page.index("stela-r4 (invalid) is not counted") < page.index("<h2>Claims</h2>")
    assert json.loads((golden_series.root / "report.json").read_text())["headline"].startswith(
        "In complete runs Stela's throughput after"
    )
    for words in ("the bridge fell back: no answer in 2 s", "workers/m1-6700-", "2.8.3",
                  "1048576", "0123456789ab", "stela-r4"):  # fmt: skip
        assert words in page, words
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_every_run_has_a_page_also_one_that_left_nothing(golden_series: GoldenSeries) -> None:
    pages = {run: SeriesPaths(golden_series.root).run(run).root / "report.html" for run in EVERY_RUN}
    assert all(page.is_file() for page in pages.values())
    assert "the bridge fell back: no answer in 2 s" in pages["stela-r4"].read_text()
    whole = pages["stela-r1"].read_text()
    for words in ("sink_1, sink_2", "<b>centre × 2</b>", ".avro could not be read"):
        assert words in whole, words


def test_windows_of_cpu_are_what_the_generator_gave_each_machine(golden_series: GoldenSeries) -> None:
    rows = golden_series.rows("cpu_windows", "run_id = 'stela-r1' and machine = 'm3'")
    assert {round(row["utilisation_mean"], 4) for row in rows if row["window_s"] < -10} == {0.03}
    assert {round(row["utilisation_mean"], 4) for row in rows if 10 <= row["window_s"] < 170} == {0.3}
    assert {row["runnable_mean"] for row in rows if row["window_s"] < -10} == {0.5}
    assert {row["runnable_mean"] for row in rows if 10 <= row["window_s"] < 170} == {2.0}
    joined = golden_series.rows("cpu_windows", "run_id = 'stela-r1' and machine = 'm5'")
    assert min(row["window_s"] for row in joined) == 0


def test_settled_placement_is_that_of_before_and_after(golden_series: GoldenSeries) -> None:
    rows = golden_series.rows("settled", "run_id = 'stela-r1' and component = 'centre'")
    slots = {(row["phase"], row["task"]): row["slot"] for row in rows}
    assert slots == {
        ("before", 5): "m3:6700", ("before", 6): "m3:6700", ("before", 7): "m3:6701", ("before", 8): "m3:6701",
        ("after", 5): "m3:6700", ("after", 6): "m5:6700", ("after", 7): "m3:6701", ("after", 8): "m5:6701",
    }  # fmt: skip


# Shorter: test_interim_analysis.py builds the same runs anew and elsewhere; a bundle does it in another process.
@pytest.mark.long
def test_building_twice_gives_the_same_measurements(golden_series: GoldenSeries) -> None:
    from analysis.metrics import build

    before = sorted(map(repr, golden_series.rows("measurements")))
    build.build_metrics(golden_series.spark, golden_series.root)
    assert sorted(map(repr, golden_series.rows("measurements"))) == before
