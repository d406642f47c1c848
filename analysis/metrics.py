"""Tables -> metrics. Each step is read -> transforms -> write; the transforms live beside, one file a metric."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from analysis import (
    latency,
    load,
    losses,
    measurements,
    placement,
    running,
    scale_events,
    stability,
    tables,
    throughput,
)
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
    spans = build_scale_events(at, zeros)
    at.write("throughput", _throughput(at, scale_events.axis(zeros)).drop("event_id"))
    build_stability(at, at.write("event_throughput", _throughput(at, spans)), spans)
    components = at.read("components")
    at.write("downtime", throughput.downtime(at.read("task_samples"), components, spans))
    at.write(
        "losses",
        losses.losses(at.read("stream_samples"), at.read("source_samples"), at.read("task_samples"), components,
                      at.read("edges"), spans),
    )  # fmt: skip
    at.write("latency", latency.latency(at.read("sink_samples"), spans))
    build_load(at, spans)
    build_placement(at, spans)
    at.write("loading", running.loading(at.read("events"), at.read("task_samples"), components))
    at.write("measurements", measurements.measurements(at.read))


def build_scale_events(at: Tables, zeros: DataFrame) -> DataFrame:
    """The events of every run; bounded by runs x events, hence collected."""
    found = [_rows(frame) for frame in (at.read("events"), zeros, at.read("machines"))]
    tables.write_rows(at.spark, at.paths, "scale_events", scale_events.rows(*found))
    return at.read("scale_events")


def _throughput(at: Tables, axes: DataFrame) -> DataFrame:
    components = at.read("components")
    counted = throughput.counts(at.read("task_samples"), at.read("spout_samples"), components, axes)
    seen = throughput.observed(at.read("worker_samples"), at.read("machine_samples"), axes)
    scopes = throughput.scopes(components, at.read("spout_samples"), axes)
    return throughput.throughput(counted, scopes, throughput.grid(axes), seen)


def build_stability(at: Tables, windows: DataFrame, spans: DataFrame) -> None:
    """The steady parts and the convergence times; one short series an event is collected."""
    series = stability.parts(windows)
    intervals = stability.interval_rows(series, stability.live_verdicts(_rows(at.read("events")), _rows(spans)))
    tables.write_rows(at.spark, at.paths, "intervals", intervals)
    tables.write_rows(at.spark, at.paths, "convergence", stability.convergence_rows(series, intervals))


def build_load(at: Tables, spans: DataFrame) -> None:
    intervals = at.read("intervals")
    at.write("cpu", load.cpu(at.read("machine_samples"), at.read("machines"), intervals, spans))
    at.write("network", load.network(at.read("network_samples"), intervals, spans))


def build_placement(at: Tables, spans: DataFrame) -> None:
    settled = placement.settled(at.read("placements"), spans)
    restarts = placement.restarts(at.read("worker_samples"), spans)
    slots = at.write("slots", placement.slots(settled, restarts, at.read("machines")))
    at.write("moves", placement.moves(settled, spans))
    at.write("running", running.running(settled, slots, at.read("worker_samples"), at.read("task_samples"), spans))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
