"""Units of metrics: one topology in one run, and the cluster of all if a run has several topologies.

Lines name a topology by its id in Storm, samples of machines name none, and events belong to one or to all: here each
row gets the columns of its unit. The numbers of the cluster, whose topology is `all`, are sums of its topologies'.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.definitions import METRICS
from analysis.metrics.throughput import EDGE_S, WINDOW_S, downtime_of_axis, grid
from analysis.record.event_timeline import WHOLE_RUN, ZEROS
from analysis.record.small_tables import UNIT, Row, Unit, unit_columns, unit_of
from barograph.plan.experiment import WHOLE_CLUSTER


@dataclass(frozen=True)
class Units:
    """The units of a series. `topologies`: run -> names in the order of the plan, `""` if its record names none;
    `ids`: those that Storm gave; `events`: rows of the table, of all runs."""

    topologies: Mapping[str, tuple[str, ...]]
    ids: Mapping[Unit, str]
    events: Sequence[Row]

    @classmethod
    def of(cls, runs: Iterable[Row], topologies: Iterable[Row], events: Sequence[Row]) -> "Units":
        names: dict[str, list[str]] = {run["run_id"]: [] for run in runs}
        ids = {}
        for row in sorted(topologies, key=lambda row: int(row["position"])):
            names[row["run_id"]].append(row["topology"])
            if row["topology_id"]:
                ids[unit_of(row)] = row["topology_id"]
        return cls({run_id: tuple(found) or ("",) for run_id, found in names.items()}, ids, events)

    @cached_property
    def with_cluster(self) -> dict[str, tuple[str, ...]]:
        return {run: (*names, WHOLE_CLUSTER) if len(names) > 1 else names for run, names in self.topologies.items()}

    @cached_property
    def of_machines(self) -> dict[str, tuple[str, ...]]:
        """Return the topology to which machine metrics are booked: the only one, else the cluster."""
        return {run: (WHOLE_CLUSTER,) if len(names) > 1 else names for run, names in self.topologies.items()}

    @cached_property
    def clusters(self) -> dict[Unit, tuple[Unit, ...]]:
        """Return the cluster's unit of each run of several topologies -> the topologies' units."""
        return {
            (run, WHOLE_CLUSTER): tuple((run, name) for name in names)
            for run, names in self.topologies.items() if len(names) > 1
        }  # fmt: skip

    # --- rows ---

    def events_of_units(self, events: Iterable[Row]) -> list[Row]:
        """Return each unit's events: its own and the cluster's. All units share the zero of an event."""
        return [
            event | {"topology": name}
            for event in events
            for name in self.with_cluster[event["run_id"]]
            if len(self.topologies[event["run_id"]]) == 1 or _concerns(event, name)
        ]

    def rows_of_units(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows of runs, for each of their units."""
        return [row | {"topology": name} for row in rows for name in self.with_cluster[row["run_id"]]]

    @cached_property
    def spans_s(self) -> dict[Unit, tuple[float, float]]:
        """Return for units that arrive, depart or are killed in their run the time from when until when they exist."""
        found: dict[Unit, tuple[float, float]] = {}
        for event in self.events:
            change = arrival_or_departure(event)
            names = event.get("topologies") or () if change else [event.get("topology")]
            for name in names if change or event["kind"] == "topology_killed" else ():
                if name not in self.topologies[event["run_id"]]:
                    continue
                unit = (event["run_id"], name)
                from_s, until_s = found.get(unit, (-inf, inf))
                if change == "arrival":
                    found[unit] = (event["t_s"] if from_s == -inf else min(from_s, event["t_s"]), until_s)
                else:
                    found[unit] = (from_s, min(until_s, event["t_s"]))
        return found

    def span_s(self, unit: Unit) -> tuple[float, float]:
        return self.spans_s.get(unit, (-inf, inf))

    def there(self, cluster: Unit, from_s: float, until_s: float) -> list[Unit]:
        """Return a cluster's topologies that run at some time in between, if they were submitted."""
        return [
            unit for unit in self.clusters[cluster]
            if unit in self.ids and self.span_s(unit)[0] < until_s and self.span_s(unit)[1] > from_s
        ]  # fmt: skip

    # --- columns ---

    def name_in_line(self) -> Column:
        """Return the name of the topology whose id in Storm a row has as `topology`; null of one that the record does
        not name. All rows of a run whose record has no id, as of other people's logs; none of these has two. Sets of
        keys, and no join: a set finds its key at once, and below a join Spark reads all lists of a line."""
        keys: dict[str, list[str]] = defaultdict(list)
        without: dict[str, list[str]] = defaultdict(list)
        for run, names in self.topologies.items():
            for name in names:
                if (run, name) in self.ids:
                    keys[name].append(f"{run}/{self.ids[run, name]}")
                elif len(names) == 1:
                    without[name].append(run)
        name_of_row = f.lit(None).cast("string")
        for name in sorted({*keys, *without}):
            mine = f.concat_ws("/", *UNIT).isin(keys[name]) if keys[name] else f.lit(False)
            if without[name]:
                mine = mine | f.col("run_id").isin(without[name])
            name_of_row = f.when(mine, f.lit(name)).otherwise(name_of_row)
        return name_of_row

    def in_units(self, rows: DataFrame, names_of: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """Return rows of runs, for each of the units that `names_of` gives."""
        runs: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for run, names in names_of.items():
            runs[names].append(run)
        lists = f.lit(None).cast("array<string>")
        for names, of in sorted(runs.items()):
            here = f.array(*[f.lit(name) for name in names])
            lists = here if len(runs) == 1 else f.when(f.col("run_id").isin(of), here).otherwise(lists)
        several = any(len(names) > 1 for names in runs)
        name = f.explode(lists) if several else f.get(lists, f.lit(0))
        return rows.select("*", name.alias("topology"))

    def while_there(self, rows: DataFrame) -> DataFrame:
        """Return rows of units with `t_s` and `dt_s`: none of before a topology arrived, or of after it departed."""
        if not self.spans_s:
            return rows
        spans = [("/".join(unit), span) for unit, span in self.spans_s.items()]
        ends = [f.create_map(*[f.lit(part) for name, span in spans for part in (name, span[i])]) for i in (0, 1)]
        unit = f.concat_ws("/", *UNIT)
        middle = f.col("t_s") - f.col("dt_s") / 2
        begun = f.coalesce(middle >= f.try_element_at(ends[0], unit), f.lit(True))
        return rows.where(begun & f.coalesce(middle < f.try_element_at(ends[1], unit), f.lit(True)))


def _concerns(event: Row, name: str) -> bool:
    if event["kind"] in ZEROS or arrival_or_departure(event):
        return True
    if event.get("topology") is not None:
        return bool(event["topology"] == name)
    return event.get("topologies") is None or name == WHOLE_CLUSTER or name in event["topologies"]


def arrival_or_departure(event: Row) -> str | None:
    """Return `arrival` or `departure` for an event's line; None for others."""
    found = event.get("event") if event["kind"] == "event_performed" else None
    return found if found in ("arrival", "departure") else None


# --- the cluster ------------------------------------------------------------------------------------------------------


def since_submission(bounds: Iterable[Row], events: Iterable[Row], units: Units) -> list[Row]:
    """Return the observed time of each unit (rows of `throughput.observation_times`), also of topologies that never had
    a worker while probes reported: they were to work from their submission on (`events`: of the units)."""
    submitted = {unit_of(event): event["t_s"] for event in events if event["kind"] == "topology_submitted"}
    rows = []
    for row in bounds:
        is_on_record = unit_of(row) in units.ids or len(units.topologies[row["run_id"]]) == 1
        never = row["first_s"] is None and is_on_record
        rows.append(row | {"first_s": submitted.get(unit_of(row))} if never else row)
    return rows


def with_clusters(bounds: Sequence[Row], units: Units) -> list[Row]:
    """Return the observed time of each unit (rows of `throughput.observation_times`), including the clusters."""
    of = {unit_of(row): row for row in bounds}
    found = list(bounds)
    for cluster, members in units.clusters.items():
        parts = [of[unit] for unit in members if unit in of]
        ends = {"first_s": min, "worker_last_s": max, "machine_last_s": max, "line_s": max}
        found.append(unit_columns(cluster) | {
            name: end((part[name] for part in parts if part.get(name) is not None), default=None)
            for name, end in ends.items()
        })  # fmt: skip
    return found


def on_one_axis(zeros: Sequence[Row]) -> list[Row]:
    """Let every topology's time axis begin with its run's, also in a run without events."""
    zero_s = {unit_of(row): row["zero_s"] for row in zeros}
    return [row | {"zero_s": zero_s.get((row["run_id"], WHOLE_CLUSTER), row["zero_s"])} for row in zeros]


def throughput_of_clusters(axes: Iterable[Row], rows: Iterable[Row], units: Units) -> list[Row]:
    """Return windows of the clusters' axes: the sums of the topologies' total, spouts, due and dropped. Null without
    reports of one that was to run in the window, because that is not 0."""
    rates: dict[tuple[Unit, str, str], dict[float, float | None]] = defaultdict(dict)
    for row in rows:
        if not row["component"]:
            rates[unit_of(row), row["event_id"], row["scope"]][row["window_s"]] = row["rate"]
    found = []
    for axis in (each for each in axes if unit_of(each) in units.clusters):
        cluster, event, zero_s = unit_of(axis), axis["event_id"], axis["zero_s"]
        # A topology that comes with a later event is in the last window of this one's axis only, which is not whole.
        is_whole = event == WHOLE_RUN
        here = units.clusters[cluster] if is_whole else units.there(cluster, axis["first_s"], axis["last_s"])
        measured = (s for s in ("spouts", "due", "dropped") if any(rates.get((unit, event, s)) for unit in here))
        scopes = ["total", *measured]
        for window_s, complete in grid(axis):
            running = units.there(cluster, zero_s + window_s + EDGE_S, zero_s + window_s + WINDOW_S - EDGE_S)
            for scope in scopes:
                parts = [rates.get((unit, event, scope), {}).get(window_s) for unit in running if unit in here]
                known = [part for part in parts if part is not None]
                found.append({
                    **unit_columns(cluster), "event_id": event, "window_s": window_s, "scope": scope, "component": "",
                    "rate": sum(known) if parts and len(known) == len(parts) else None, "complete": complete,
                })  # fmt: skip
    return found


def queues_of_clusters(activity: Iterable[Row], units: Units) -> Iterator[Row]:
    """Yield each topology's queues as the cluster's; components of several topologies may share names."""
    for row in activity:
        if unit_of(row) in units.clusters.get((row["run_id"], WHOLE_CLUSTER), ()):
            yield row | {"topology": WHOLE_CLUSTER, "component": f"{row['topology']} {row['component']}"}


def downtimes_of_clusters(axes: Iterable[Row], silences: Iterable[Row], units: Units) -> list[Row]:
    """Return seconds after each event in which no topology's sink executed; none without reports of one."""
    axes = list(axes)
    found: dict[tuple[Unit, str], list[tuple[int, int]]] = defaultdict(list)
    for row in silences:
        found[unit_of(row), row["event_id"]].append((row["from_second"], row["until_second"]))
    observed = {(unit_of(axis), axis["event_id"]) for axis in axes}
    rows = []
    for axis in axes:
        event_id = axis["event_id"]
        if unit_of(axis) in units.clusters and event_id != WHOLE_RUN:
            here = units.there(unit_of(axis), axis["zero_s"], axis["last_s"])
            if here and all((unit, event_id) in observed for unit in here):
                # Seconds that lie in a stretch of each; a topology that has departed counts as silent.
                begin = ceil(axis["first_s"] - axis["zero_s"])
                common = [(begin, floor(axis["last_s"] - axis["zero_s"] - EDGE_S))]
                for unit in here:
                    cuts = ((max(a, c), min(b, d)) for a, b in common for c, d in sorted(found[unit, event_id]))
                    common = [(start, stop) for start, stop in cuts if start < stop]
                rows.append(downtime_of_axis(axis, common))
    return rows


def sums_of_clusters(measurements: Sequence[Row], spans: Iterable[Row], units: Units) -> list[Row]:
    """Return measurements of the clusters that are sums of their topologies': of each that was there on that side of
    the event. None if one was not measured; but a topology without lines on a side that executed nothing has lost
    nothing there."""
    values = {(unit_of(row), row["event_id"], row["metric"]): row for row in measurements}
    nothing = {"value": 0.0, "steady": None}
    rows = []
    for span in (span for span in spans if unit_of(span) in units.clusters):
        for metric in (each.name for each in METRICS.values() if each.is_sum):
            side = metric.split("_")[1]
            ends = (span["first_s"], span["zero_s"]) if side == "before" else (span["zero_s"], span["last_s"])
            here = units.there(unit_of(span), *ends)
            parts = [values.get((unit, span["event_id"], metric)) for unit in here]
            if metric.startswith("dropped_"):  # a topology without a limit drops nothing
                parts = [part for part in parts if part]
            if metric.startswith("lost_"):
                rates = [values.get((unit, span["event_id"], f"throughput_{side}")) for unit in here]
                parts = [part or (nothing if rate and rate["value"] == 0 else None)
                         for part, rate in zip(parts, rates, strict=True)]  # fmt: skip
            if (found := [part for part in parts if part]) and len(found) == len(parts):
                steady: set[Any] = {part["steady"] for part in found}
                rows.append({
                    **unit_columns(unit_of(span)), "event_id": span["event_id"], "metric": metric,
                    "value": sum(part["value"] for part in found), "censored": False,
                    "steady": False if False in steady else None if None in steady else True,
                })  # fmt: skip
    return rows
