"""Service levels over time: latency, juice, utility of each topology in windows of 10 s, and what it attained in a part
of a run. Source: Henge (HP 4.1, 5, 7).

Everything runs in Spark, because rows grow with the watch. The expressions of utility and juice are those of
`scheduler_plugins.service_level`, which policies use; a test holds the two together. Juice is of the minute up to the
end of a window: HP has "a sliding window of 1 minute, collecting data in sub-windows of length 10 s".

Of a source, E / T of eq. 5 is the emitted share of the due tuples, which are its input. HP has 1, where a source emits
whatever arrives; with back-pressure tuples that were not emitted wait there and nowhere else. A source without due
tuples does not count as one; one that emits as fast as it can always has something to emit.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from graphlib import CycleError, TopologicalSorter
from math import inf

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analysis.metrics.throughput import WINDOW_S
from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.small_tables import EVENT, PHASE, UNIT, Row, Unit, by_unit, unit_of
from barograph.plan.experiment import WHOLE_CLUSTER
from scheduler_plugins.service_level import MET

WINDOW = (*UNIT, "window_s")
MINUTE = 6  # windows
READING_S = 60.0  # before a reading: what it covers at most
SETTLED = 0.05  # of the largest utility: the drop at which Henge looks at a converged cluster again (HP 4.3.3)
MOST_PARTS = 240  # of a run, in `attained_over_time`
QUANTILES = [place / 40 for place in range(41)]
PERCENTILES = {"attained_p5": 0.05, "attained_p15": 0.15, "attained_p50": 0.50, "attained_p90": 0.90}
# The events from which on a policy may act: the time of a run as a whole (`e0`) begins with the first of them.
MAY_ACT = ("hold", "scale_out", "scale_in", "reschedule")
LEVELS = "run_id string, topology string, limit_ms double, least_juice double, max_utility double, unthrottled boolean"
EDGES = "run_id string, topology string, rank int, source string, target string"
SPANS = "run_id string, topology string, event_id string, phase string, from_s double, until_s double"


# --- what is known of each topology: a few rows -----------------------------------------------------------------------


def level_rows(topologies: Iterable[Row], unthrottled: Collection[Unit]) -> list[tuple[object, ...]]:
    """Return rows of `LEVELS`, of the topologies with a service level."""
    return [(*unit_of(row), row["latency_ms"], row["juice"], row["max_utility"], unit_of(row) in unthrottled)
            for row in topologies if row["max_utility"] is not None]  # fmt: skip


def unthrottled_units(runs: Iterable[Row]) -> frozenset[Unit]:
    """Return topologies whose sources emit as fast as they can. `runs`: a row for each topology of a run."""

    def is_unthrottled(run: Row) -> bool:
        spec, changes = json.loads(run["spec"] or "{}"), json.loads(run["topology_changes"] or "{}")
        every = spec.get("topologies") or [spec.get("topology") or {}]
        chosen: Row = next((e for e in every if len(every) == 1 or e.get("name") == run["topology"]), {})
        parts = [chosen, changes.get(chosen.get("name"), {}) if spec.get("topologies") else changes]
        parameters = {name: value for part in parts for name, value in (part.get("parameters") or {}).items()}
        return parameters.get("unthrottled") is True

    return frozenset(unit_of(run) for run in runs if is_unthrottled(run))


def edges_in_order(edges: Iterable[Row]) -> list[tuple[str, str, int, str, str]]:
    """Return rows of `EDGES`: each edge, whatever its streams, after all edges into its source; none of a topology with
    a circle, whose juice is unknown."""
    targets: dict[Unit, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for edge in edges:
        targets[unit_of(edge)][edge["source"]].add(edge["target"])
    rows: list[tuple[str, str, int, str, str]] = []
    for unit, of_unit in targets.items():
        try:
            order = [*TopologicalSorter(of_unit).static_order()][::-1]
        except CycleError:
            continue
        in_order = [(source, target) for source in order for target in sorted(of_unit.get(source, ()))]
        rows += [(*unit, rank, *edge) for rank, edge in enumerate(in_order)]
    return rows


def part_rows(events: Iterable[Row], zeros: Iterable[Row]) -> list[tuple[object, ...]]:
    """Return rows of `SPANS`, in seconds of the run's axis: both sides of each event and, as `after` of `e0`, the run
    from when a policy may first act to its end."""
    axes, of_units = {unit_of(row): row for row in zeros}, by_unit(events)
    rows: list[tuple[object, ...]] = []
    for unit, of_unit in of_units.items():
        zero_s, first_s = axes[unit]["zero_s"], axes[unit]["first_s"]
        real = [event for event in of_unit if event["event_id"] != WHOLE_RUN]
        begun_s = min((event["zero_s"] for event in real if event["kind"] in MAY_ACT), default=first_s)
        rows.append((*unit, WHOLE_RUN, "after", max(begun_s, first_s) - zero_s, inf))
        for event in real:
            begin_s = first_s if event["from_s"] is None else event["from_s"]
            end_s = inf if event["until_s"] is None else event["until_s"]
            sides = (("before", begin_s, event["zero_s"]), ("after", event["zero_s"], end_s))
            rows += [(*unit, event["event_id"], side, begin - zero_s, end - zero_s) for side, begin, end in sides]
    return rows


# --- windows ----------------------------------------------------------------------------------------------------------


def source_inputs(activity: DataFrame, axes: DataFrame) -> DataFrame:
    """Return due and emitted tuples of each source and window of the run's axis; `unknown`: nobody knows all that fell
    due. Null: not measured."""
    measured = f.col("due_unknown") | f.col("due").isNotNull() | f.col("emitted").isNotNull()
    return (
        activity.join(f.broadcast(axes.select(*EVENT)), list(EVENT), how="left_semi")
        .where(f.col("component").isNotNull() & measured)
        .select(*WINDOW, f.col("component").alias("source"), "due", "emitted", f.col("due_unknown").alias("unknown"))
    )


def busy_windows(throughput: DataFrame, inputs: DataFrame, levels: DataFrame) -> DataFrame:
    """Return the windows of topologies with a level, but those in which nothing was due and nothing came: all sources
    say so. Sources without reports, as of a topology that never got a worker, have something to emit."""
    idle = inputs.groupBy(*WINDOW).agg(f.bool_and(_is_idle()).alias("idle"))
    is_idle = f.coalesce(f.col("idle") & ~f.col("unthrottled"), f.lit(False))
    rate = f.col("rate")
    at_sinks = throughput.where(f.col("scope") == "sink").groupBy(*WINDOW, "complete").agg(f.sum("rate").alias("rate"))
    return (
        at_sinks.join(f.broadcast(levels.select(*UNIT, "unthrottled")), list(UNIT), how="inner")
        .join(idle, list(WINDOW), how="left")
        .where(rate.isNull() | (rate > 0) | ~is_idle)
        .select(*WINDOW, "complete", rate.isNotNull().alias("reported"),
                f.coalesce(rate > 0, f.lit(False)).alias("served"))
    )  # fmt: skip


def _is_idle() -> Column:
    return f.coalesce((f.col("due") == 0) & ~f.col("unknown"), f.lit(False))


def over_minutes(rows: DataFrame, served: DataFrame, keys: Collection[str], *sums: Column) -> DataFrame:
    """Return sums over the minute up to the end of each window of `served`, of those of its windows that are served."""
    offset = f.explode(f.sequence(f.lit(0), f.lit(MINUTE - 1))).alias("offset")
    values = [name for name in rows.columns if name not in WINDOW]
    spread = (
        rows.join(served.select(*WINDOW), list(WINDOW), how="left_semi")
        .select(*UNIT, "window_s", *values, offset)
        .select(*UNIT, (f.col("window_s") + WINDOW_S * f.col("offset")).alias("window_s"), *values)
    )
    return spread.join(served.select(*WINDOW), list(WINDOW), how="left_semi").groupBy(*WINDOW, *keys).agg(*sums)


def juices(
    served: DataFrame, counts: DataFrame, inputs: DataFrame, edges: DataFrame, levels: DataFrame
) -> DataFrame:  # fmt: skip
    """Return `juice` of each window of `served` (HP eq. 5 and 6), and whether nothing was due in its minute (`idle`).

    `counts`: tuples sent and executed by edge and window; `edges`: rows of `EDGES`. Null as for `service_level.juice`;
    and where a component's tuples were executed and never counted as sent.
    """
    served = served.join(f.broadcast(edges.select(*UNIT).distinct()), list(UNIT), how="left_semi")
    sums = over_minutes(
        counts.select(*WINDOW, "source", "target", "sent", "executed"), served, ("source", "target"),
        f.sum("sent").alias("sent"), f.sum("executed").alias("executed"),
    )  # fmt: skip
    sent = f.coalesce("sent", f.lit(0.0))
    total = f.sum(sent).over(Window.partitionBy(*WINDOW, "source"))
    passed = f.least(sent, f.coalesce("executed", f.lit(0.0))) / f.when(total > 0, total).otherwise(1.0)
    edge = f.struct("rank", "source", "target", passed.alias("passed"), total.alias("total"))
    of_edges = (
        served.select(*WINDOW)
        .join(f.broadcast(edges), list(UNIT), how="inner")
        .join(sums, [*WINDOW, "source", "target"], how="left")
        .select(*WINDOW, edge.alias("edge"))
        .groupBy(*WINDOW)
        .agg(f.array_sort(f.collect_list("edge")).alias("edges"))
    )
    counted = counts.groupBy(*UNIT, "source").agg(f.sum("sent").alias("sent"), f.sum("executed").alias("executed"))
    is_uncounted = f.bool_or((f.col("executed") > 0) & (f.col("sent") == 0))
    uncounted = f.broadcast(counted.groupBy(*UNIT).agg(is_uncounted.alias("uncounted")))
    value = f.when(f.col("edges").isNotNull() & ~f.coalesce("uncounted", f.lit(False)), juice_of("edges", "sources"))
    return (
        of_edges.join(_source_shares(served, inputs, edges, levels), list(WINDOW), how="inner")
        .join(uncounted, list(UNIT), how="left")
        .select(*WINDOW, value.alias("juice"), (f.size("sources") == 0).alias("idle"))
    )


def _source_shares(served: DataFrame, inputs: DataFrame, edges: DataFrame, levels: DataFrame) -> DataFrame:
    """Return by window the `sources` that had something to emit in its minute: each with its emitted share (null:
    unknown), which is 1 where due tuples are not measured, as in HP."""
    targets = edges.select(*UNIT, f.col("target").alias("source"))
    sources = edges.select(*UNIT, "source").distinct().join(targets, [*UNIT, "source"], how="left_anti")
    of_minutes = over_minutes(
        inputs, served, ("source",), f.sum("due").alias("due"), f.sum("emitted").alias("emitted"),
        f.bool_or("unknown").alias("unknown"),
    )  # fmt: skip
    has_emitted, unknown = f.coalesce(f.col("emitted") > 0, f.lit(False)), f.coalesce("unknown", f.lit(False))
    emitted = f.coalesce("emitted", f.lit(0.0)).cast("double")
    share = (
        f.when(f.col("unthrottled"), has_emitted.cast("double"))
        .when(unknown, f.when(~has_emitted, f.lit(0.0)))
        .when(f.col("due").isNull(), f.lit(1.0))
        .otherwise(f.least(f.lit(1.0), f.try_divide(emitted, f.col("due"))))
    )
    entry = f.when(f.col("unthrottled") | ~_is_idle(), f.struct("source", share.alias("share")))
    return (
        served.select(*WINDOW)
        .join(f.broadcast(sources), list(UNIT), how="inner")
        .join(f.broadcast(levels.select(*UNIT, "unthrottled")), list(UNIT), how="inner")
        .join(of_minutes, [*WINDOW, "source"], how="left")
        .withColumn("unknown", unknown)
        .groupBy(*WINDOW)
        .agg(f.collect_list(entry).alias("sources"))
    )


def juice_of(edges: str, sources: str) -> Column:
    """Return the juice of a topology as `service_level.juice` does: each component's share is the sum over its edges
    in, in an order in which the shares of their sources are known.

    `edges`: column of structs (rank, source, target, passed: executed of what its source sent on all edges, total: all
    that); `sources`: of structs (source, share).
    """

    def total(name: Column) -> Column:
        return f.coalesce(f.get(f.filter(edges, lambda edge: edge["source"] == name), f.lit(0))["total"], f.lit(0.0))

    def first_share(name: Column) -> Column:
        share = f.get(f.filter(sources, lambda source: source["source"] == name), f.lit(0))["share"]
        is_source = f.exists(sources, lambda source: source["source"] == name)
        is_uncounted = f.coalesce(share > 0, f.lit(False)) & (total(name) == 0)
        return f.when(~is_source, f.lit(0.0)).when(~is_uncounted, share)

    def add(shares: Column, edge: Column) -> Column:
        more = f.try_element_at(shares, edge["source"]) * edge["passed"]
        return f.transform_values(
            shares, lambda name, share: f.when(name == edge["target"], share + more).otherwise(share)
        )

    def of_sinks(shares: Column) -> Column:
        targets = f.array_distinct(f.transform(edges, lambda edge: edge["target"]))
        sinks = f.filter(targets, lambda name: total(name) == 0)
        is_unknown = f.exists(sources, lambda source: f.try_element_at(shares, source["source"]).isNull())
        whole = f.aggregate(sinks, f.lit(0.0), lambda sum, name: sum + f.try_element_at(shares, name))
        return f.when(~is_unknown & (f.size(sources) > 0), whole / f.size(sources))

    names = f.array_distinct(f.flatten(f.transform(edges, lambda edge: f.array(edge["source"], edge["target"]))))
    first = f.map_from_entries(f.transform(names, lambda name: f.struct(name, first_share(name))))
    return f.aggregate(edges, first, add, of_sinks)


def attained_share(latency_ms: Column, juice: Column) -> Column:
    """Return the attained share, 0 to 1, of the level in the columns `limit_ms` and `least_juice` (HP eq. 1 and 2); of
    both the mean (HP 7.2.2). Null: one is not measured."""
    limit_ms, least = f.col("limit_ms"), f.col("least_juice")
    of_latency = f.when(latency_ms.isNotNull(), limit_ms / f.greatest(limit_ms, latency_ms))
    of_juice = f.when(juice.isNotNull(), f.least(f.lit(1.0), juice / least))
    return f.when(limit_ms.isNull(), of_juice).when(least.isNull(), of_latency).otherwise((of_latency + of_juice) / 2)


def service(busy: DataFrame, latencies: DataFrame, juice: DataFrame, levels: DataFrame) -> DataFrame:
    """Return rows of the table `service` but for the cluster's, with `max_utility` beside.

    0 where something was due and none came; in a silence that is usual the values of the window before it, null
    without reports. `busy`: of `busy_windows`; `latencies`: mean and p95; `juice`: of `juices`.
    """
    joined = (
        busy.where("complete")
        .join(f.broadcast(levels), list(UNIT), how="inner")
        .join(latencies.select(*WINDOW, "mean_ms", "p95_ms"), list(WINDOW), how="left")
        .join(juice, list(WINDOW), how="left")
        .where(~f.coalesce("idle", f.lit(False)))  # what came was due more than a minute ago
    )
    share = f.when(f.col("served"), attained_share(f.col("mean_ms"), f.col("juice")))
    reported = _with_silences(joined.withColumn("share", share))
    in_order = Window.partitionBy(*UNIT).orderBy("window_s")
    before = f.last("share", ignorenulls=True).over(in_order)
    first = f.first("share", ignorenulls=True).over(in_order.rowsBetween(0, Window.unboundedFollowing))
    is_down = ~f.col("served") & (f.col("silence") > f.col("usual"))
    attained = f.when(f.col("served"), f.col("share")).when(is_down, f.lit(0.0)).otherwise(f.coalesce(before, first))
    windows = reported.withColumn("attained", f.when(f.col("reported"), attained)).withColumn("down", is_down)
    down_juice = f.when(f.col("down") & f.col("least_juice").isNotNull(), f.lit(0.0))
    return windows.select(
        *WINDOW, f.col("mean_ms").alias("latency_ms"), "p95_ms",
        f.when(f.col("reported"), f.coalesce(f.when(f.col("served"), f.col("juice")), down_juice)).alias("juice"),
        (f.col("attained") * f.col("max_utility")).alias("utility"), f.col("attained").alias("share"),
        (f.col("attained") >= MET).alias("met"), "reported", "max_utility",
    )  # fmt: skip


def of_readings(readings: DataFrame, axes: DataFrame, levels: DataFrame) -> DataFrame:
    """Return rows as `service` does, from readings of other people's logs: each covers the windows of whose middle it
    is the next one, not more than `READING_S` before it. Without a utility in the log it is that of the level.

    Juice is the mean of the readings of the minute up to the end of a window.
    """
    begin_s, end_s = f.col("t_s") - f.col("dt_s") - f.col("zero_s"), f.col("t_s") - f.col("zero_s")
    first, last = (f.floor(each / WINDOW_S + 0.5).cast("bigint") for each in (begin_s, end_s))
    window = f.explode(f.when(first < last, f.sequence(first, last - 1))).alias("window")
    minute = Window.partitionBy(*UNIT).orderBy("window_s").rangeBetween(-WINDOW_S * (MINUTE - 1), 0)
    is_near = f.col("end_s") - f.col("window_s") - WINDOW_S / 2 <= READING_S
    logged = f.try_divide(f.col("utility"), f.col("most"))
    computed = attained_share(f.col("latency_ms"), f.col("average"))
    known = f.coalesce(logged, computed)  # Spark's greatest and least leave nulls out
    share = f.when(is_near & known.isNotNull(), f.greatest(f.lit(0.0), f.least(f.lit(1.0), known)))
    most = f.coalesce("most", "max_utility")
    return (
        readings.where(f.col("dt_s").isNotNull())
        .withColumnRenamed("max_utility", "most")
        .join(f.broadcast(axes.select(*UNIT, "zero_s")), list(UNIT), how="inner")
        .join(f.broadcast(levels), list(UNIT), how="left")
        .select("*", end_s.alias("end_s"), window)
        .withColumn("window_s", (f.col("window") * WINDOW_S).cast("double"))
        .select(
            *WINDOW, f.when(is_near, f.col("latency_ms")).alias("latency_ms"),
            f.lit(None).cast("double").alias("p95_ms"),
            f.when(is_near, f.avg(f.when(is_near, f.col("juice"))).over(minute)).alias("juice"),
            (share * most).alias("utility"), share.alias("share"), (share >= MET).alias("met"),
            is_near.alias("reported"), most.alias("max_utility"),
        )
    )  # fmt: skip


def _with_silences(windows: DataFrame) -> DataFrame:
    """Return windows with `silence`, the length in windows of the silence around each that is not served, and `usual`:
    the longest silence between two served windows in the last half of the time before the run's first event; without
    two of them, as of a topology that arrives, the median of its silences. Windows without reports are in none."""
    in_order = Window.partitionBy(*UNIT, "reported").orderBy("window_s")
    places = windows.select(
        "*", f.row_number().over(in_order).alias("place"), f.count_if("served").over(in_order).alias("number"),
        f.count_if(f.col("window_s") < 0).over(Window.partitionBy(*UNIT, "reported")).alias("early"),
    )  # fmt: skip
    stretches = places.select(
        "*", f.count_if(~f.col("served")).over(Window.partitionBy(*UNIT, "reported", "number")).alias("silence")
    )
    served = stretches.where("served").select(
        *UNIT, "window_s", "place", "early",
        f.lag("place").over(Window.partitionBy(*UNIT).orderBy("window_s")).alias("previous"),
        f.lag("window_s").over(Window.partitionBy(*UNIT).orderBy("window_s")).alias("previous_s"),
    )  # fmt: skip
    silence = f.col("place") - f.col("previous") - 1
    in_half = (f.col("window_s") < 0) & (f.col("previous") > f.floor(f.col("early") / 2))
    later = f.sort_array(f.concat(f.array(f.lit(0)), f.collect_list(f.when(f.col("previous_s") >= 0, silence))))
    middle = f.get(later, f.floor((f.size(later) - 1) / 2).cast("int"))
    usual = served.groupBy(*UNIT).agg(f.coalesce(f.max(f.when(in_half, silence)), middle).alias("usual"))
    return stretches.join(f.broadcast(usual), list(UNIT), how="left").withColumn("usual", f.coalesce("usual", f.lit(0)))


def of_clusters(
    service: DataFrame, busy: DataFrame, throughput: DataFrame, logged: Collection[str] = ()
) -> DataFrame:  # fmt: skip
    """Return the rows of runs of several topologies as a whole: sums over the topologies with a level, null where one
    of them is not known. A window in which one comes or goes has none. `throughput`: of the clusters too; of `logged`
    runs it says nothing."""
    is_logged = f.col("run_id").isin([*logged])
    partly = busy.where(~f.col("complete")).select("run_id", "window_s").distinct()
    windows = throughput.where(
        (f.col("topology") == WHOLE_CLUSTER) & (f.col("scope") == "total") & (f.col("complete") | is_logged)
    ).select("run_id", "window_s", (f.col("rate").isNotNull() | is_logged).alias("known"))
    utility, most = f.sum("utility"), f.sum("max_utility")
    is_known = f.col("known") & f.col("whole")
    return (
        service.join(partly, ["run_id", "window_s"], how="left_anti")
        .groupBy("run_id", "window_s")
        .agg((f.count("utility") == f.count("*")).alias("whole"), utility.alias("utility"), most.alias("most"),
             f.bool_and("met").alias("met"), f.bool_and("reported").alias("reported"))
        .join(windows, ["run_id", "window_s"], how="inner")
        .select(
            "run_id", f.lit(WHOLE_CLUSTER).alias("topology"), "window_s",
            *[f.lit(None).cast("double").alias(name) for name in ("latency_ms", "p95_ms", "juice")],
            f.when(is_known, f.col("utility")).alias("utility"),
            f.when(is_known, f.col("utility") / f.col("most")).alias("share"),
            f.when(is_known, f.col("met")).alias("met"), (f.col("reported") & f.col("known")).alias("reported"),
            f.col("most").alias("max_utility"),
        )
    )  # fmt: skip


# --- parts of a run ---------------------------------------------------------------------------------------------------


def attainment(service: DataFrame, parts: DataFrame) -> DataFrame:
    """Return rows of the table `attainment`. `parts`: rows of `SPANS`; a window belongs to the part of its middle.

    The cluster's shares of time and percentiles are of the windows of all its topologies together (HP fig. 16c, 17a);
    its curve is the sum of utilities.
    """
    middle_s = f.col("window_s") + WINDOW_S / 2
    inside = (middle_s > f.col("from_s")) & (middle_s <= f.col("until_s"))
    bounds = f.broadcast(parts)

    def in_parts(rows: DataFrame) -> DataFrame:
        return rows.join(bounds, list(UNIT), how="inner").where(inside)

    clusters = service.where(f.col("topology") == WHOLE_CLUSTER)
    jobs = service.where(f.col("topology") != WHOLE_CLUSTER)
    of_all = jobs.join(clusters.select("run_id", "window_s"), ["run_id", "window_s"], how="left_semi")
    pooled = jobs.unionByName(of_all.withColumn("topology", f.lit(WHOLE_CLUSTER)))
    percentiles = f.percentile("share", f.array(*map(f.lit, [*PERCENTILES.values(), *QUANTILES])))
    shares = (
        in_parts(pooled)
        .groupBy(*PHASE)
        .agg(f.avg(f.col("met").cast("double")).alias("met"), f.avg("share").alias("attained_mean"),
             percentiles.alias("attained"))
        .select(*PHASE, "met", "attained_mean",
                *[f.get("attained", f.lit(place)).alias(name) for place, name in enumerate(PERCENTILES)],
                f.slice("attained", len(PERCENTILES) + 1, len(QUANTILES)).alias("quantiles"))
    )  # fmt: skip
    return _curves(in_parts(service)).join(shares, list(PHASE), how="left")


def over_time(service: DataFrame) -> DataFrame:
    """Return rows of the table `attained_over_time`: whole windows, and of the longest run at most `MOST_PARTS`."""
    watched_s = f.max("window_s") - f.min("window_s") + WINDOW_S
    longest = service.groupBy("run_id").agg(watched_s.alias("watched_s")).agg(f.max("watched_s").alias("longest_s"))
    width = longest.select((WINDOW_S * f.ceil(f.col("longest_s") / (MOST_PARTS * WINDOW_S))).alias("part_s"))
    begin = f.floor(f.col("window_s") / f.col("part_s")) * f.col("part_s")
    return (
        service.crossJoin(f.broadcast(width))
        .groupBy(*UNIT, begin.cast("double").alias("begin_s"), f.col("part_s").cast("double").alias("part_s"))
        .agg(f.avg("share").alias("share"), f.avg("utility").alias("utility"))
    )


def _curves(rows: DataFrame) -> DataFrame:
    """Return mean utility, time to the largest one, settling time and overshoot of each part's curve.

    It has settled when the attained share stays within `SETTLED` of its mean over the last minute; it needs two minutes
    for that. Overshoot is by how much its best minute was above that.
    """
    from_begin = Window.partitionBy(*PHASE).orderBy("window_s")
    minute = f.avg("share").over(from_begin.rowsBetween(1 - MINUTE, 0))
    numbered = rows.where(f.col("share").isNotNull()).select(
        *PHASE, "window_s", "from_s", "share", "met", "utility",
        f.when(f.row_number().over(from_begin) >= MINUTE, minute).alias("minute"),
        f.row_number().over(Window.partitionBy(*PHASE).orderBy(f.desc("window_s"))).alias("from_end"),
    )  # fmt: skip
    final = f.max(f.when(f.col("from_end") == 1, f.col("minute"))).over(Window.partitionBy(*PHASE))
    unknown = rows.groupBy(*PHASE).agg(f.count_if(f.col("reported") & f.col("share").isNull()).alias("unknown"))
    end_s = f.col("window_s") + WINDOW_S
    is_off = f.abs(f.col("share") - f.col("final")) > SETTLED
    sums = (
        numbered.withColumn("final", final)
        .groupBy(*PHASE)
        .agg(
            f.count("*").cast("int").alias("windows"), f.avg("utility").alias("utility"),
            f.first("from_s").alias("begin_s"),
            f.max(end_s).alias("end_s"), f.min(f.when(f.col("met"), end_s)).alias("max_s"),
            f.max(f.when(is_off, end_s)).alias("off_s"),
            f.coalesce(f.bool_or(is_off & (f.col("from_end") <= MINUTE)), f.lit(False)).alias("restless"),
            f.max(f.col("minute") - f.col("final")).alias("overshoot"),
        )
    )  # fmt: skip
    has_settling, horizon_s = f.col("windows") >= 2 * MINUTE, f.col("end_s") - f.col("begin_s")
    settled_s = f.greatest(f.coalesce(f.col("off_s") - f.col("begin_s"), f.lit(0.0)), f.lit(0.0))
    return sums.join(unknown, list(PHASE), how="inner").select(
        *PHASE, "windows", "unknown", "utility", horizon_s.alias("watched_s"),
        (f.col("max_s") - f.col("begin_s")).alias("time_to_max_s"),
        f.when(has_settling & ~f.col("restless"), settled_s).alias("settling_s"),
        f.when(has_settling, f.col("restless")).alias("restless"),
        f.when(has_settling, f.col("overshoot")).alias("overshoot"),
    )  # fmt: skip
