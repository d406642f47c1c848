"""Calibrate the simulator's costs on real series, judge them on others, and write a folder with the result.

`barograph.cli.calibrate` is its command. The sums and the fit are `analysis.calibration`'s; this module finds, reads
and simulates series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import provenance
from analysis.calibration.fit import as_costs
from analysis.calibration.judgement import SeriesErrors, complete, judge
from analysis.calibration.linear import CostEstimate
from analysis.calibration.validation import SeriesName, Validation, validation_of, write, write_costs
from analysis.calibration.validity import Validity, validity_of_run
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from barograph.errors import ExperimentError, Say
from barograph.plan.simulation import simulated_topology
from barograph.run.storm_cluster import render_topology
from barograph.series.results import one_session, results_of
from barograph.series.series import Series, read_series, series_document
from barograph.simulated_series import simulate
from barograph.testbeds.checks import place_of
from scheduler_plugins.simulator.work import SimulatedTopology, SimulationError
from topologies.errors import TopologyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.calibration.sums import RunSums

NEEDED = ("worker_lines", "machine_samples", "placements", "measurements")  # tables of a series
SIMULATED = "simulated"  # the folder with the simulated series


@dataclass(frozen=True)
class Calibration:
    validation: Validation
    judgements: tuple[SeriesErrors, ...]
    folder: Path


def require_usable(folders: Sequence[Path], judged: Sequence[Path]) -> None:
    """Raise ExperimentError for series without real machines, series that were not analysed, or series to be judged on
    that were analysed by other code than simulated runs are now."""
    fitted_ids, judged_ids = (
        [str(series_document(each).get("series_id") or each.name) for each in of] for of in (folders, judged)
    )
    for names in (fitted_ids, judged_ids):
        if repeated_names := sorted({name for name in names if names.count(name) > 1}):
            raise ExperimentError(
                f"{', '.join(repeated_names)} is given twice, from two folders; give each series once"
            )
    if common_ids := sorted(set(fitted_ids) & set(judged_ids)):
        raise ExperimentError(
            f"{', '.join(common_ids)} is given to fit to and to judge on; costs are judged on series that they were not"
            " fitted to: leave it out of one"
        )
    for folder in (*folders, *judged):
        testbed = read_series(folder).experiment.testbed
        if place_of(testbed) == "memory":
            raise ExperimentError(
                f"{folder} was not measured: its testbed is {testbed.name}; give series of real machines, of local,"
                " ec2, emulab or existing"
            )
        tables = results_of(folder).tables(folder)
        if missing := [name for name in NEEDED if tables is None or not tables.has(name)]:
            raise ExperimentError(
                f"{folder} has no table {', '.join(missing)}: it was not analysed, or by an older version; run"
                f" `barograph report {folder}`, then again"
            )
        if not complete(small_tables.rows(SeriesPaths(folder), "runs")):
            raise ExperimentError(f"{folder} has no complete run; resume it, or give another series")
    code = provenance.code_digest() if judged else ""
    for folder in judged:  # otherwise a difference might come from a metric's rules and not from the model
        if provenance.digest_of_series(folder) != code:
            raise ExperimentError(
                f"{folder} was analysed by other code than the work tree's, which analyses the simulated runs that"
                f" stand beside it; run `barograph report {folder}`, then again"
            )


spark_for = partial(one_session, simulates=True)


def works_of(series: Series) -> dict[tuple[str, str], SimulatedTopology]:
    """Return by run and topology how its components process a tuple. ExperimentError if that is known of none."""
    works: dict[tuple[str, str], SimulatedTopology] = {}
    why = ""
    for run in series.plan():
        for topology in series.experiment.topologies_of(run.variant):
            try:
                works[run.run_id, topology.name] = simulated_topology(render_topology(topology, run.seed), "any")[1]
            except (SimulationError, TopologyError) as error:
                why = str(error)
    if not works:
        raise ExperimentError(f"{series.folder}: nothing says what its components do to a tuple: {why}")
    return works


def sums_of(spark: SparkSession, folder: Path) -> list[RunSums]:
    """Return the sums of the series' runs. ExperimentError if no worker started in it, as in other people's logs."""
    from analysis.calibration.sums import collect

    series = read_series(folder)
    tables = results_of(folder).tables(folder)
    assert tables is not None, "_require_tables has looked"
    small = partial(small_tables.rows, SeriesPaths(folder))
    sums = collect(
        spark, lambda name: spark.read.parquet(tables.table(name)), small, works_of(series), series.experiment.name
    )
    if not any(run.starts for run in sums):
        raise ExperimentError(
            f"{folder}: no worker started in it by a submission or a rebalance; give a series that Barograph has run"
        )
    return sums


def judge_on(
    spark: SparkSession, folder: Path, costs: Mapping[str, float], into: Path, say: Say, seeds: int = 1
) -> SeriesErrors:
    """Simulate every complete run of the series with so many seeds, and compare the same metrics."""
    from analysis.ingest import tables
    from analysis.metrics import build

    real = SeriesPaths(folder)
    runs = [row["run_id"] for row in complete(small_tables.rows(real, "runs"))]
    simulated = simulate(folder, costs, into, runs, say, seeds)
    paths = SeriesPaths(simulated.folder)
    if any(paths.runs.glob("*/run.json")):
        say(f"analysing {simulated.folder}")
        tables.build_tables(spark, paths)
        build.build_metrics(spark, paths)
    return judge(real, paths, simulated.missing, simulated.failed_seeds, seeds)


def calibrate(
    spark: SparkSession, estimates: Sequence[CostEstimate], fitted: Sequence[Path], judged: Sequence[Path],
    folder: Path,
    today: date, say: Say, seeds: int = 1,
) -> Calibration:  # fmt: skip
    """Judge these costs and write everything into `folder`; the costs at once, for judging them may take hours."""
    from analysis.report import calibration_page

    costs = as_costs(estimates)
    names, judgements, validity = [], list[SeriesErrors](), Validity()
    for each in fitted:
        runs = complete(small_tables.rows(SeriesPaths(each), "runs"))
        names.append(SeriesName(read_series(each).experiment.name, each.name, len(runs)))
    write_costs(folder, validation_of(today.isoformat(), estimates, names, judgements, Validity()))
    for real in judged:
        say(f"{folder}: has the costs; judging them on {real.name}")
        into = folder / SIMULATED / read_series(real).experiment.name / real.name
        judgements.append(judge_on(spark, real, costs, into, say, seeds))
        if any(into.glob("runs/*/run.json")):
            validity += sum(map(validity_of_run, complete(small_tables.rows(SeriesPaths(into), "runs"))), Validity())
    validation = validation_of(today.isoformat(), estimates, names, judgements, validity)
    write(folder, validation)
    calibration_page.write(folder / calibration_page.PAGE, validation, judgements)
    return Calibration(validation, tuple(judgements), folder)
