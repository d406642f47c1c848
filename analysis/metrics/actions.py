"""What a policy did, action by action, and what that cost: tasks moved, workers restarted, tuples lost, rounds,
executor-seconds.

An action is a decision that Storm carried out, about topologies that were placed before; or one about machines. From
its decision to the next action or event of the topology it is measured like an event of the plan.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.small_tables import EVENT, PHASE, UNIT, Row, Unit, by_unit, unit_of

OF_MACHINES = ("acquire", "release")
WHOLE = ""  # component of the row of an action as a whole


def carried_out(
    decisions: Iterable[Row], changes: Iterable[Row], events: Iterable[Row],
    machine_units: Mapping[str, Collection[str]],
) -> list[Row]:  # fmt: skip
    """Return a row (run_id, topology, decision_id, t_s, kind) an action and topology. `changes`: by topologies' names;
    `machine_units`: the topology to which machines are booked, by run."""
    times: dict[tuple[str, str], float] = {}
    applied = {(e["run_id"], e["decision_id"]) for e in events if e["kind"] == "applied" and e["ok"]}
    for event in events:
        if event["kind"] == "decision":
            times.setdefault((event["run_id"], event["decision_id"]), event["t_s"])
    about: dict[tuple[str, str], set[str]] = defaultdict(set)
    for change in changes:
        about[change["run_id"], change["decision_id"]].add(change["topology"])
    rows = []
    for decision in decisions:
        key = (decision["run_id"], decision["decision_id"])
        names = about.get(key, set()) if key in applied else set()
        if decision["kind"] in OF_MACHINES:
            names = names | set(machine_units[key[0]])
        rows += [{"run_id": key[0], "topology": name, "decision_id": key[1], "kind": decision["kind"],
                  "t_s": times[key]} for name in sorted(names) if key in times]  # fmt: skip
    return sorted(rows, key=lambda row: float(row["t_s"]))


def action_spans(actions: Iterable[Row], events: Iterable[Row], zeros: Iterable[Row]) -> list[Row]:
    """Return spans (columns of `scale_events.SPANS`) of topologies with actions: from each action, and from each event
    of the plan between them, to the next. Their `event_id` is the decision's, or the event's."""
    axes, of_events = {unit_of(row): row for row in zeros}, by_unit(events)
    spans = []
    for unit, of_unit in by_unit(actions).items():
        axis = axes.get(unit)
        if axis is None:
            continue
        marks = {row["decision_id"]: row["t_s"] for row in of_unit}
        marks |= {row["event_id"]: row["zero_s"] for row in of_events.get(unit, ()) if row["event_id"] != WHOLE_RUN}
        names = sorted(
            (name for name, t in marks.items() if axis["first_s"] <= t <= axis["last_s"]), key=marks.__getitem__
        )
        bounds = [None, *(marks[name] for name in names), None]
        spans += [
            {"run_id": unit[0], "topology": unit[1], "event_id": name, "zero_s": zero, "from_s": before,
             "until_s": after, "first_s": axis["first_s"] if before is None else before,
             "last_s": axis["last_s"] if after is None else after}
            for name, before, zero, after in zip(names, bounds, bounds[1:], bounds[2:], strict=False)
        ]  # fmt: skip
    return spans


def tasks_moved(settled: DataFrame) -> DataFrame:
    """Return tasks whose machine changed, by event and component. `settled`: of `placement.last_placements`."""
    sides = settled.groupBy(*EVENT, "component", "task").pivot("phase", ["before", "after"]).agg(f.first("machine"))
    return sides.groupBy(*EVENT, "component").agg(
        f.count_if(f.col("before") != f.col("after")).alias("tasks_moved"),
        f.bool_and(f.col("before").isNotNull() & f.col("after").isNotNull()).alias("known"),
    )


def action_rows(
    actions: Iterable[Row], changes: Iterable[Row], moves: Iterable[Row], restarts: Iterable[Row], losses: Iterable[Row]
) -> list[Row]:  # fmt: skip
    """Return rows of the table `actions`: one for the action as a whole, and one for each component that it changed or
    moved. `moves`, `restarts` and `losses` are of the spans of `action_spans`."""
    of_components: dict[Any, list[Row]] = defaultdict(list)
    for row in changes:
        of_components[unit_of(row), row["decision_id"]].append(row)
    moved = {(unit_of(row), row["event_id"], row["component"]): row["tasks_moved"] if row["known"] else None
             for row in moves}  # fmt: skip
    restarted = {(unit_of(row), row["event_id"]): row["workers"] for row in restarts}
    lost: dict[Any, float] = defaultdict(float)
    for row in losses:
        if row["phase"] == "after":
            lost[unit_of(row), row["event_id"]] += row["lost"]
    rows = []
    for action in actions:
        key = (unit_of(action), action["decision_id"])
        parts = [
            {**action, "component": row["component"], "executors_before": row["executors_before"],
             "executors_after": row["executors_after"], "tasks_moved": moved.get((*key, row["component"]))}
            for row in sorted(of_components[key], key=lambda row: str(row["component"]))
        ]  # fmt: skip
        sums = {
            name: None if not parts or any(part[name] is None for part in parts) else sum(part[name] for part in parts)
            for name in ("executors_before", "executors_after", "tasks_moved")
        }
        rows.append({**action, "component": WHOLE, **sums, "workers_restarted": restarted.get(key),
                     "tuples_lost": lost.get(key)})  # fmt: skip
        rows += [part for part in parts
                 if part["tasks_moved"] or part["executors_before"] != part["executors_after"]]  # fmt: skip
    return rows


def workers_restarted(restarts: DataFrame) -> DataFrame:
    """Return workers that began again, by event. `restarts`: of `placement.restarts`."""
    return restarts.groupBy(*EVENT).agg(f.count_if(f.col("restarts") > 0).alias("workers"))


# --- what it cost -----------------------------------------------------------------------------------------------------


def executor_seconds(placements: DataFrame, ends: DataFrame, parts: DataFrame) -> DataFrame:
    """Return `executor_s` by part: placed executors of our components × seconds, from each round to the next one.

    `ends`: `last_s` of each topology, and under which other name it counts too (`cluster`, may be null); `parts`:
    (of `PHASE`, begin_s, end_s), in epoch seconds.
    """
    is_placed = (f.col("task") == f.col("first_task")) & f.col("slot").isNotNull()
    rounds = (
        placements.where(f.coalesce("kind", f.lit("")) != "system")
        .groupBy(*UNIT, "t_s")
        .agg(f.count_if(is_placed).alias("executors"))
        .join(f.broadcast(ends), list(UNIT), how="inner")
    )
    following = f.lead("t_s").over(Window.partitionBy(*UNIT).orderBy("t_s"))
    ended = rounds.withColumn("until_s", f.coalesce(following, "last_s"))  # beside `explode` it would see its rows
    units = f.explode(f.array_compact(f.array("topology", "cluster"))).alias("topology")
    stays = ended.select("run_id", units, "executors", "t_s", "until_s")
    seconds = f.least("until_s", "end_s") - f.greatest("t_s", "begin_s")
    return (
        stays.join(f.broadcast(parts), list(UNIT), how="inner")
        .where(seconds > 0)
        .groupBy(*PHASE)
        .agg(f.sum(f.col("executors") * seconds).alias("executor_s"))
        .select(*PHASE, "executor_s")
    )


def cost_rows(
    parts: Iterable[Row], actions: Iterable[Row], rounds_s: Mapping[str, Iterable[float]], executors: Iterable[Row],
    clusters: Mapping[Unit, Iterable[Unit]],
) -> list[Row]:  # fmt: skip
    """Return rows of the table `costs`. `rounds_s`: by run when a policy might act by itself; none of runs without a
    log of rounds. An action about several topologies is one of the cluster."""
    times: dict[Unit, dict[str, float]] = defaultdict(dict)
    cluster_of = {member: cluster for cluster, members in clusters.items() for member in members}
    for action in actions:
        unit = unit_of(action)
        for each in {unit, cluster_of.get(unit, unit)}:
            times[each][action["decision_id"]] = action["t_s"]
    spent = {tuple(row[name] for name in PHASE): row["executor_s"] for row in executors}
    rows = []
    for part in parts:
        rounds, decided = rounds_s.get(part["run_id"]), times[unit_of(part)].values()
        numbers = {
            name: None if instants is None else sum(part["begin_s"] <= t < part["end_s"] for t in instants)
            for name, instants in (("rounds", rounds), ("actions", decided))
        }
        key = tuple(part[name] for name in PHASE)
        rows.append({**{name: part[name] for name in PHASE}, **numbers, "executor_s": spent.get(key)})  # fmt: skip
    return rows
