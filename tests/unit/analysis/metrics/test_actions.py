"""Actions of policies and what they cost, from lines of a decision log and of events."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.ingest import tables
from analysis.metrics import actions, placement
from analysis.metrics.scale_events import SPANS
from analysis.record.small_tables import frame_of_rows
from scheduler_plugins.model import Decision, Observation, Slot, action_kind
from tests.support import topologies_by_hand

UNIT = {"run_id": "r", "topology": "star"}
INF = float("inf")
ZEROS = [{**UNIT, "zero_s": 100.0, "first_s": 50.0, "last_s": 400.0}]
EVENTS = [{**UNIT, "event_id": "e1", "kind": "hold", "zero_s": 100.0, "from_s": None, "until_s": None}]


def test_kinds_that_policies_do_not_give_follow_from_the_changes() -> None:
    topology = topologies_by_hand.topology(topologies_by_hand.STAR, tasks=4, executors=2, workers=2)
    observation, name = Observation(0.0, (), (topology,)), topology.topology_id
    slot = {name: {1: Slot("m1", 6700)}}
    decisions: dict[Any, Decision] = {
        None: Decision(reason="nothing"),
        "reconfigure": Decision(executors={name: {"centre": 3, "sink_1": 1}}, placement=slot),
        "reduce": Decision(executors={name: {"centre": 1}}, acquire=1),
        "acquire": Decision(acquire=2),
        "move": Decision(placement=slot, release=("m1",)),
        "release": Decision(release=("m1",)),
    }
    assert {kind: action_kind(each, observation) for kind, each in decisions.items()} == {k: k for k in decisions}
    assert action_kind(Decision(rebalance=(name,)), observation) == "move"
    assert action_kind(replace(decisions["reconfigure"], kind="revert"), observation) == "revert"


def decision(decision_id: str, kind: str) -> dict[str, Any]:
    return {"run_id": "r", "decision_id": decision_id, "kind": kind}


def change(decision_id: str, component: str, before: int, after: int, topology: str = "star") -> dict[str, Any]:
    return {"run_id": "r", "topology": topology, "decision_id": decision_id, "component": component,
            "executors_before": before, "executors_after": after}  # fmt: skip


def lines(*facts: tuple[str, float, bool | None]) -> list[dict[str, Any]]:
    """Decisions with their times, and whether they could be applied (None: nobody said)."""
    found = [{"run_id": "r", "kind": "decision", "decision_id": name, "t_s": t, "ok": None} for name, t, _ in facts]
    return found + [{"run_id": "r", "kind": "applied", "decision_id": name, "t_s": t + 1, "ok": ok}
                    for name, t, ok in facts if ok is not None]  # fmt: skip


CHANGES = [change("d1", "bolt", 1, 10), change("d1", "sink", 4, 4), change("d2", "bolt", 10, 2),
           change("d2", "work", 3, 1, "line"), change("d3", "bolt", 2, 10), change("d5", "bolt", 1, 2)]  # fmt: skip
DECISIONS = [decision("d1", "reconfigure"), decision("d2", "reduce"), decision("d3", "revert"),
             decision("d4", "acquire"), decision("d5", "reconfigure"), decision("d6", "move")]  # fmt: skip
LINES = lines(("d1", 120, True), ("d2", 200, True), ("d3", 250, False), ("d4", 260, None), ("d5", 280, None))
FOUND = actions.carried_out(DECISIONS, CHANGES, LINES, {"r": ("all",)})


def test_an_action_is_what_was_carried_out() -> None:
    """d3 failed, of d5 nobody said what became of it, d6 is in no event; machines are the cluster's."""
    assert [(row["topology"], row["decision_id"], row["t_s"], row["kind"]) for row in FOUND] == [
        ("star", "d1", 120, "reconfigure"), ("line", "d2", 200, "reduce"), ("star", "d2", 200, "reduce"),
        ("all", "d4", 260, "acquire"),
    ]  # fmt: skip


def test_an_action_ends_with_the_next_one_or_an_event() -> None:
    spans = actions.action_spans(FOUND, [*EVENTS, {**EVENTS[0], "event_id": "e2", "zero_s": 160.0}], ZEROS)
    columns = ("event_id", "from_s", "zero_s", "until_s", "last_s")
    assert [tuple(span[name] for name in columns) for span in spans] == [
        ("e1", None, 100, 120, 120), ("d1", 100, 120, 160, 160), ("e2", 120, 160, 200, 200),
        ("d2", 160, 200, None, 400),
    ]  # fmt: skip
    assert ", ".join(spans[0]) == ", ".join(each.split()[0] for each in SPANS.split(", "))


def test_rows_are_of_the_action_and_of_each_component_that_it_changed_or_moved() -> None:
    moves = [{**UNIT, "event_id": "d1", "component": name, "tasks_moved": number, "known": True}
             for name, number in (("bolt", 3), ("sink", 0))]  # fmt: skip
    moves += [{**UNIT, "event_id": "d2", "component": "bolt", "tasks_moved": 0, "known": False}]
    losses = [{**UNIT, "event_id": "d1", "phase": phase, "lost": 50.0} for phase in ("before", "after", "after")]
    rows = actions.action_rows(FOUND, CHANGES, moves, [{**UNIT, "event_id": "d1", "workers": 2}], losses)
    columns = ("topology", "decision_id", "component", "executors_before", "executors_after", "tasks_moved",
               "workers_restarted", "tuples_lost")  # fmt: skip
    assert [tuple(row.get(name) for name in columns) for row in rows] == [
        ("star", "d1", "", 5, 14, 3, 2, 100), ("star", "d1", "bolt", 1, 10, 3, None, None),
        ("line", "d2", "", 3, 1, None, None, None), ("line", "d2", "work", 3, 1, None, None, None),
        ("star", "d2", "", 10, 2, None, None, None), ("star", "d2", "bolt", 10, 2, None, None, None),
        ("all", "d4", "", None, None, None, None, None),
    ]  # fmt: skip


def test_costs_of_the_cluster_count_an_action_once() -> None:
    parts = [{"run_id": "r", "topology": name, "event_id": "e1", "phase": "after", "begin_s": 100.0, "end_s": INF}
             for name in ("star", "line", "all")]  # fmt: skip
    parts.append(parts[0] | {"event_id": "e0", "begin_s": 150.0, "end_s": 230.0})
    spent = [{**UNIT, "event_id": "e1", "phase": "after", "executor_s": 7.0}]
    clusters = {("r", "all"): (("r", "star"), ("r", "line"))}
    rows = actions.cost_rows(parts, FOUND, {"r": [90.0, 110.0, 200.0, 290.0]}, spent, clusters)
    columns = ("topology", "event_id", "rounds", "actions", "executor_s")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("star", "e1", 3, 2, 7.0), ("line", "e1", 3, 1, None), ("all", "e1", 3, 3, None), ("star", "e0", 1, 1, None),
    ]  # fmt: skip


def round_line(t: float, tasks: Mapping[str, str], bolt: list[list[int]], **more: Any) -> dict[str, Any]:
    topology = {
        "id": "star-1", "name": "star", "rebalancing": False, "placement": tasks,
        "components": [{"name": "spout", "kind": "spout", "tasks": [1], "executors": [[1, 1]]},
                       {"name": "bolt", "kind": "bolt", "tasks": [2, 3, 4], "executors": bolt},
                       {"name": "__acker", "kind": "system", "tasks": [9], "executors": [[9, 9]]}],
    }  # fmt: skip
    return {"t": t, "decision_id": None, "policy": "henge", "request": {"topologies": [topology]},
            "observation": {"may_act": t >= 110}, "decision": {"reason": ""}} | more  # fmt: skip


@pytest.mark.spark
def test_the_decision_log_has_changes_and_executors(tmp_path: Path, spark: SparkSession) -> None:
    """The bolt has 1 executor for 20 s, then 3 for 30, two of them on another machine; for 10 s one has no slot."""
    one = {"1": "m1:6700", "2": "m1:6700", "3": "m1:6700", "4": "m1:6700", "9": "m1:6700"}
    three = one | {"3": "m2:6700", "4": "m2:6700"}
    cut = [[2, 2], [3, 3], [4, 4]]
    first = {"decision": {"reason": "first", "kind": "move", "placement": {"star-1": one}}, "decision_id": "d0"}
    grows = {"decision": {"reason": "grows", "kind": "reconfigure", "executors": {"star-1": {"bolt": 3}},
                          "placement": {"star-1": {"3": "m2:6700"}}}, "decision_id": "d1"}  # fmt: skip
    lost = {"decision": {"reason": "", "kind": "move", "rebalance": ["star-1"]}, "decision_id": "d2"}
    log = [
        round_line(90, {}, [[2, 4]], **first), round_line(100, one, [[2, 4]]), round_line(110, one, [[2, 4]], **grows),
        round_line(120, three, cut), round_line(130, three, cut, **lost), round_line(140, three, cut, withdrawn="d2"),
        round_line(150, {task: slot for task, slot in three.items() if task != "4"}, cut),
    ]  # fmt: skip
    path = tmp_path / "runs" / "r" / "decisions.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in log))
    read = tables.read_lines(spark, "decision", [path])
    assert read.where("damaged_text is not null").count() == 0
    changes = [tuple(row)[1:] for row in tables.changes(read).orderBy("component").collect()]
    assert changes == [("d1", "star-1", "bolt", 1, 3), ("d1", "star-1", "spout", 1, 1)], "d0 placed, d2 came to nothing"
    assert [(row.decision_id, row.kind) for row in tables.decisions(read).orderBy("t_s").collect()] == [
        ("d0", "move"), ("d1", "reconfigure"),
    ]  # fmt: skip
    assert [row.may_act for row in tables.rounds(read).orderBy("t_s").collect()] == [False] * 2 + [True] * 5

    placements = tables.placements(read)
    spans = frame_of_rows(spark, [("r", "star-1", "d1", 110.5, None, None, 90.0, 160.0)], SPANS)
    moved = {row.component: (row.tasks_moved, row.known)
             for row in actions.tasks_moved(placement.last_placements(placements, spans)).collect()}  # fmt: skip
    assert moved == {"bolt": (2, True), "spout": (0, True)}
    ends = frame_of_rows(spark, [("r", "star-1", 160.0, "all")],
                         "run_id string, topology string, last_s double, cluster string")  # fmt: skip
    parts = [("r", name, "e0", "after", begin, INF) for name, begin in (("star-1", 105.0), ("all", 145.0))]
    kept = frame_of_rows(spark, parts, "run_id string, topology string, event_id string, phase string, begin_s double, "
                         "end_s double")  # fmt: skip
    spent = {row.topology: row.executor_s for row in actions.executor_seconds(placements, ends, kept).collect()}
    assert spent == {"star-1": 15 * 2 + 30 * 4 + 10 * 3, "all": 5 * 4 + 10 * 3}
