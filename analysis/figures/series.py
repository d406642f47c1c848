"""What the figures draw: small series collected once, bounded by windows x runs and machines x runs."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis import tables
from analysis.record import SeriesPaths


@dataclass(frozen=True)
class Line:
    """One run's rates over its windows; `starts_s` relative to the scale request."""

    run_id: str
    variant: str
    starts_s: tuple[float, ...]
    rates: tuple[float | None, ...]


@dataclass(frozen=True)
class Time:
    """One run's convergence time by one definition, or its horizon where censored."""

    run_id: str
    variant: str
    definition: str
    seconds: float
    censored: bool


@dataclass(frozen=True)
class Load:
    """One machine's utilisation in one phase of one run, fractions of its quota."""

    run_id: str
    variant: str
    phase: str
    machine: str
    joined: bool
    p10: float | None
    p50: float | None
    p90: float | None


@dataclass(frozen=True)
class SeriesData:
    """Everything drawn, of complete runs only; variants in the order in which the figures name them.

    `levels`: a variant's post-scale throughput, the median over its runs.
    """

    variants: tuple[str, ...]
    totals: tuple[Line, ...]
    due: tuple[Line, ...]
    times: tuple[Time, ...]
    loads: tuple[Load, ...]
    levels: dict[str, float]


def collect(spark: SparkSession, paths: SeriesPaths) -> SeriesData:
    runs = tables.read(spark, paths, "runs").where(f.col("status") == "complete").select("run_id", "variant")
    scaled = tables.read(spark, paths, "zeros").where("scaled").select("run_id")
    known = f.broadcast(runs.join(scaled, "run_id", how="inner"))
    windows = tables.read(spark, paths, "throughput").where("complete").join(known, "run_id", how="inner")
    variants = sorted({row.variant for row in runs.select("variant").distinct().collect()})
    # Ours last, so that it is drawn over the baseline.
    variants.sort(key=lambda name: not name.startswith("even"))
    return SeriesData(
        tuple(variants), _lines(windows, "total"), _lines(windows, "due"),
        _times(tables.read(spark, paths, "convergence").join(known, "run_id", how="inner")),
        _loads(tables.read(spark, paths, "cpu").join(known, "run_id", how="inner")),
        _levels(tables.read(spark, paths, "intervals").join(known, "run_id", how="inner")),
    )  # fmt: skip


def _lines(windows: DataFrame, scope: str) -> tuple[Line, ...]:
    rows = (
        windows.where(f.col("scope") == scope)
        .groupBy("run_id", "variant")
        .agg(f.array_sort(f.collect_list(f.struct("window_s", "rate"))).alias("points"))
        .orderBy("run_id")
        .collect()
    )
    return tuple(
        Line(row.run_id, row.variant, tuple(p.window_s for p in row.points), tuple(p.rate for p in row.points))
        for row in rows
    )


def _times(convergence: DataFrame) -> tuple[Time, ...]:
    rows = convergence.select(
        "run_id", "variant", "definition", f.coalesce("time_s", "horizon_s").alias("seconds"), "censored"
    ).orderBy("run_id", "definition")
    return tuple(Time(*row) for row in rows.collect())


def _loads(cpu: DataFrame) -> tuple[Load, ...]:
    rows = cpu.select(
        "run_id", "variant", "phase", "machine", f.coalesce("joins_at_scale", f.lit(False)), "utilisation_p10",
        "utilisation_p50", "utilisation_p90",
    ).orderBy("run_id", "phase", "machine")  # fmt: skip
    return tuple(Load(*row) for row in rows.collect())


def _levels(intervals: DataFrame) -> dict[str, float]:
    after = intervals.where(f.col("phase") == "after").groupBy("variant").agg(f.median("mean").alias("level"))
    return {row.variant: row.level for row in after.collect()}
