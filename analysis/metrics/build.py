"""Tables -> metrics. Each step is read -> transforms -> write; the transforms are in the other files of this folder.

Metrics belong to the topologies that the run's record names, each by itself (`topologies`). Lines of other topologies
beside them are dropped when they are read; they count only in the use of machines.
Spark sums data that grows with the samples. Data bounded by runs x windows is read back and processed here,
some runs at a time, because its rows depend on their run alone; a few rows a run are read whole.
"""

from collections import Counter, defaultdict
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
    actions,
    convergence,
    latency,
    losses,
    machine_load,
    measurements,
    placement,
    scale_events,
    service,
    throughput,
    topologies,
    traffic,
    uncertainty,
)
from analysis.metrics.line_seconds import in_phases, in_windows
from analysis.metrics.measurements import Reader
from analysis.metrics.topologies import Units
from analysis.record import small_tables
from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.files import SeriesPaths
from analysis.record.schemas import LARGE_TABLES, TABLES, WORKER_LINES
from analysis.record.small_tables import EVENT, PHASE, UNIT, Row, Unit, unit_of

RUNS_AT_ONCE = 200
AXIS = (*EVENT, "zero_s", "first_s", "last_s")
PHASE_SCHEMA = "run_id string, topology string, event_id string, phase string"
AXIS_SCHEMA = "run_id string, topology string, event_id string, zero_s double, first_s double, last_s double"


@dataclass(frozen=True)
class TableAccess:
    """Access to a series' tables; rows have the columns of their unit, but for those of runs and machines."""

    spark: SparkSession
    paths: SeriesPaths

    @cached_property
    def units(self) -> Units:
        read = partial(small_tables.rows, self.paths)
        return Units.of(read("runs"), read("topologies"), read("events"))

    def read(self, name: str, beside: Sequence[str] = ()) -> DataFrame:
        """Return a table; of samples and placements the rows of the topologies that the runs' records name, of samples
        of machines the rows for each topology. `beside`: columns of workers' lines to keep beside those of a view."""
        if TABLES[name].group:
            return self.view(tables.read(self.spark, self.paths, WORKER_LINES.name), name, beside)
        # Few rows go into each query themselves: if Spark read them, that would cost a listing, a scan to compile and
        # another job, each of which costs more than such rows (a third of a short series).
        frame = None if name in LARGE_TABLES else small_tables.few_rows(self.spark, self.paths, name)
        if frame is None:
            frame = tables.read(self.spark, self.paths, name)
        if name in ("placements", "changes"):
            return self._of_topologies(frame)
        if name == "machines" or TABLES[name].names_topology:
            return frame
        return self.units.while_there(self.units.in_units(frame, self.units.topologies))

    def view(self, lines: DataFrame, name: str, beside: Sequence[str] = ()) -> DataFrame:
        """Return a view of workers' lines."""
        return tables.view(self.units.while_there(self._of_topologies(lines)), name, beside)

    def read_of_machines(self, name: str) -> DataFrame:
        """Return samples of machines, with the unit to which machine metrics are booked."""
        return self.units.in_units(tables.read(self.spark, self.paths, name), self.units.of_machines)

    def _of_topologies(self, rows: DataFrame) -> DataFrame:
        named = rows.withColumn("topology", self.units.name_in_line())
        return named.where(f.col("topology").isNotNull())

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Store a metric and return the stored one, so that nothing is computed twice."""
        columns = [f.col(f"`{column.name}`") for column in TABLES[name].columns]
        tables.write(frame.select(*columns), self.paths, name)
        return self.read(name)

    def rows(self, name: str, runs: Collection[str] | None = None) -> list[Row]:
        """Read rows of a table, of events and runs those of each unit."""
        rows = small_tables.rows(self.paths, name, runs=runs)
        if name == "events":
            return self.units.events_of_units(rows)
        return self.units.rows_of_units(rows) if name == "runs" else rows

    def write_by_runs(self, names: Sequence[str], compute: Callable[[Reader], Mapping[str, Iterable[Row]]]) -> None:
        """Write these tables; `compute` makes their rows for some runs from the rows of other tables for those."""
        with ExitStack() as stack:
            add = {name: stack.enter_context(small_tables.replacement(self.paths, name)) for name in names}
            for runs in chunked_iter(sorted(self.units.topologies), RUNS_AT_ONCE):
                for name, rows in compute(partial(self.rows, runs=runs)).items():
                    add[name](rows)


def build_metrics(spark: SparkSession, series: SeriesPaths | Path | str) -> None:
    """Write every metric of a series, for all of its runs, whatever their status."""
    access = TableAccess(spark, series if isinstance(series, SeriesPaths) else SeriesPaths(Path(series)))
    build_events(access)
    spans, components = access.read("scale_events"), access.read("components")
    gaps = losses.gap_seconds(access.read("gap_samples"), access.read("spout_samples"), access.read("zeros")).persist()
    try:  # several series may share the session
        session.side_by_side(spark, [
            partial(build_throughput, access, gaps),
            partial(build_losses, access, components, spans),
            partial(build_placement, access, spans),
            partial(build_emissions, access, gaps, components, spans),
            partial(build_downtime, access, components, spans),
            partial(build_loading, access),
        ])  # fmt: skip
    finally:
        gaps.unpersist()
    session.side_by_side(spark, [
        partial(build_traffic, access, components, spans),
        partial(build_machine_load, access, spans),
        partial(build_latency, access, spans),
        partial(build_service, access, components),
        partial(build_actions, access, components),
    ])  # fmt: skip

    def of_runs(read: Reader) -> dict[str, list[Row]]:
        rows = measurements.measurements(read)
        sums = topologies.sums_of_clusters(rows, read("scale_events"), access.units)
        return {"measurements": rows + sums}

    access.write_by_runs(["measurements"], of_runs)


def build_events(at: TableAccess) -> None:
    """Write `zeros`, the time axis of every run (a row a run), and `scale_events`, its events on it (a row a run and
    event). Here and below that is a row a topology of a run, and one of the cluster (`topologies`)."""
    readings = at.read("readings").select(*UNIT, "t_s", f.coalesce("dt_s", f.lit(0.0)).alias("dt_s"))
    workers = at.read("worker_samples").select(*UNIT, "t_s", "dt_s").unionByName(readings)
    observed = throughput.observation_times(workers, at.read("machine_samples"))
    events, spans_s = at.rows("events"), at.units.spans_s
    bounds = topologies.since_submission(collect_rows(observed), events, at.units)
    zeros = topologies.on_one_axis(throughput.zeros(events, topologies.with_clusters(bounds, at.units), spans_s))
    small_tables.write(at.paths, "zeros", zeros)
    spans = scale_events.scale_event_rows(events, zeros, at.rows("machines"), spans_s)
    small_tables.write(at.paths, "scale_events", spans)


def build_throughput(at: TableAccess, unseen: DataFrame) -> None:
    """Write `activity` (a row an event, window and component) and from it `event_throughput` and `throughput` (a row a
    window, scope and component): relative to each event, and to the first one for the run as a whole; from these
    `intervals` and `convergence`. `unseen`: tuples that were due while spouts had no process."""
    frame = small_tables.frame_of_rows(at.spark, [tuple(row.values()) for row in _axes(at.rows, at.units)], AXIS_SCHEMA)
    at.write(
        "activity",
        throughput.activity(traffic.own_tasks(at.read("task_samples")), at.read("spout_samples"), unseen,
                            at.read("worker_samples"), at.read("machine_samples"), at.read("components"), frame),
    )  # fmt: skip
    at.write_by_runs(["event_throughput", "throughput"], partial(_throughput_tables, at.units))
    at.write_by_runs(["intervals", "convergence"], partial(_convergence_tables, at.units))


def build_downtime(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """Write `downtime`, a row an event. `spans`, here and below: the rows of `scale_events`."""
    axes = at.rows("scale_events")
    silent = collect_rows(throughput.silences(at.read("task_samples"), components, spans))
    found = throughput.downtime([axis for axis in axes if unit_of(axis) not in at.units.clusters], silent)
    small_tables.write(at.paths, "downtime", [*found, *topologies.downtimes_of_clusters(axes, silent, at.units)])


def _throughput_tables(units: Units, read: Reader) -> dict[str, list[Row]]:
    several, axes = _units_of_several_events(read, units), _axes(read, units)
    found = throughput.throughput_rows(
        [axis for axis in axes if unit_of(axis) not in units.clusters], read("activity"), read("components")
    )
    found += topologies.throughput_of_clusters(axes, found, units)
    return {
        "event_throughput": [r for r in found if r["event_id"] != WHOLE_RUN or unit_of(r) not in several],
        "throughput": [r for r in found if r["event_id"] == WHOLE_RUN or unit_of(r) not in several],
    }


def _axes(read: Reader, units: Units) -> list[Row]:
    """Return the axes of every event, and of a run as a whole if that differs from the axis of its only event."""
    several = _units_of_several_events(read, units)
    whole = [row | {"event_id": WHOLE_RUN} for row in read("zeros") if unit_of(row) in several]
    return [{name: row[name] for name in AXIS} for row in [*read("scale_events"), *whole]]


def _units_of_several_events(read: Reader, units: Units) -> set[Unit]:
    """Return units of runs with several events; a topology that arrives or departs shares its run's axis."""
    numbers = Counter(unit_of(row) for row in read("scale_events"))
    several = {unit for unit, number in numbers.items() if number > 1}
    return several | {unit for cluster in several for unit in units.clusters.get(cluster, ())}


def _convergence_tables(units: Units, read: Reader) -> dict[str, list[Row]]:
    """Return the steady parts and the convergence times; one short series an event."""
    queues = [row for row in read("activity") if row["queue"] is not None]
    queues = [*queues, *topologies.queues_of_clusters(queues, units)]
    spans = read("scale_events")
    series = convergence.phase_windows(read("event_throughput"), queues, convergence.unmeasured_spans(spans))
    live = convergence.live_verdicts(read("events"), spans)
    intervals = convergence.interval_rows(series, live)
    return {"intervals": intervals, "convergence": convergence.convergence_rows(series, intervals)}


def build_emissions(at: TableAccess, unseen: DataFrame, components: DataFrame, spans: DataFrame) -> None:
    """Write `emissions`, a row an event, phase and source."""

    def compute(spans: DataFrame, _events: Sequence[Row]) -> list[Row]:
        return collect_rows(losses.emissions(at.read("spout_samples"), unseen, components, spans))

    _write_with_rests(at, "emissions", spans, compute)


def build_losses(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """Write `losses`, a row an event, phase and edge."""

    _write_with_rests(at, "losses", spans, partial(_loss_rows, at, components))


def _loss_rows(at: TableAccess, components: DataFrame, spans: DataFrame, events: Sequence[Row]) -> list[Row]:
    counts = losses.counts_on_edges(
        at.read("stream_samples"), at.read("source_samples"), components, at.read("edges"),
        lambda samples, counted: in_phases(samples, spans, counted),
    )  # fmt: skip
    queues = losses.waiting_at_bounds(at.read("task_samples"), components, spans)
    lines = losses.longest_lines(at.read("worker_samples"), at.read("task_samples"), components, spans)
    return losses.loss_rows(collect_rows(counts), collect_rows(queues), events, collect_rows(lines))


def _write_with_rests(
    at: TableAccess, name: str, spans: DataFrame, compute: Callable[[DataFrame, Sequence[Row]], list[Row]]
) -> None:
    """Write a table of both sides of each event and of the rests; `compute`: a frame of spans, its rows -> rows."""
    events = at.rows("scale_events")
    rows = compute(spans, events)
    if split := scale_events.split_at_ends(events):
        values = [tuple(span.values()) for span in split]
        rows += scale_events.rests(compute(small_tables.frame_of_rows(at.spark, values, scale_events.SPANS), split))
    small_tables.write(at.paths, name, rows)


def build_service(at: TableAccess, components: DataFrame) -> None:
    """Write `service` (a row a topology with a service level, or cluster, and window of the run's axis) and from it
    `attainment` (an event and phase) and `attained_over_time` (a part of the run)."""
    logged = {unit_of(row) for row in collect_rows(at.read("readings").select(*UNIT).distinct())}
    levels = service.level_rows(at.rows("topologies"), service.unthrottled_units(at.rows("runs")))
    if not levels and not logged:
        for name in ("service", "attainment", "attained_over_time"):
            small_tables.write(at.paths, name, [])
        return
    frame_of = partial(small_tables.frame_of_rows, at.spark)
    several = _units_of_several_events(at.rows, at.units)
    whole = [axis for axis in _axes(at.rows, at.units)
             if axis["event_id"] == WHOLE_RUN or unit_of(axis) not in several]  # fmt: skip
    ours = {(run, topology) for run, topology, *_ in levels} - logged
    axes = frame_of([tuple(axis.values()) for axis in whole if unit_of(axis) in ours], AXIS_SCHEMA)
    level_frame = frame_of([row for row in levels if row[:2] in ours], service.LEVELS)
    inputs = service.source_inputs(at.read("activity"), axes)
    busy = service.busy_windows(at.read("throughput"), inputs, level_frame).persist()
    of_juice = level_frame.where(f.col("least_juice").isNotNull())
    served = busy.where(f.col("complete") & f.col("served")).join(f.broadcast(of_juice), list(UNIT), how="left_semi")
    counts = losses.counts_on_edges(
        at.read("stream_samples"), at.read("source_samples"), components, at.read("edges"),
        lambda samples, counted: in_windows(samples, axes, counted), "window_s",
    )  # fmt: skip
    edges = frame_of(service.edges_in_order(at.rows("edges")), service.EDGES)
    juices = service.juices(served, counts, inputs, edges, level_frame)
    latencies = latency.windows(at.read("sink_samples"), axes, _clocks(at))
    jobs = service.service(busy, latencies, juices, level_frame)
    if logged:
        axes = frame_of([tuple(axis.values()) for axis in whole if unit_of(axis) in logged], AXIS_SCHEMA)
        level_frame = frame_of([row for row in levels if row[:2] in logged], service.LEVELS)
        jobs = jobs.unionByName(service.of_readings(at.read("readings"), axes, level_frame))
    jobs = jobs.persist()
    try:
        clusters = service.of_clusters(jobs, busy, at.read("throughput"), {run for run, _ in logged})
        windows = at.write("service", jobs.unionByName(clusters))
    finally:
        jobs.unpersist()
        busy.unpersist()
    parts = frame_of(service.part_rows(at.rows("scale_events"), at.rows("zeros")), service.SPANS)
    at.write("attainment", service.attainment(windows, parts))
    at.write("attained_over_time", service.over_time(windows))


def build_actions(at: TableAccess, components: DataFrame) -> None:
    """Write `actions` (a row an action and component) and `costs` (a row an event and phase), of runs in which a policy
    may act by itself or a topology has a service level."""
    zeros, events = at.rows("zeros"), at.rows("scale_events")
    runs = {row["run_id"] for row in at.rows("topologies") if row["max_utility"] is not None}
    runs |= {row["run_id"] for row in events if row["kind"] == "hold"}
    runs |= {event["run_id"] for event in at.units.events if event["kind"] == "decision" and event["own"]}
    if not runs:
        small_tables.write(at.paths, "actions", [])
        small_tables.write(at.paths, "costs", [])
        return
    zeros, events = ([row for row in rows if row["run_id"] in runs] for rows in (zeros, events))
    changes = [row for row in collect_rows(at.read("changes")) if row["run_id"] in runs]
    decisions = [row for row in at.rows("decisions") if row["run_id"] in runs]
    of_policies = actions.carried_out(decisions, changes, at.units.events, at.units.of_machines)
    spans = actions.action_spans(of_policies, events, zeros)
    frame_of = partial(small_tables.frame_of_rows, at.spark)
    rows: list[list[Row]] = [[], [], []]
    if spans:
        frame = frame_of([tuple(span.values()) for span in spans], scale_events.SPANS)
        settled = placement.last_placements(at.read("placements"), frame)
        restarts = placement.restarts(at.read("worker_samples"), frame)
        rows = [collect_rows(actions.tasks_moved(settled)), collect_rows(actions.workers_restarted(restarts)),
                _loss_rows(at, components, frame, spans)]  # fmt: skip
    small_tables.write(at.paths, "actions", actions.action_rows(of_policies, changes, *rows))

    axis_s = {unit_of(row): row["zero_s"] for row in zeros}
    names = ("begin_s", "end_s")
    parts = [dict(zip((*PHASE, *names), part, strict=True)) for part in service.part_rows(events, zeros)]
    parts = [part | {name: part[name] + axis_s[unit_of(part)] for name in names} for part in parts]
    cluster_of = {unit: cluster for cluster, units in at.units.clusters.items() for unit in units}
    ends = [(*unit_of(row), row["last_s"], cluster_of.get(unit_of(row), (None, None))[1]) for row in zeros]
    spent = actions.executor_seconds(
        at.read("placements"), frame_of(ends, "run_id string, topology string, last_s double, cluster string"),
        frame_of([tuple(part.values()) for part in parts], f"{PHASE_SCHEMA}, begin_s double, end_s double"),
    )  # fmt: skip
    rounds_s: dict[str, list[float]] = defaultdict(list)
    for row in at.rows("rounds", runs):
        rounds_s[row["run_id"]] += [row["t_s"]] if row["may_act"] else []
    costs = actions.cost_rows(parts, of_policies, rounds_s, collect_rows(spent), at.units.clusters)
    small_tables.write(at.paths, "costs", costs)


def build_latency(at: TableAccess, spans: DataFrame) -> None:
    """Write `latency` (a row an event and window) and from it `interval_latency` (a row an event and phase)."""
    windows = at.write("latency", latency.windows(at.read("sink_samples"), spans, _clocks(at)))
    at.write("interval_latency", latency.of_intervals(windows, at.read("intervals")))


def _clocks(at: TableAccess) -> DataFrame:
    lines = uncertainty.clock_lines(*(small_tables.rows(at.paths, name) for name in ("machines", "runs", "events")))
    return small_tables.frame_of_rows(at.spark, lines, uncertainty.CLOCKS)


def build_machine_load(at: TableAccess, spans: DataFrame) -> None:
    """Write `cpu` (a row an event, phase and machine), `cpu_windows` (a window and machine), `group_windows` (a
    window and group), `network` (an event, phase, machine and interface), `network_windows` (an event and window)."""
    intervals, whole = at.read("intervals"), at.read_of_machines("machine_samples")
    samples = whole
    if spans_s := machine_load.memberships(small_tables.rows(at.paths, "events")):
        known = small_tables.frame_of_rows(at.spark, spans_s, machine_load.MEMBERSHIPS)
        samples = machine_load.of_members(whole, known)
    at.write("cpu", machine_load.cpu(samples, at.read("machines"), intervals, spans))
    at.write("cpu_windows", machine_load.cpu_windows(whole, at.read("zeros")))
    groups = [(row["run_id"], row["machine"], row["group"])
              for row in small_tables.rows(at.paths, "machines") if row["group"]]  # fmt: skip
    grouped = small_tables.frame_of_rows(at.spark, groups, machine_load.GROUPS)
    at.write("group_windows", machine_load.group_windows(samples, grouped, at.read("zeros")))
    network = at.read_of_machines("network_samples")
    at.write("network", machine_load.network(network, intervals, spans))
    at.write("network_windows", machine_load.network_windows(network, at.read("machines"), spans))


def build_traffic(at: TableAccess, components: DataFrame, spans: DataFrame) -> None:
    """Write `task_traffic` (a row an event, phase, pair of tasks and their slots) and from it `tuple_rates` (an event
    and phase)."""
    intervals = at.read("intervals")
    stays = traffic.stays(at.read("task_samples", ("pid",)))
    passed = at.write("task_traffic", traffic.task_traffic(at.read("traffic_samples"), stays, intervals, spans))
    samples = at.read("task_samples"), components, at.read("placements")
    at.write("tuple_rates", traffic.tuple_rates(passed, *samples, intervals, spans))


def build_placement(at: TableAccess, spans: DataFrame) -> None:
    """Write `settled` (an event, phase and task), `slots` (an event and slot), `moves` and `running` (an event)."""
    # Not of a topology that departs by it.
    spans = spans.where(f.coalesce(f.col("until_s") > f.col("zero_s"), f.lit(True)))
    placements = at.write("settled", placement.last_placements(at.read("placements"), spans))
    restarts = placement.restarts(at.read("worker_samples"), spans)
    slots = at.write("slots", placement.slots(placements, restarts, at.read("machines")))
    at.write("moves", placement.moves(placements, spans))
    spans = spans.where(f.col("kind") != "hold")  # it requests nothing, so nothing can run after it
    samples = at.read("worker_samples"), at.read("task_samples")
    at.write("running", placement.time_to_running(placements, slots, *samples, spans))


def build_loading(at: TableAccess) -> None:
    """Write `loading`, a row a topology that arrives."""
    firsts = collect_rows(placement.first_sample_of_tasks(at.read("task_samples")))  # a row a task
    small_tables.write(at.paths, "loading", placement.time_to_load(at.rows("events"), firsts, at.rows("components")))


def collect_rows(frame: DataFrame) -> list[Row]:
    """Collect rows whose number does not grow with the samples."""
    return [row.asDict() for row in frame.collect()]
