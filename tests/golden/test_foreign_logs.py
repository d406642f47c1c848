"""Other people's logs end in the same tables, metrics and report as our own runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from analysis.ingest import readers, tables
from analysis.ingest.run_tables import component_rows
from analysis.record.files import SeriesPaths
from analysis.report import series_page
from barograph.errors import ConfigurationError
from tests.golden import foreign_logs, one_pass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark
GENUINE = Path(__file__).parent / "foreign" / "worker.log.metrics"  # Storm 2.8.3's own, 200 tuples/s, every 5 s
STELA = f"stela-star-1-{foreign_logs.START + 2000}"


def rows(spark: "SparkSession", root: Path, table: str, where: str = "true") -> list[dict[str, Any]]:
    return [row.asDict() for row in tables.read(spark, SeriesPaths(root), table).where(where).collect()]


def totals(spark: "SparkSession", root: Path, run_id: str) -> dict[float, float]:
    found = rows(spark, root, "throughput", f"scope = 'total' and complete and run_id = '{run_id}'")
    return {row["window_s"]: row["rate"] for row in found}


def measured(spark: "SparkSession", root: Path, run_id: str) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in rows(spark, root, "measurements", f"run_id = '{run_id}'")}


def log_of(path: Path, lines: Iterator[str], options: str) -> Path:
    """A log with what it does not say beside it."""
    log = foreign_logs.write(path, lines)
    log.with_name(f"{log.name}.yaml").write_text(options)
    return log


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> dict[str, Path]:
    """Both series below."""
    folder = tmp_path_factory.mktemp("foreign")
    roots = {"stela": series_of_stela(folder / "stela", spark), "storm": series_of_storm(folder / "storm", spark)}
    one_pass.analyse(spark, folder / "together", roots)
    for root in roots.values():
        series_page.build_report(root)
    return roots


@pytest.fixture(scope="module")
def stela(analysed: dict[str, Path]) -> Path:
    return analysed["stela"]


@pytest.fixture(scope="module")
def storm(analysed: dict[str, Path]) -> Path:
    return analysed["storm"]


def series_of_stela(folder: Path, spark: "SparkSession") -> Path:
    """Two schedulers in one file, and two lines that are none; one in another, with rates summed over the sinks."""
    lines = list(foreign_logs.stela_lines())
    lines[40:40] = ["310:stela:sink_outp\n", "\n", "\x00\x00\n"]
    means = "scaled_at_s: 300\nvariants: {defaultscheduler: even_rebalance}\n"
    sums = "scaled_at_s: {rates: 300}\nvalue: tuples_per_s\nsinks: sum\n"
    logs = [
        log_of(folder / "output_bolt", iter(lines), means),
        log_of(folder / "rates", foreign_logs.stela_lines(("rates",)), sums),
    ]
    return readers.read("stela_statistics", logs, folder / "results", name="stela/star", spark=spark)


def series_of_storm(folder: Path, spark: "SparkSession") -> Path:
    """Three topologies: Storm's own log, one of before 2.3 in two files, and one of today whose sink moves."""
    old, artifacts = list(foreign_logs.old_storm_lines()), folder / "workers-artifacts" / "star-1-1763699990"
    logs = [
        log_of(folder / "genuine.log", iter(GENUINE.read_text().splitlines(keepends=True)),
               "scaled_at: 1795262710.0\ntopology: test\n"),
        *(log_of(artifacts / port / "worker.log.metrics", (line for line in old if f":{port}\t" in line),
                 "scaled_at: 2025-11-21T04:45:00Z\nvariant: stela\n") for port in ("6700", "6701")),
        log_of(folder / "moved.log", foreign_logs.new_storm_lines(),
               f"scaled_at: {foreign_logs.START + foreign_logs.SCALED}\n"),
    ]  # fmt: skip
    return readers.read("storm_metrics", logs, folder / "results", name="old/star", spark=spark)


def test_every_scheduler_of_a_stela_file_becomes_a_run(spark: "SparkSession", stela: Path) -> None:
    runs = rows(spark, stela, "runs")
    assert sorted((run["variant"], run["topology"], run["status"], run["repetition"]) for run in runs) == [
        ("even_rebalance", "star", "complete", 1),
        ("rates", "star", "complete", 1),
        ("stela", "star", "complete", 1),
    ]


def test_stela_values_are_means_over_sinks_of_ten_seconds(spark: "SparkSession", stela: Path) -> None:
    """500 +- 10 tuples a sink and line, two sinks: 100 tuples/s; 160 afterwards."""
    found = measured(spark, stela, STELA)
    assert found["throughput_before"] == pytest.approx(100, rel=0.01)
    assert found["throughput_after"] == pytest.approx(160, rel=0.01)
    assert found["downtime_s"] == 30
    assert {"convergence_sp_s", "convergence_st_s", "convergence_script_s"} <= set(found)


def test_what_a_log_does_not_say_is_not_measured(spark: "SparkSession", stela: Path) -> None:
    told = ("throughput_", "gain_", "convergence_", "downtime_", "longest_", "windows_at_zero_")
    assert [name for name in measured(spark, stela, STELA) if not name.startswith(told)] == []
    for event in rows(spark, stela, "scale_events"):
        assert {event[name] for name in ("machines_before", "joined", "released", "given_back", "attempts")} == {None}


def test_values_may_be_rates_and_sums(spark: "SparkSession", stela: Path) -> None:
    rates = totals(spark, stela, f"rates-star-1-{foreign_logs.START + 2000}")
    assert rates[-20.0] == pytest.approx(500, abs=10)


def test_damaged_lines_are_counted_and_shown(spark: "SparkSession", stela: Path) -> None:
    damaged = rows(spark, stela, "damaged", "damaged > 0")
    assert [(row["file"], row["lines"], row["damaged"]) for row in damaged] == [
        ("workers/damaged-output_bolt.jsonl", 2, 2)
    ]
    assert "310:stela:sink_outp" in SeriesPaths(stela).report.read_text()


def test_the_report_of_a_read_series_has_claims_figures_and_no_invented_numbers(stela: Path) -> None:
    page = SeriesPaths(stela).report.read_text()
    assert 'id="figure-throughput"' in page
    assert 'id="figure-convergence"' in page
    assert 'id="figure-cpu"' not in page
    assert "offered at spouts" not in page
    assert "0 machines" not in page
    assert re.search(r"S03</td>\s*<td><span [^>]*>1 run: no interval", page)
    assert "stela_statistics" in page


def test_genuine_storm_log_gives_the_rate_that_was_offered(spark: "SparkSession", storm: Path) -> None:
    assert totals(spark, storm, "genuine") == {-10.0: pytest.approx(200, abs=0.5), 0.0: pytest.approx(200, abs=0.5)}
    assert measured(spark, storm, "genuine")["downtime_s"] == 0
    sinks = {row["component"] for row in rows(spark, storm, "components", "run_id = 'genuine' and sink")}
    spouts = {row["component"] for row in rows(spark, storm, "components", "run_id = 'genuine' and kind = 'spout'")}
    assert (sinks, spouts) == ({"sink"}, {"spout"})


def test_maps_of_an_old_storm_are_spread_over_their_minute(spark: "SparkSession", storm: Path) -> None:
    """Two files of one topology are one run; Storm's own streams are not counted; no tuple is made or lost."""
    run = "star-1-1763699990"
    assert sorted(row["run_id"] for row in rows(spark, storm, "runs")) == ["genuine", "moved", run]
    rates = totals(spark, storm, run)
    assert {rate for start, rate in rates.items() if start < 0} == {100.0}
    assert {rate for start, rate in rates.items() if start >= 0} == {160.0}
    samples = rows(spark, storm, "task_samples", f"run_id = '{run}'")
    assert sum(row["executed"] for row in samples if row["component"] == "sink") == 300 * 100 + 600 * 160
    assert all(row["queue"] is None for row in samples)


def test_cumulative_counts_survive_a_move(spark: "SparkSession", storm: Path) -> None:
    rates = totals(spark, storm, "moved")
    assert (rates[-10.0], rates[0.0], rates[10.0], rates[20.0], rates[500.0]) == (100, 0, 0, 160, 160)
    assert measured(spark, storm, "moved")["downtime_s"] == 20


def refused(spark: "SparkSession", tmp_path: Path, format: str, lines: Iterator[str], **given: object) -> str:
    log = foreign_logs.write(tmp_path / "bad.log", lines)
    with pytest.raises(ConfigurationError) as caught:
        readers.read(format, [log], tmp_path / "results", name="old/bad", spark=spark, options=given)
    assert not list((tmp_path / "results").glob("*/*/*")), "a refused log leaves nothing behind"
    return str(caught.value)


def test_mostly_damaged_file_is_refused_with_its_first_bad_line(spark: "SparkSession", tmp_path: Path) -> None:
    good = list(foreign_logs.stela_lines(("stela",)))[:5]
    message = refused(spark, tmp_path, "stela_statistics", iter([*good, *["no line of ours\n"] * 6]))
    assert "bad.log: line 6 is 'no line of ours'" in message
    assert "6 of 11 lines" in message


def test_a_second_that_stands_there_twice_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    lines = [*foreign_logs.stela_lines(("stela",)), *foreign_logs.stela_lines(("stela",))]
    assert "2 times" in refused(spark, tmp_path, "stela_statistics", iter(lines))


def test_an_event_outside_of_the_log_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    message = refused(spark, tmp_path, "stela_statistics", foreign_logs.stela_lines(), scaled_at_s=5000)
    assert "the log goes from" in message
    message = refused(spark, tmp_path, "stela_statistics", foreign_logs.stela_lines(), scaled_at_s={"stella": 300})
    assert "'stella'; in the logs are defaultscheduler, stela" in message


def only_run(spark: "SparkSession", folder: Path, *logs: Path, **given: object) -> tuple[dict[str, int], str]:
    """The tuples that each component executed, and the line about the run."""
    lines: list[str] = []
    root = readers.read(
        "storm_metrics", logs, folder / "results", name="old/x", spark=spark, options=given, say=lines.append
    )
    (run,), executed = SeriesPaths(root).all_runs(), dict[str, int]()
    for file in sorted(run.workers.glob("*.jsonl")):
        for record in map(json.loads, file.read_text().splitlines()):
            for name, count in zip(record["tasks"]["component"], record["tasks"]["executed"], strict=True):
                executed[name] = executed.get(name, 0) + (count or 0)
    return executed, lines[0]


SINK_TUPLES = 300 * 100 + 600 * 160


def test_a_line_says_what_was_taken_for_spouts_and_sinks(spark: "SparkSession", tmp_path: Path) -> None:
    log = foreign_logs.write(tmp_path / "old.log", foreign_logs.old_storm_lines())
    executed, line = only_run(spark, tmp_path, log)
    assert executed["sink"] == SINK_TUPLES
    assert line == (
        "run old: a report every 60 s; spouts: spout (252,000 emitted); sinks: sink (126,000 executed, 50.00% of that);"
        " throughput at the sinks"
    )


def test_a_log_has_its_throughput_where_one_says(spark: "SparkSession", tmp_path: Path) -> None:
    """Spouts emit twice what comes to the sink. A log without their counts has no throughput there."""
    log = foreign_logs.write(tmp_path / "old.log", foreign_logs.old_storm_lines())
    assert only_run(spark, tmp_path, log, throughput="spouts")[1].endswith("; throughput at the spouts")
    (run,) = (tmp_path / "results").glob("old/x/*/runs/*/run.json")
    document = json.loads(run.read_text())
    rows = {row["component"]: row["throughput"] for row in component_rows(document)}
    assert rows == {"spout": True, "bolt": False, "sink": False} and document["topology"]["throughput"] == "spouts"
    message = refused(spark, tmp_path / "a", "storm_metrics", foreign_logs.old_storm_lines(), throughput="sinc")
    assert "throughput is 'sinc'; allowed: sinks, spouts, bolt, sink, spout" in message
    lines = (line for line in foreign_logs.old_storm_lines() if "__emit-count" not in line)
    message = refused(spark, tmp_path / "b", "storm_metrics", lines, throughput="spouts", sinks=["sink"])
    assert "throughput is 'spouts', but the log does not count what spouts emit; allowed: sinks, bolt, sink" in message


def test_a_consumer_registered_twice_counts_once(spark: "SparkSession", tmp_path: Path) -> None:
    """In one file, or in two; names that are cut are equal within a report, and stay apart."""
    twice = [line for line in foreign_logs.old_storm_lines() for _ in range(2)]
    executed, line = only_run(spark, tmp_path / "a", foreign_logs.write(tmp_path / "a" / "old.log", iter(twice)))
    assert executed["sink"] == SINK_TUPLES
    assert line.endswith("; 90 of 90 reports are in the files several times; each counts once")
    logs = [foreign_logs.write(tmp_path / "b" / name, foreign_logs.old_storm_lines()) for name in ("old.1", "old.2")]
    assert only_run(spark, tmp_path / "b", *logs)[0]["sink"] == SINK_TUPLES
    cut = [line for line in foreign_logs.new_storm_lines() for _ in range(1 + ("count-bolt:de" in line))]
    executed, line = only_run(spark, tmp_path / "c", foreign_logs.write(tmp_path / "c" / "cut.log", iter(cut)))
    assert executed["sink"] == 2 * (290 * 100 + 580 * 160) and "several times" not in line


def test_two_reports_in_one_second_are_of_two_intervals(spark: "SparkSession", tmp_path: Path) -> None:
    late = [line.replace(str(foreign_logs.START + 300), str(foreign_logs.START + 360))
            for line in foreign_logs.old_storm_lines(workers=1)]  # fmt: skip
    executed, line = only_run(spark, tmp_path / "old", foreign_logs.write(tmp_path / "old" / "a", iter(late)))
    assert executed["sink"] == SINK_TUPLES and "every 60 s" in line
    cumulative = [line.replace(str(foreign_logs.START + 120), str(foreign_logs.START + 130))
                  for line in foreign_logs.new_storm_lines()]  # fmt: skip
    log = foreign_logs.write(tmp_path / "new" / "a", iter(cumulative))
    assert only_run(spark, tmp_path / "new", log)[0]["sink"] == 290 * 100 + 580 * 160


def test_the_shorter_of_two_equally_common_intervals_is_the_logs(spark: "SparkSession", tmp_path: Path) -> None:
    times = [f"{foreign_logs.START + second}\t" for second in (60, 120, 240)]
    lines = [line for line in foreign_logs.old_storm_lines(workers=1) if any(time in line for time in times)]
    assert "a report every 60 s" in only_run(spark, tmp_path, foreign_logs.write(tmp_path / "a", iter(lines)))[1]


@pytest.mark.parametrize("name", ["a+b", "a b%20c", "[x]{y}*?", "_a:b", ".é"])
def test_every_name_of_a_file_works(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    log = foreign_logs.write(tmp_path / name, foreign_logs.old_storm_lines())
    assert only_run(spark, tmp_path, log, run="r")[0]["sink"] == SINK_TUPLES


def test_lines_of_two_topologies_in_one_file_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    one = list(foreign_logs.old_storm_lines(workers=1))
    alike = [line.replace(":6700\t", ":6703\t") for line in one]
    message = refused(spark, tmp_path, "storm_metrics", iter([*one, *alike]))
    assert ": these are lines of two topologies" in message
    other = [line.replace("1:spout", "1:other") for line in alike]
    assert "as other on" in refused(spark, tmp_path, "storm_metrics", iter([*one, *other]))


def test_reports_that_other_files_have_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    draw = Random(7)
    dealt = (line for line in foreign_logs.old_storm_lines(interval=10) if draw.random() < 0.5)
    message = refused(spark, tmp_path, "storm_metrics", dealt)
    assert "a task reports every 10 s, and" in message and "give them all" in message
    without = (line for line in foreign_logs.old_storm_lines(workers=3) if " 22:" not in line)
    message = refused(spark, tmp_path, "storm_metrics", without)
    assert "sink has the tasks 21 to 23, and no report is there of 22; a consumer of several tasks" in message


def test_equal_names_in_two_folders_need_a_run(spark: "SparkSession", tmp_path: Path) -> None:
    logs = [foreign_logs.write(tmp_path / name / "worker.log.metrics", foreign_logs.old_storm_lines()) for name in "ab"]
    with pytest.raises(ConfigurationError, match=r"have one name.* write `run: NAME` in worker\.log\.metrics\.yaml"):
        readers.read("storm_metrics", logs, tmp_path / "results", name="old/x", spark=spark)


def test_a_log_without_sinks_or_counts_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    spouts = (line for line in foreign_logs.old_storm_lines() if ":spout" in line)
    assert "name them in `sinks`, of spout" in refused(spark, tmp_path, "storm_metrics", spouts)
    system = (line for line in foreign_logs.old_storm_lines() if "__system" in line)
    assert "topology.enable.v2.metrics.tick" in refused(spark, tmp_path, "storm_metrics", system)
    message = refused(spark, tmp_path, "storm_metrics", foreign_logs.old_storm_lines(), sinks=["snik"])
    assert "'snik'; in the log are bolt, sink, spout" in message
