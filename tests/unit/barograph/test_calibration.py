"""The fit finds the costs that the simulator itself was given, and what other costs do is seen beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.calibration.fit import fit_costs
from analysis.calibration.judgement import SeriesErrors
from analysis.calibration.linear import CostEstimate
from analysis.calibration.sums import RunSums, collect
from analysis.calibration.validation import COSTS_FILE, ERRORS_FILE, Validation
from analysis.ingest import tables
from analysis.metrics import build
from analysis.record import small_tables
from analysis.record.event_timeline import FIRST_EVENT, event_times
from analysis.record.files import SeriesPaths, json_lines, read_json, write_json_atomic
from barograph import calibration
from barograph.plan.experiment import Durations, Experiment, load
from barograph.plan.topologies import TopologyChoice
from barograph.series.series import read_series
from barograph.simulated_series import as_simulated, simulate
from scheduler_plugins.simulator.work import Costs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Threads that wake up late on machines short of CPU scatter as well; what noise is beside that, nothing tells.
GIVEN = Costs(
    receive_ms=0.2, local_emit_ms=0.1, remote_emit_ms=0.15, hop_ms=2.0, remote_hop_ms=5.0, start_cpu_s=0.5,
    start_wait_s=6.0, stop_s=2.0, supervisor_cpu_s=1.2, idle_cores=0.015, machine_idle_cores=0.03,
    sleep_slack_ms=0.4, warm_up_cores=0.03, noise=0.04, poll_ms=0.06,
    quota_period_ms=0.0, slice_ms=0.0,
)  # fmt: skip
SHORT = Durations(warm_up_floor_s=60, warm_up_ceiling_s=60, after_floor_s=80, horizon_s=80)
# Two executors more leave the centre saturated; with the three of the printed loop nothing is after the event.
TWO_SLOTS = tuple(
    replace(each, parameters={**each.parameters, "slots": "per_machine_floor"}) if each.policy == "stela" else each
    for each in load("stela/star").variants
)
STAR = replace(load("stela/star"), repetitions=1, durations=SHORT, variants=TWO_SLOTS)
# Far below what the centre can do: nothing waits, so that latencies say how long the way takes.
CALM = replace(STAR, topology=TopologyChoice("star", {"rate_per_s": 40.0}))


def real_series(folder: Path, experiment: Experiment) -> Path:
    """As a series on emulated machines would be opened; its runs are the simulator's."""
    write_json_atomic(
        folder / "series.json",
        {
            "v": 1,
            "series_id": folder.name,
            "experiment": experiment.name,
            "spec": experiment.as_data(),
            "opened_s": 1.0,
        },
    )
    return folder


@dataclass(frozen=True)
class World:
    """`measured`: series that look like real ones, by name; `sums` of their runs."""

    measured: dict[str, Path]
    sums: list[RunSums]
    spark: SparkSession
    folder: Path


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("calibration")
    measured, sums = {}, []
    for name, experiment in (("saturated", STAR), ("calm", CALM)):
        source = real_series(folder / "source" / "stela" / "star" / name, experiment)
        runs = [run.run_id for run in read_series(source).plan()]
        into = folder / "measured" / "stela" / "star" / name
        found = simulate(source, asdict(GIVEN), into, runs, lambda _: None)
        assert found.missing == {}
        real_series(into, experiment)
        paths = SeriesPaths(into)
        tables.build_tables(spark, paths)
        build.build_metrics(spark, paths)
        measured[name] = into
        stored = partial(_table, spark, paths)
        works = calibration.works_of(read_series(into))
        sums += collect(spark, stored, partial(small_tables.rows, paths), works, name)
    return World(measured, sums, spark, folder)


def _table(spark: SparkSession, paths: SeriesPaths, name: str) -> Any:
    return spark.read.parquet(str(paths.table(name)))


@pytest.fixture(scope="module")
def estimates(world: World) -> dict[str, CostEstimate]:
    return {each.name: each for each in fit_costs(world.sums)}


# Times are of lines of a second; noise is a sample's, and so is what sleeps of 8 ms that scatter take on average.
WITHIN = {
    "receive_ms": 0.02, "local_emit_ms": 0.02, "remote_emit_ms": 0.03, "idle_cores": 0.03, "machine_idle_cores": 0.03,
    "start_cpu_s": 0.03, "start_wait_s": 0.15, "stop_s": 0.35, "supervisor_cpu_s": 0.05,
    "sleep_slack_ms": 0.15, "warm_up_cores": 0.1, "remote_hop_ms": 0.1, "noise": 0.2, "poll_ms": 0.03,
}  # fmt: skip


@pytest.mark.parametrize("name", WITHIN)
def test_the_fit_finds_the_costs_that_were_given(name: str, estimates: dict[str, CostEstimate]) -> None:
    found = estimates[name]
    assert found.value == pytest.approx(getattr(GIVEN, name), rel=WITHIN[name]), found
    assert found.runs >= 2 and found.value != found.default


def test_what_one_topology_cannot_tell_apart_keeps_its_default(estimates: dict[str, CostEstimate]) -> None:
    assert estimates["remote_kb_ms"].value is None and "cannot be told from" in estimates["remote_kb_ms"].why
    assert estimates["frame_bytes"].value is None and estimates["frame_bytes"].why
    assert estimates["fetch_s"].value is None, "whoever starts where the code is has to wait for another to end"


def judged(world: World, name: str, costs: Costs, seeds: int = 1) -> tuple[SeriesErrors, Path]:
    given = [CostEstimate(key, value, value, None, None, 1) for key, value in asdict(costs).items()]
    folder, real = world.folder / name, world.measured["saturated"]
    found = calibration.calibrate(
        world.spark, given, [world.measured["calm"]], [real], folder, date(2026, 11, 24), lambda _: None, seeds
    )
    return found.judgements[0], folder


# Shorter: the fit above; tests/unit/barograph/cli/test_calibrate.py and tests/unit/analysis/calibration/.
@pytest.mark.long
def test_a_series_simulated_with_its_own_costs_is_the_same(world: World) -> None:
    judgement, folder = judged(world, "same", GIVEN)
    errors = {(cell.variant, cell.metric): cell.error for cell in judgement.cells if cell.error is not None}
    assert len(errors) > 15 and all(error == pytest.approx(0.0, abs=1e-6) for error in errors.values()), errors
    assert [ranking.tau for ranking in judgement.rankings] == [1.0]
    assert all((folder / name).is_file() for name in (COSTS_FILE, ERRORS_FILE, "report.html"))
    validity = Validation.of_document(read_json(folder / ERRORS_FILE), folder).validity
    assert validity.topologies == ("star",) and validity.machines == (4.0, 5.0) and "step_s 1" in validity.periods
    real = SeriesPaths(world.measured["saturated"]).run("stela-r1")
    (end_s,) = (
        line["t"] for line in json_lines(real.events) if (line["kind"], line.get("phase")) == ("steady", "after")
    )
    watched_s = end_s - event_times(real)[FIRST_EVENT]
    assert validity.watches_s is not None and validity.watches_s[0] <= watched_s <= validity.watches_s[1]


# Shorter: the test before it, and tests/unit/analysis/calibration/test_judgement.py.
@pytest.mark.long
def test_other_costs_are_seen_beside_the_real_ones(world: World) -> None:
    """Three times the start, a tenth of the tuples' CPU."""
    other = replace(GIVEN, start_cpu_s=1.5, stop_s=6.0, receive_ms=0.02, local_emit_ms=0.01, remote_emit_ms=0.015)
    judgement, folder = judged(world, "other", other, seeds=3)
    assert {cell.simulated.runs for cell in judgement.cells if cell.metric == "throughput_after"} == {3}
    assert any(cell.simulated.low != cell.simulated.high for cell in judgement.cells), "chance is another's"
    errors = {(cell.variant, cell.metric): cell.error for cell in judgement.cells}
    running, cpu = errors["stela", "request_to_running_s"], errors["stela", "cpu_percent_after"]
    assert running is not None and running >= 3.0
    assert cpu is not None and cpu < -2.0
    page = (folder / "report.html").read_text()
    assert "Simulated beside real" in page and "request to last executor running" in page


def test_whole_machines_are_simulated_as_whole_ones() -> None:
    for testbed, scale in (("ec2", 1.0), ("local", 0.3)):
        assert as_simulated(replace(STAR, testbed=replace(STAR.testbed, name=testbed)), {}).testbed.scale == scale
