"""Tables -> metrics. Each step is read -> transforms -> write; the transforms are in the other files of this folder.

Metrics are of the topology that the run's record names. Task numbers begin anew in each topology, so what others leave
that ran beside it is taken out as it is read; it counts in what machines used only.
Spark sums what grows with the samples. What is bounded by runs x windows is read back and goes on in this process,
some runs at a time, for its rows depend on their run alone; a few rows a run are read whole.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from boltons.iterutils import chunked_iter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.ingest import tables
from analysis.metrics import (
    convergence,
    emissions,
    latency,
    losses,
    machine_load,
    measurements,
    placement,
    scale_events,
    throughput,
)
from analysis.record import clock_offsets, sample_views, small_tables
from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.files import SeriesPaths
from analysis.record.schemas import TABLES, WORKER_LINES
from analysis.record.small_tables import Row

RUNS_AT_ONCE = 200
SEPARATOR = "/"  # in no name of a folder
AXIS = ("run_id", "event_id", "zero_s", "first_s", "last_s")
AXIS_SCHEMA = "run_id string, event_id string, zero_s double, first_s double, last_s double"


@dataclass(frozen=True)
class TableAccess:
    """Reads tables of one series and writes metrics beside them."""

    spark: SparkSession
    paths: SeriesPaths

    def read(self, name: str) -> DataFrame:
        """A table; of samples and placements the rows of each run's own topology."""
        if TABLES[name].group:
            return sample_views.view(self._own(tables.read(self.spark, self.paths, WORKER_LINES.name)), name)
        frame = tables.read(self.spark, self.paths, name)
        return self._own(frame) if name == "placements" else frame

    def _own(self, rows: DataFrame) -> DataFrame:
        """All of a run whose record does not name its topology, as of other people's logs; none of these has two."""
        return rows if self._is_own is None else rows.where(self._is_own)

    @cached_property
    def _is_own(self) -> Column | None:
        """Of a row with `run_id` and `topology`; None where no record says. Sets of keys, and no join: a set finds its
        key at once, and below a join Spark reads all lists of a line."""
        own = {row["run_id"]: row["topology_id"] for row in self.rows("runs") if row.get("topology_id")}
        if not own:
            return None
        keys = [f"{run_id}{SEPARATOR}{topology}" for run_id, topology in own.items()]
        return f.concat_ws(SEPARATOR, "run_id", "topology").isin(keys) | ~f.col("run_id").isin(list(own))

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Store a metric and go on from what was stored, so that nothing is computed twice."""
        tables.write(frame, self.paths, name)
        return self.read(name)

    def rows(self, name: str) -> list[Row]:
        return small_tables.rows(self.paths, name)

    def write_rows(self, name: str, found: Iterable[Row]) -> None:
        small_tables.write(self.paths, name, found)

    def write_by_runs(
        self, names: Sequence[str], compute: Callable[[measurements.Reader], Mapping[str, Iterable[Row]]]
    ) -> None:
        """Write these tables; `compute` makes their rows of some runs from the rows that other tables have of those."""
        with ExitStack() as stack:
            add = {name: stack.enter_context(small_tables.replacement(self.paths, name)) for name in names}
            for runs in chunked_iter(sorted(row["run_id"] for row in self.rows("runs")), RUNS_AT_ONCE):
                found = compute(partial(small_tables.rows, self.paths, runs=runs))
                for name in names:
                    add[name](found[name])


def build_metrics(spark: SparkSession, series: SeriesPaths | Path | str) -> None:
    """Write every metric of a series, for all of its runs, whatever their status."""
    at = TableAccess(spark, series if isinstance(series, SeriesPaths) else SeriesPaths(Path(series)))
    build_events(at)
    spans = at.read("scale_events")
    unseen = emissions.gap_seconds(at.read("gap_samples"), at.read("spout_samples"), at.read("zeros")).persist()
    components = at.read("components")
    try:  # several series may share the session
        build_throughput(at, unseen)
        at.write("emissions", emissions.emissions(at.read("spout_samples"), unseen, components, spans))
    finally:
        unseen.unpersist()
    at.write_by_runs(["intervals", "convergence"], convergence_tables)
    silent = throughput.silences(at.read("task_samples"), components, spans)
    at.write_rows("downtime", throughput.downtime(at.rows("scale_events"), collect_rows(silent)))
    build_losses(at, components, spans)
    build_latency(at, spans)
    build_machine_load(at, spans)
    build_placement(at, spans)
    firsts = collect_rows(placement.first_sample_of_tasks(at.read("task_samples")))  # a row a task
    at.write_rows("loading", placement.time_to_load(at.rows("events"), firsts, at.rows("components")))
    at.write_by_runs(["measurements"], lambda read: {"measurements": measurements.measurements(read)})


def build_events(at: TableAccess) -> None:
    """The time axis of every run, and its events on it."""
    bounds = collect_rows(
        throughput.observation_times(at.read("worker_samples"), at.read("machine_samples"))
    )  # a row a run
    events = at.rows("events")
    zeros = throughput.zeros(events, bounds)
    at.write_rows("zeros", zeros)
    at.write_rows("scale_events", scale_events.scale_event_rows(events, zeros, at.rows("machines")))


def build_throughput(at: TableAccess, unseen: DataFrame) -> None:
    """Windows relative to each event, and relative to the first one for the run as a whole. `unseen`: what fell due
    while spouts had no process."""
    frame = small_tables.frame_of_rows(at.spark, [tuple(row.values()) for row in _axes(at.rows)], AXIS_SCHEMA)
    at.write(
        "activity",
        throughput.activity(at.read("task_samples"), at.read("spout_samples"), unseen,
                            at.read("worker_samples"), at.read("machine_samples"), at.read("components"), frame),
    )  # fmt: skip
    at.write_by_runs(["event_throughput", "throughput"], _throughput_tables)


def _throughput_tables(read: measurements.Reader) -> dict[str, list[Row]]:
    several = _runs_of_several_events(read)
    found = throughput.throughput_rows(_axes(read), read("activity"), read("components"))
    return {
        "event_throughput": [row for row in found if not _is_whole_run(row, several)],
        "throughput": [row for row in found if row["run_id"] not in several or _is_whole_run(row, several)],
    }


def _axes(read: measurements.Reader) -> list[Row]:
    """Of every event, and of a run as a whole where that is not the axis of its only event."""
    several = _runs_of_several_events(read)
    whole = [row | {"event_id": WHOLE_RUN} for row in read("zeros") if row["run_id"] in several]
    return [{name: row[name] for name in AXIS} for row in [*read("scale_events"), *whole]]


def _runs_of_several_events(read: measurements.Reader) -> set[str]:
    numbers = Counter(row["run_id"] for row in read("scale_events"))
    return {run_id for run_id, number in numbers.items() if number > 1}


def _is_whole_run(row: Row, several: set[str]) -> bool:
    return row["run_id"] in several and row["event_id"] == WHOLE_RUN


def convergence_tables(read: measurements.Reader) -> dict[str, list[Row]]:
    """The steady parts and the convergence times; one short series an event."""
    queues = [row for row in read("activity") if row["queue"] is not None]
    spans = read("scale_events")
    series = convergence.phase_windows(read("event_throughput"), queues, convergence.unmeasured_spans(spans))
    live = convergence.live_verdicts(read("events"), spans)
    intervals = convergence.interval_rows(series, live)
    return {"intervals": intervals, "convergence": convergence.convergence_rows(series, intervals)}


def build_losses(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    counts = losses.counts_on_edges(
        at.read("stream_samples"), at.read("source_samples"), components, at.read("edges"), spans
    )
    waiting = losses.waiting_at_bounds(at.read("task_samples"), components, spans)
    lines = losses.longest_lines(at.read("worker_samples"), at.read("task_samples"), components, spans)
    found = losses.loss_rows(collect_rows(counts), collect_rows(waiting), at.rows("scale_events"), collect_rows(lines))
    at.write_rows("losses", found)


def build_latency(at: TableAccess, spans: DataFrame) -> None:
    lines = clock_offsets.clock_lines(at.rows("machines"), at.rows("runs"), at.rows("events"))
    clocks = small_tables.frame_of_rows(at.spark, lines, clock_offsets.CLOCKS)
    windows = at.write("latency", latency.windows(at.read("sink_samples"), spans, clocks))
    at.write("interval_latency", latency.of_intervals(windows, at.read("intervals")))


def build_machine_load(at: TableAccess, spans: DataFrame) -> None:
    intervals = at.read("intervals")
    at.write("cpu", machine_load.cpu(at.read("machine_samples"), at.read("machines"), intervals, spans))
    at.write("cpu_windows", machine_load.cpu_windows(at.read("machine_samples"), at.read("zeros")))
    at.write("network", machine_load.network(at.read("network_samples"), intervals, spans))


def build_placement(at: TableAccess, spans: DataFrame) -> None:
    settled = at.write("settled", placement.last_placements(at.read("placements"), spans))
    restarts = placement.restarts(at.read("worker_samples"), spans)
    slots = at.write("slots", placement.slots(settled, restarts, at.read("machines")))
    at.write("moves", placement.moves(settled, spans))
    at.write(
        "running",
        # A hold asks for nothing: there is no request that anything could run after.
        placement.time_to_running(settled, slots, at.read("worker_samples"), at.read("task_samples"),
                                  spans.where(f.col("kind") != "hold")),
    )  # fmt: skip


def collect_rows(frame: DataFrame) -> list[Row]:
    """Only for what does not grow with the samples."""
    return [row.asDict() for row in frame.collect()]
