"""Tables -> metrics. Each step is read -> transforms -> write; the transforms live beside, one file a metric."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from analysis import latency, load, losses, measurements, placement, stability, tables, throughput
from analysis.record import SeriesPaths


@dataclass(frozen=True)
class Tables:
    """Reads tables of one series and writes metrics beside them."""

    spark: SparkSession
    paths: SeriesPaths

    def read(self, name: str) -> DataFrame:
        return tables.read(self.spark, self.paths, name)

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Store a metric and go on from what was stored, so that nothing is computed twice."""
        tables.write(frame, self.paths, name)
        return self.read(name)


def build(spark: SparkSession, series_dir: Path | str) -> None:
    """Write every metric of a series, for all of its runs, whatever their status."""
    at = Tables(spark, SeriesPaths(Path(series_dir)))
    zeros = at.write(
        "zeros",
        throughput.zeros(at.read("runs"), at.read("events"), at.read("worker_samples"), at.read("machine_samples")),
    )
    windows = at.write("throughput", _throughput(at, zeros))
    build_stability(at, windows, zeros)
    components = at.read("components")
    at.write("downtime", throughput.downtime(at.read("task_samples"), components, zeros))
    at.write(
        "losses",
        losses.losses(at.read("stream_samples"), at.read("source_samples"), at.read("task_samples"), components,
                      at.read("edges"), zeros),
    )  # fmt: skip
    at.write("latency", latency.latency(at.read("sink_samples"), zeros))
    build_load(at, zeros)
    build_placement(at, zeros)
    at.write("measurements", measurements.measurements(at.read))


def _throughput(at: Tables, zeros: DataFrame) -> DataFrame:
    components = at.read("components")
    counted = throughput.counts(at.read("task_samples"), at.read("spout_samples"), components, zeros)
    seen = throughput.observed(at.read("worker_samples"), at.read("machine_samples"), zeros)
    return throughput.throughput(counted, throughput.scopes(components, zeros), throughput.grid(zeros), seen)


def build_stability(at: Tables, windows: DataFrame, zeros: DataFrame) -> None:
    """The steady parts and the convergence times; one short series a run is collected."""
    series = stability.parts(windows)
    intervals = stability.interval_rows(series, stability.live_verdicts(at.read("events")))
    scaled = {row.run_id for row in zeros.where("scaled").select("run_id").collect()}
    tables.write_rows(at.spark, at.paths, "intervals", intervals)
    tables.write_rows(at.spark, at.paths, "convergence", stability.convergence_rows(series, intervals, scaled))


def build_load(at: Tables, zeros: DataFrame) -> None:
    intervals = at.read("intervals")
    at.write("cpu", load.cpu(at.read("machine_samples"), at.read("machines"), intervals, zeros))
    at.write("network", load.network(at.read("network_samples"), intervals, zeros))


def build_placement(at: Tables, zeros: DataFrame) -> None:
    settled = placement.settled(at.read("placements"), zeros)
    restarts = placement.restarts(at.read("worker_samples"), zeros)
    at.write("slots", placement.slots(settled, restarts, at.read("machines")))
    at.write("moves", placement.moves(settled, at.read("machines")))
