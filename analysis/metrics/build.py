"""Tables -> metrics. Each step is read -> transforms -> write; the transforms are in the other files of this folder.

Metrics are of the topologies that the run's record names, each by itself (`topologies`). What others leave that ran
beside them is taken out as it is read; it counts in what machines used only.
Spark sums what grows with the samples. What is bounded by runs x windows is read back and goes on in this process,
some runs at a time, for its rows depend on their run alone; a few rows a run are read whole.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from boltons.iterutils import chunked_iter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis import session
from analysis.ingest import tables
from analysis.metrics import (
    convergence,
    emissions,
    juice,
    latency,
    losses,
    machine_load,
    measurements,
    placement,
    scale_events,
    throughput,
    topologies,
    traffic,
)
from analysis.metrics.line_seconds import in_phases, in_windows
from analysis.metrics.measurements import Reader
from analysis.metrics.topologies import Units
from analysis.record import clock_offsets, sample_views, small_tables
from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.files import SeriesPaths
from analysis.record.schemas import LARGE_TABLES, TABLES, WORKER_LINES
from analysis.record.small_tables import SEPARATOR, Row, run_of, topology_of, unit_of

RUNS_AT_ONCE = 200
AXIS = ("run_id", "event_id", "zero_s", "first_s", "last_s")
AXIS_SCHEMA = "run_id string, event_id string, zero_s double, first_s double, last_s double"


# Tables of runs, of which each topology of a run, and the cluster, has the rows of its own.
OF_RUNS = ("runs", "machines", "decisions")


@dataclass(frozen=True)
class TableAccess:
    """Reads tables of one series and writes metrics beside them; here a row's `run_id` is its unit (`topologies`)."""

    spark: SparkSession
    paths: SeriesPaths

    @cached_property
    def units(self) -> Units:
        read = partial(small_tables.rows, self.paths)
        return Units.of(read("runs"), read("topologies"), read("events"))

    def read(self, name: str, beside: Sequence[str] = ()) -> DataFrame:
        """A table; of samples and placements the rows of the topologies that the runs' records name, of machines' those
        of each topology. `beside`: columns of workers' lines to have beside those of a view."""
        if TABLES[name].group:
            return self.view(tables.read(self.spark, self.paths, WORKER_LINES.name), name, beside)
        frame = self._frame(name)
        if name == "placements":
            return self._of_topologies(frame)
        if name == "machines":
            return self.units.in_units(frame, self.units.with_cluster)
        if TABLES[name].names_topology:
            unit = f.concat_ws(SEPARATOR, "run_id", "topology").alias("run_id")
            return frame.select(unit, *[name for name in frame.columns if name not in ("run_id", "topology")])
        return self.units.while_there(self.units.in_units(frame, self.units.topologies))

    def _frame(self, name: str) -> DataFrame:
        """A table as it is stored. Few rows go into each query themselves: where Spark read them, that would be a
        listing, a scan to compile and a job more, and each costs more than such rows (a third of a short series)."""
        few = None if name in LARGE_TABLES else small_tables.few_rows(self.spark, self.paths, name)
        return tables.read(self.spark, self.paths, name) if few is None else few

    def view(self, lines: DataFrame, name: str, beside: Sequence[str] = ()) -> DataFrame:
        """Of workers' lines."""
        return sample_views.view(self.units.while_there(self._of_topologies(lines)), name, beside)

    def read_of_machines(self, name: str) -> DataFrame:
        """Samples of machines, as of the unit that has what is of machines."""
        return self.units.in_units(tables.read(self.spark, self.paths, name), self.units.of_machines)

    def _of_topologies(self, rows: DataFrame) -> DataFrame:
        named = rows.withColumn("run_id", self.units.unit_of_line())
        return named.where(f.col("run_id").isNotNull())

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Store a metric and go on from what was stored, so that nothing is computed twice."""
        run, unit = f.substring_index("run_id", SEPARATOR, 1), f.col("run_id")
        parts = {"run_id": run, "topology": f.substring(unit, f.length(run) + 2, f.length(unit))}
        columns = [column.name for column in TABLES[name].columns]
        tables.write(frame.select(*[parts.get(c, f.col(f"`{c}`")).alias(c) for c in columns]), self.paths, name)
        return self.read(name)

    def rows(self, name: str, runs: Collection[str] | None = None) -> list[Row]:
        found = small_tables.rows(self.paths, name, runs=runs)
        if name == "events":
            return self.units.events_of_units(found)
        if name in OF_RUNS:
            return self.units.rows_of_units(found)
        return [row | {"run_id": unit_of(row["run_id"], row.pop("topology"))} for row in found]

    def write_rows(self, name: str, found: Iterable[Row]) -> None:
        small_tables.write(self.paths, name, map(_stored, found))

    def write_by_runs(self, names: Sequence[str], compute: Callable[[Reader], Mapping[str, Iterable[Row]]]) -> None:
        """Write these tables; `compute` makes their rows of some runs from the rows that other tables have of those."""
        with ExitStack() as stack:
            add = {name: stack.enter_context(small_tables.replacement(self.paths, name)) for name in names}
            for runs in chunked_iter(sorted(self.units.topologies), RUNS_AT_ONCE):
                found = compute(partial(self.rows, runs=runs))
                for name in names:
                    add[name](map(_stored, found[name]))


def _stored(row: Row) -> Row:
    return row | {"run_id": run_of(row["run_id"]), "topology": topology_of(row["run_id"])}


def build_metrics(spark: SparkSession, series: SeriesPaths | Path | str) -> None:
    """Write every metric of a series, for all of its runs, whatever their status."""
    at = TableAccess(spark, series if isinstance(series, SeriesPaths) else SeriesPaths(Path(series)))
    build_events(at)
    spans = at.read("scale_events")
    unseen = emissions.gap_seconds(at.read("gap_samples"), at.read("spout_samples"), at.read("zeros")).persist()
    components = at.read("components")
    try:  # several series may share the session
        session.side_by_side(spark, [
            partial(build_throughput, at, unseen),
            partial(build_losses, at, components, spans),
            partial(build_placement, at, spans),
            partial(build_emissions, at, unseen, components, spans),
            partial(build_downtime, at, components, spans),
            partial(build_loading, at),
        ])  # fmt: skip
    finally:
        unseen.unpersist()
    session.side_by_side(spark, [
        partial(build_traffic, at, components, spans),
        partial(build_machine_load, at, spans),
        partial(build_latency, at, spans),
        partial(build_juice, at, components, spans),
    ])  # fmt: skip
    at.write_by_runs(["measurements"], partial(_measurement_tables, at.units))


def build_events(at: TableAccess) -> None:
    """`zeros`, the time axis of every run (a row a run), and `scale_events`, its events on it (a row a run and event).
    Here and below a run is that of one topology, or of the cluster (`topologies`)."""
    bounds = collect_rows(
        throughput.observation_times(at.read("worker_samples"), at.read("machine_samples"))
    )  # a row a run
    events, spans_s = at.rows("events"), at.units.spans_s
    bounds = topologies.with_clusters(topologies.since_submission(bounds, events, at.units), at.units)
    zeros = topologies.on_one_axis(throughput.zeros(events, bounds, spans_s), at.units)
    at.write_rows("zeros", zeros)
    at.write_rows("scale_events", scale_events.scale_event_rows(events, zeros, at.rows("machines"), spans_s))


def build_throughput(at: TableAccess, unseen: DataFrame) -> None:
    """`activity` (a row an event, window and component) and from it `event_throughput` and `throughput` (a row a
    window, scope and component): relative to each event, and to the first one for the run as a whole; from these
    `intervals` and `convergence`. `unseen`: what fell due while spouts had no process."""
    frame = small_tables.frame_of_rows(at.spark, [tuple(row.values()) for row in _axes(at.rows, at.units)], AXIS_SCHEMA)
    at.write(
        "activity",
        throughput.activity(traffic.own_tasks(at.read("task_samples")), at.read("spout_samples"), unseen,
                            at.read("worker_samples"), at.read("machine_samples"), at.read("components"), frame),
    )  # fmt: skip
    at.write_by_runs(["event_throughput", "throughput"], partial(_throughput_tables, at.units))
    at.write_by_runs(["intervals", "convergence"], partial(convergence_tables, at.units))


def build_downtime(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """`downtime`, a row an event. `spans`, here and below: the rows of `scale_events`."""
    axes = at.rows("scale_events")
    silent = collect_rows(throughput.silences(at.read("task_samples"), components, spans))
    found = throughput.downtime([axis for axis in axes if axis["run_id"] not in at.units.clusters], silent)
    at.write_rows("downtime", [*found, *topologies.downtimes_of_clusters(axes, silent, at.units)])


def _throughput_tables(units: Units, read: Reader) -> dict[str, list[Row]]:
    several, axes = _units_of_several_events(read, units), _axes(read, units)
    found = throughput.throughput_rows(
        [axis for axis in axes if axis["run_id"] not in units.clusters], read("activity"), read("components")
    )
    found += topologies.throughput_of_clusters(axes, found, units)
    return {
        "event_throughput": [row for row in found if not _is_whole_run(row, several)],
        "throughput": [row for row in found if row["run_id"] not in several or _is_whole_run(row, several)],
    }


def _axes(read: Reader, units: Units) -> list[Row]:
    """Of every event, and of a run as a whole where that is not the axis of its only event."""
    several = _units_of_several_events(read, units)
    whole = [row | {"event_id": WHOLE_RUN} for row in read("zeros") if row["run_id"] in several]
    return [{name: row[name] for name in AXIS} for row in [*read("scale_events"), *whole]]


def _units_of_several_events(read: Reader, units: Units) -> set[str]:
    """A topology that arrives or departs has fewer than its run, and that run's axis all the same."""
    numbers = Counter(row["run_id"] for row in read("scale_events"))
    several = {unit for unit, number in numbers.items() if number > 1}
    return several | {unit for cluster in several for unit in units.clusters.get(cluster, ())}


def _is_whole_run(row: Row, several: set[str]) -> bool:
    return row["run_id"] in several and row["event_id"] == WHOLE_RUN


def convergence_tables(units: Units, read: Reader) -> dict[str, list[Row]]:
    """The steady parts and the convergence times; one short series an event."""
    queues = [row for row in read("activity") if row["queue"] is not None]
    queues += topologies.queues_of_clusters(queues, units)
    spans = read("scale_events")
    series = convergence.phase_windows(read("event_throughput"), queues, convergence.unmeasured_spans(spans))
    live = convergence.live_verdicts(read("events"), spans)
    intervals = convergence.interval_rows(series, live)
    return {"intervals": intervals, "convergence": convergence.convergence_rows(series, intervals)}


def _measurement_tables(units: Units, read: Reader) -> dict[str, list[Row]]:
    found = measurements.measurements(read)
    sums = topologies.sums_of_clusters(found, read("scale_events"), read("topologies"), units)
    return {"measurements": [*found, *sums]}


def build_emissions(at: TableAccess, unseen: DataFrame, components: DataFrame, spans: DataFrame) -> None:
    """`emissions`: a row an event, phase and source."""
    split = scale_events.split_at_ends(at.rows("scale_events"))
    of = partial(emissions.emissions, at.read("spout_samples"), unseen, components)
    found = collect_rows(of(spans))
    at.write_rows("emissions", found + (scale_events.rests(collect_rows(of(_frame_of(at, split)))) if split else []))


def build_losses(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """`losses`: a row an event, phase and edge."""
    events = at.rows("scale_events")
    split = scale_events.split_at_ends(events)
    found = _loss_rows(at, components, spans, events)
    rest = scale_events.rests(_loss_rows(at, components, _frame_of(at, split), split)) if split else []
    at.write_rows("losses", found + rest)


def _frame_of(at: TableAccess, spans: Sequence[Row]) -> DataFrame:
    return small_tables.frame_of_rows(at.spark, [tuple(span.values()) for span in spans], scale_events.SPANS)


def _loss_rows(at: TableAccess, components: DataFrame, spans: DataFrame, events: Sequence[Row]) -> list[Row]:
    """`events`: the rows of `spans`."""
    counts = losses.counts_on_edges(
        at.read("stream_samples"), at.read("source_samples"), components, at.read("edges"),
        lambda samples, counted: in_phases(samples, spans, counted),
    )  # fmt: skip
    waiting = losses.waiting_at_bounds(at.read("task_samples"), components, spans)
    lines = losses.longest_lines(at.read("worker_samples"), at.read("task_samples"), components, spans)
    return losses.loss_rows(collect_rows(counts), collect_rows(waiting), events, collect_rows(lines))


def build_juice(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """`juice`, a row an event and window; only where a service level asks for it: nothing else needs what was sent and
    executed in each window."""

    def rows_of_juice(read: Reader) -> dict[str, list[Row]]:
        asked = {row["run_id"] for row in read("topologies") if row["juice"] is not None}
        if not asked:
            return {"juice": []}
        counts = losses.counts_on_edges(
            at.read("stream_samples"), at.read("source_samples"), components, at.read("edges"),
            lambda samples, counted: in_windows(samples, spans.where(f.col("run_id").isin(asked)), counted), "window_s",
        )  # fmt: skip
        activity, throughput = ([row for row in read(name) if row["run_id"] in asked]
                                for name in ("activity", "event_throughput"))  # fmt: skip
        unthrottled = juice.unthrottled_units(read("runs"))
        return {"juice": juice.juice_rows(collect_rows(counts), read("edges"), activity, throughput, unthrottled)}

    at.write_by_runs(["juice"], rows_of_juice)


def build_latency(at: TableAccess, spans: DataFrame) -> None:
    """`latency` (a row an event and window) and from it `interval_latency` (a row an event and phase)."""
    lines = clock_offsets.clock_lines(at.rows("machines"), at.rows("runs"), at.rows("events"))
    clocks = small_tables.frame_of_rows(at.spark, lines, clock_offsets.CLOCKS)
    windows = at.write("latency", latency.windows(at.read("sink_samples"), spans, clocks))
    at.write("interval_latency", latency.of_intervals(windows, at.read("intervals")))


def build_machine_load(at: TableAccess, spans: DataFrame) -> None:
    """`cpu` (a row an event, phase and machine), `cpu_windows` (a window and machine), `network` (an event, phase,
    machine and interface), `network_windows` (an event and window)."""
    intervals, whole = at.read("intervals"), at.read_of_machines("machine_samples")
    samples = whole
    if spans_s := machine_load.memberships(at.rows("events")):
        known = small_tables.frame_of_rows(at.spark, spans_s, machine_load.MEMBERSHIPS)
        samples = machine_load.of_members(whole, known)
    at.write("cpu", machine_load.cpu(samples, at.read("machines"), intervals, spans))
    at.write("cpu_windows", machine_load.cpu_windows(whole, at.read("zeros")))
    network = at.read_of_machines("network_samples")
    at.write("network", machine_load.network(network, intervals, spans))
    at.write("network_windows", machine_load.network_windows(network, at.read("machines"), spans))


def build_traffic(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """`task_traffic` (a row an event, phase, pair of tasks and their slots) and from it `tuple_rates` (an event and
    phase)."""
    intervals = at.read("intervals")
    stays = traffic.stays(at.read("task_samples", ("pid",)))
    passed = at.write("task_traffic", traffic.task_traffic(at.read("traffic_samples"), stays, intervals, spans))
    at.write(
        "tuple_rates",
        traffic.tuple_rates(passed, at.read("task_samples"), components, at.read("placements"), intervals, spans),
    )


def build_placement(at: TableAccess, spans: DataFrame) -> None:
    """`settled` (a row an event, phase and task), `slots` (an event and slot), `moves` and `running` (an event)."""
    spans = spans.where(f.coalesce(f.col("until_s") > f.col("zero_s"), f.lit(True)))  # not of what departs by it
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


def build_loading(at: TableAccess) -> None:
    """`loading`, a row a topology that arrives."""
    firsts = collect_rows(placement.first_sample_of_tasks(at.read("task_samples")))  # a row a task
    at.write_rows("loading", placement.time_to_load(at.rows("events"), firsts, at.rows("components")))


def collect_rows(frame: DataFrame) -> list[Row]:
    """Only for what does not grow with the samples."""
    return [row.asDict() for row in frame.collect()]
