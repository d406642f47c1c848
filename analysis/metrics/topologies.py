"""Units of metrics: one topology in one run, and the cluster of all if a run has several topologies.

In this folder a row's `run_id` is that unit, `run/topology`: no transform can mix rows of two topologies, whose task
numbers and component names may be the same. `TableAccess` of `build` makes it and splits it. The numbers of the
cluster, `run/all`, are sums of its topologies'.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor, inf
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.definitions import METRICS
from analysis.metrics.throughput import EDGE_S, WINDOW_S, downtime_of_axis, grid
from analysis.record.event_timeline import WHOLE_RUN, ZEROS
from analysis.record.small_tables import SEPARATOR, Row, run_of, topology_of, unit_of
from barograph.plan.experiment import WHOLE_CLUSTER

Stretch = tuple[int, int]


@dataclass(frozen=True)
class Units:
    """The units of a series. `topologies`: run -> names in the order of the plan, `""` if its record names none;
    `ids`: those that Storm gave; `events`: rows of the table, of all runs."""

    topologies: Mapping[str, tuple[str, ...]]
    ids: Mapping[tuple[str, str], str]
    events: Sequence[Row]

    @classmethod
    def of(cls, runs: Iterable[Row], topologies: Iterable[Row], events: Sequence[Row]) -> "Units":
        names: dict[str, list[str]] = {run["run_id"]: [] for run in runs}
        ids = {}
        for row in sorted(topologies, key=lambda row: int(row["position"])):
            names[row["run_id"]].append(row["topology"])
            if row["topology_id"]:
                ids[row["run_id"], row["topology"]] = row["topology_id"]
        return cls({run_id: tuple(topology_names) or ("",) for run_id, topology_names in names.items()}, ids, events)

    @cached_property
    def with_cluster(self) -> dict[str, tuple[str, ...]]:
        return {run: (*names, WHOLE_CLUSTER) if len(names) > 1 else names for run, names in self.topologies.items()}

    @cached_property
    def of_machines(self) -> dict[str, tuple[str, ...]]:
        """Return the unit to which machine metrics are booked."""
        return {run: (WHOLE_CLUSTER,) if len(names) > 1 else names for run, names in self.topologies.items()}

    @cached_property
    def clusters(self) -> dict[str, tuple[str, ...]]:
        """Return the cluster's unit of each run of several topologies -> the topologies' units."""
        return {
            unit_of(run, WHOLE_CLUSTER): tuple(unit_of(run, name) for name in names)
            for run, names in self.topologies.items() if len(names) > 1
        }  # fmt: skip

    # --- rows ---

    def events_of_units(self, events: Iterable[Row]) -> list[Row]:
        """Return each unit's events: its own and the cluster's. All units share the zero of an event."""
        return [
            event | {"run_id": unit_of(event["run_id"], name)}
            for event in events
            for name in self.with_cluster[event["run_id"]]
            if len(self.topologies[event["run_id"]]) == 1 or _concerns(event, name)
        ]

    def rows_of_units(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows of runs, for each of their units."""
        return [
            row | {"run_id": unit_of(row["run_id"], name)} for row in rows for name in self.with_cluster[row["run_id"]]
        ]

    @cached_property
    def spans_s(self) -> dict[str, tuple[float, float]]:
        """Return for units that arrive, depart or are killed in their run the time from when until when they exist."""
        spans: dict[str, tuple[float, float]] = {}
        for event in self.events:
            change, name = arrival_or_departure(event) or event["kind"] == "topology_killed", event.get("topology")
            if change and name and name in self.topologies[event["run_id"]]:
                unit = unit_of(event["run_id"], name)
                from_s, until_s = spans.get(unit, (-inf, inf))
                if change == "arrival":
                    spans[unit] = (event["t_s"] if from_s == -inf else min(from_s, event["t_s"]), until_s)
                else:
                    spans[unit] = (from_s, min(until_s, event["t_s"]))
        return spans

    def span_s(self, unit: str) -> tuple[float, float]:
        return self.spans_s.get(unit, (-inf, inf))

    def there(self, cluster: str, from_s: float, until_s: float) -> list[str]:
        """Return the topologies of a cluster that run at some time in between, without those that were never
        submitted."""
        return [
            unit for unit in self.clusters[cluster]
            if (run_of(unit), topology_of(unit)) in self.ids
            and self.span_s(unit)[0] < until_s and self.span_s(unit)[1] > from_s
        ]  # fmt: skip

    # --- columns ---

    def unit_of_line(self) -> Column:
        """Return the unit of a row with `run_id` and `topology`, an id in Storm; null if the record does not name that
        topology. All rows of a run whose record has no id, as in other people's logs, get its only one. Sets of keys
        instead of a join: a set finds its key at once, and below a join Spark reads all lists of a line."""
        keys: dict[str, list[str]] = defaultdict(list)
        runs_without_id: dict[str, list[str]] = defaultdict(list)
        for run, names in self.topologies.items():
            for name in names:
                if (run, name) in self.ids:
                    keys[name].append(f"{run}{SEPARATOR}{self.ids[run, name]}")
                elif len(names) == 1:
                    runs_without_id[name].append(run)
        name_of_row = f.lit(None).cast("string")
        for name in sorted({*keys, *runs_without_id}):
            is_match = f.concat_ws(SEPARATOR, "run_id", "topology").isin(keys[name]) if keys[name] else f.lit(False)
            if runs_without_id[name]:
                is_match = is_match | f.col("run_id").isin(runs_without_id[name])
            name_of_row = f.when(is_match, f.lit(name)).otherwise(name_of_row)
        return f.concat(f.col("run_id"), f.lit(SEPARATOR), name_of_row)

    def in_units(self, rows: DataFrame, names_of: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """Return rows of runs, for each of the units that `names_of` gives."""
        runs: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for run, names in names_of.items():
            runs[names].append(run)
        columns = [f.col(f"`{column}`") for column in rows.columns if column != "run_id"]
        lists = f.lit(None).cast("array<string>")
        for names, run_ids in sorted(runs.items()):
            name_array = f.array(*[f.lit(name) for name in names])
            lists = name_array if len(runs) == 1 else f.when(f.col("run_id").isin(run_ids), name_array).otherwise(lists)
        has_several = any(len(names) > 1 for names in runs)
        name = f.explode(lists) if has_several else f.get(lists, f.lit(0))
        unit_rows = rows.select("*", name.alias("_unit"))
        return unit_rows.select(f.concat(f.col("run_id"), f.lit(SEPARATOR), f.col("_unit")).alias("run_id"), *columns)

    def while_there(self, rows: DataFrame) -> DataFrame:
        """Return rows of units with `t_s` and `dt_s`: none of before a topology arrived, or of after it departed."""
        if not self.spans_s:
            return rows
        ends = [f.create_map(*[part for unit, span in self.spans_s.items() for part in (f.lit(unit), f.lit(span[i]))])
                for i in (0, 1)]  # fmt: skip
        middle = f.col("t_s") - f.col("dt_s") / 2
        after_start = f.coalesce(middle >= f.try_element_at(ends[0], f.col("run_id")), f.lit(True))
        return rows.where(after_start & f.coalesce(middle < f.try_element_at(ends[1], f.col("run_id")), f.lit(True)))


def _concerns(event: Row, name: str) -> bool:
    if event["kind"] in ZEROS or arrival_or_departure(event):
        return True
    if event.get("topology") is not None:
        return bool(event["topology"] == name)
    return event.get("topologies") is None or name == WHOLE_CLUSTER or name in event["topologies"]


def arrival_or_departure(event: Row) -> str | None:
    """Return `arrival` or `departure` for an event's line; None for others."""
    kind = event.get("event") if event["kind"] == "event_performed" else None
    return kind if kind in ("arrival", "departure") else None


# --- the cluster ------------------------------------------------------------------------------------------------------


def since_submission(bounds: Iterable[Row], events: Iterable[Row], units: Units) -> list[Row]:
    """Return the observed time of each unit (rows of `throughput.observation_times`), also of topologies that never had
    a worker while probes reported: they were to work from their submission on (`events`: of the units)."""
    submissions = {event["run_id"]: event["t_s"] for event in events if event["kind"] == "topology_submitted"}
    rows = []
    for row in bounds:
        run, name = run_of(row["run_id"]), topology_of(row["run_id"])
        is_on_record = (run, name) in units.ids or len(units.topologies[run]) == 1
        was_silent = row["first_s"] is None and is_on_record
        rows.append(row | {"first_s": submissions.get(row["run_id"])} if was_silent else row)
    return rows


def with_clusters(bounds: Sequence[Row], units: Units) -> list[Row]:
    """Return the observed time of each unit (rows of `throughput.observation_times`), including the clusters."""
    by_unit = {row["run_id"]: row for row in bounds}
    rows = list(bounds)
    for cluster, members in units.clusters.items():
        parts = [by_unit[unit] for unit in members if unit in by_unit]
        ends = {"first_s": min, "worker_last_s": max, "machine_last_s": max, "line_s": max}
        rows.append({"run_id": cluster} | {
            name: end((part[name] for part in parts if part.get(name) is not None), default=None)
            for name, end in ends.items()
        })  # fmt: skip
    return rows


def on_one_axis(zeros: Sequence[Row], units: Units) -> list[Row]:
    """Let every topology's time axis begin with its run's, also in a run without events."""
    zero_s = {row["run_id"]: row["zero_s"] for row in zeros}
    cluster_of = {unit: cluster for cluster, members in units.clusters.items() for unit in (cluster, *members)}
    return [row | {"zero_s": zero_s[cluster_of.get(row["run_id"], row["run_id"])]} for row in zeros]


def throughput_of_clusters(axes: Iterable[Row], rows: Iterable[Row], units: Units) -> list[Row]:
    """Return windows of the clusters' axes: the sums of the topologies' total, spouts and due. Null without reports of
    one that was to run in the window, because that is not 0."""
    rates: dict[tuple[str, str, str], dict[float, float | None]] = defaultdict(dict)
    for row in rows:
        if not row["component"]:
            rates[row["run_id"], row["event_id"], row["scope"]][row["window_s"]] = row["rate"]
    return [
        row for axis in axes if axis["run_id"] in units.clusters for row in _rows_of_axis(axis, rates, units)
    ]  # fmt: skip


def _rows_of_axis(
    axis: Row, rates: Mapping[tuple[str, str, str], Mapping[float, float | None]], units: Units
) -> Iterator[Row]:
    cluster, event_id, zero_s = axis["run_id"], axis["event_id"], axis["zero_s"]
    members = units.clusters[cluster]
    # A topology that comes with a later event is in the last window of this one's axis only, which is not whole.
    present_units = members if event_id == WHOLE_RUN else units.there(cluster, axis["first_s"], axis["last_s"])
    scopes = [
        s for s in ("total", "spouts", "due") if s == "total" or any(rates.get((u, event_id, s)) for u in present_units)
    ]
    for window_s, complete in grid(axis):
        unit_ids = units.there(cluster, zero_s + window_s + EDGE_S, zero_s + window_s + WINDOW_S - EDGE_S)
        for scope in scopes:
            parts = [rates.get((unit, event_id, scope), {}).get(window_s) for unit in unit_ids if unit in present_units]
            numbers = [part for part in parts if part is not None]
            yield {
                "run_id": cluster, "event_id": event_id, "window_s": window_s, "scope": scope, "component": "",
                "rate": sum(numbers) if parts and len(numbers) == len(parts) else None, "complete": complete,
            }  # fmt: skip


def queues_of_clusters(activity: Iterable[Row], units: Units) -> Iterator[Row]:
    """Yield the queues at each component of each topology, as the cluster's; components of several topologies may share
    names."""
    cluster_of = {unit: cluster for cluster, members in units.clusters.items() for unit in members}
    for row in activity:
        if row["run_id"] in cluster_of:
            component = f"{topology_of(row['run_id'])} {row['component']}"
            yield row | {"run_id": cluster_of[row["run_id"]], "component": component}


def downtimes_of_clusters(axes: Iterable[Row], silences: Iterable[Row], units: Units) -> list[Row]:
    """Return seconds after each event in which no sink of any topology executed a tuple; none without reports of
    one."""
    axes = list(axes)
    gaps: dict[tuple[str, str], list[Stretch]] = defaultdict(list)
    for row in silences:
        gaps[row["run_id"], row["event_id"]].append((row["from_second"], row["until_second"]))
    keys = {(axis["run_id"], axis["event_id"]) for axis in axes}
    rows = []
    for axis in axes:
        event_id = axis["event_id"]
        if axis["run_id"] in units.clusters and event_id != WHOLE_RUN:
            unit_ids = units.there(axis["run_id"], axis["zero_s"], axis["last_s"])
            if unit_ids and all((unit, event_id) in keys for unit in unit_ids):
                end = floor(axis["last_s"] - axis["zero_s"] - EDGE_S)
                rows.append(downtime_of_axis(axis, _in_all([gaps[unit, event_id] for unit in unit_ids], end)))
    return rows


def _in_all(stretches: Sequence[Sequence[Stretch]], end: int) -> list[Stretch]:
    """Return seconds that lie in a stretch of each, as stretches; a topology that has departed counts as silent."""
    result: list[Stretch] = [(0, end)]
    for each in stretches:
        cuts = ((max(a, c), min(b, d)) for a, b in result for c, d in sorted(each))
        result = [(start, stop) for start, stop in cuts if start < stop]
    return result


def sums_of_clusters(
    measurements: Sequence[Row], spans: Iterable[Row], levels: Iterable[Row], units: Units
) -> list[Row]:
    """Return measurements of the clusters that are sums of their topologies': of each that was there on that side of
    the event, for utility of each with a service level. None if one was not measured; but a topology without lines on a
    side that executed nothing has lost nothing there."""
    values = {(row["run_id"], row["event_id"], row["metric"]): row for row in measurements}
    null_part = {"value": 0.0, "steady": None}
    level_units = {row["run_id"] for row in levels if row["max_utility"] is not None}
    rows = []
    for span in (span for span in spans if span["run_id"] in units.clusters):
        for metric in (each.name for each in METRICS.values() if each.is_sum):
            side = metric.split("_")[1]
            ends = (span["first_s"], span["zero_s"]) if side == "before" else (span["zero_s"], span["last_s"])
            unit_ids = [unit for unit in units.there(span["run_id"], *ends)
                    if unit in level_units or not metric.startswith("utility_")]  # fmt: skip
            parts = [values.get((unit, span["event_id"], metric)) for unit in unit_ids]
            if metric.startswith("lost_"):
                rates = [values.get((unit, span["event_id"], f"throughput_{side}")) for unit in unit_ids]
                parts = [part or (null_part if rate and rate["value"] == 0 else None)
                         for part, rate in zip(parts, rates, strict=True)]  # fmt: skip
            if (parts_found := [part for part in parts if part]) and len(parts_found) == len(parts):
                steady: set[Any] = {part["steady"] for part in parts_found}
                rows.append({
                    "run_id": span["run_id"], "event_id": span["event_id"], "metric": metric,
                    "value": sum(part["value"] for part in parts_found), "censored": False,
                    "steady": False if False in steady else None if None in steady else True,
                })  # fmt: skip
    return rows
