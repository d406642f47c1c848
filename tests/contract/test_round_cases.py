"""Rounds of the bridge, case by case: the cases that RoundCasesTest.java checks against Storm's own Cluster.

What the steps are is said in docs/contracts.md, "Rounds". The expected values (`then`) are recorded by the Java test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.driver.cluster import SchedulingCluster, Supervisor
from scheduler_plugins.driver.nimbus import Nimbus, NimbusSettings, StormRefusal
from scheduler_plugins.driver.rounds import Rounds, ServiceFailed
from scheduler_plugins.json_data import from_json
from scheduler_plugins.service.messages import VERSION, Answer, Request, request_json, topology_from_request
from tests.contract.test_schedule_cases import case_of

CASES = {path.stem: path for path in sorted((Path(__file__).parent / "round_cases").glob("*.json"))}
START_S = 1763712345.0
NOTHING: Mapping[str, Any] = {"v": VERSION, "decision_id": None, "policy": "test", "reason": "", "topologies": {}}
# A machine that is down is out of the cluster at once, and its executors die only where a step says so.
SETTINGS = NimbusSettings(session_s=0.0, task_timeout_s=float("inf"))


class Ending:
    """The bridge of a Nimbus that ends after a round, before it does anything in the background."""

    def __init__(self, rounds: Rounds) -> None:
        self.round = rounds.round

    def after_round(self) -> None:
        pass


@dataclass
class World:
    """A Nimbus with a bridge, and a policy service that answers what the step says."""

    nimbus: Nimbus
    step: Mapping[str, Any] = field(default_factory=dict)
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    heard: list[Mapping[str, Any]] = field(default_factory=list)
    rebalances: list[dict[str, Any]] = field(default_factory=list)
    lost_reports: int = 0

    def __post_init__(self) -> None:
        self.rounds = Rounds(self, self.rebalance, self.nimbus.clock)
        self.nimbus.scheduler = self.rounds

    def schedule(self, request: Request) -> Answer:
        self.asked.append(request_json(request))
        if "service_fails" in self.step:
            raise ServiceFailed(self.step["service_fails"])
        return from_json(Answer, self.step.get("answer", NOTHING))

    def applied(self, report: Mapping[str, Any]) -> None:
        if self.lost_reports:
            self.lost_reports -= 1
            raise ServiceFailed("applied: no answer within 2.0 s")
        self.heard.append({**report, "t": report["t"] - START_S})

    def rebalance(self, name: str, executors: Mapping[str, int], wait_s: int) -> None:
        call = {"topology": name, "wait_s": wait_s, "executors": dict(executors)}
        self.rebalances.append(call)
        try:
            if "refused" in self.step:
                raise StormRefusal(self.step["refused"])
            self.nimbus.rebalance(name, executors, wait_s)
        except StormRefusal as refused:
            call["refused"] = str(refused)
            raise

    def take(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """What came of a round, None of any other step."""
        if step["do"] in ("round", "rebalance", "between"):
            return self.take_round(step)
        OTHER_STEPS[step["do"]](self, step)
        return None

    def take_round(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self.step, self.lost_reports = step, step.get("lost_reports", self.lost_reports)
        self.nimbus.scheduler = Ending(self.rounds) if step.get("nimbus_ends") else self.rounds
        topology_id = self.topology_id(step) if "topology" in step else ""
        if step["do"] == "between":
            self.nimbus.change_executors(topology_id)
        before, said = placements(self.nimbus.cluster()), len(self.rounds.events)
        asked, heard = len(self.asked), len(self.heard)
        if step["do"] == "rebalance":
            if self.nimbus.status(topology_id) == "ACTIVE":
                self.nimbus.rebalance(step["topology"], {}, 0)  # a person's
            self.nimbus.carry_out_rebalance(topology_id)
        else:
            self.nimbus.round()
        events = [{**event, "t": event["t"] - START_S} for event in self.rounds.events[said:]]
        if step.get("nimbus_ends"):
            self.restart({})
        rebalances, self.rebalances = self.rebalances, []
        then = {"asked": asked_of(self.asked[-1])} if len(self.asked) > asked else {}
        facts = {"moved": moves(before, placements(self.nimbus.cluster())), "rebalances": rebalances}
        facts |= {"reports": self.heard[heard:], "events": events}
        return then | {name: value for name, value in facts.items() if value}

    def topology_id(self, step: Mapping[str, Any]) -> str:
        topologies = (self.nimbus.topology(each) for each in self.nimbus.topology_ids())
        return next(topology.topology_id for topology in topologies if topology.name == step["topology"])

    def restart(self, _: Mapping[str, Any]) -> None:
        self.rounds = self.rounds.successor()
        self.nimbus.restart(self.rounds)

    def rebalance_by_hand(self, step: Mapping[str, Any]) -> None:
        self.nimbus.rebalance(step["topology"], {}, 0)

    def put_machine_up(self, step: Mapping[str, Any]) -> None:
        known = next(s for s in self.nimbus.cluster().supervisors if s.name == step["machine"])
        ports = tuple(step.get("ports", known.ports))
        self.nimbus.machine_up(Supervisor(known.name, known.supervisor_id, ports))

    def lose_executors(self, step: Mapping[str, Any]) -> None:
        topology_id = self.topology_id(step)
        executors = [e for e in self.nimbus.assignment(topology_id) if e[0] in step["tasks"]]
        self.nimbus.lose_executors(topology_id, executors)

    def remove_topology(self, step: Mapping[str, Any]) -> None:
        topology_id = self.topology_id(step)
        self.nimbus.kill(step["topology"], 0.0)
        self.nimbus.remove(topology_id)

    def let_time_pass(self, step: Mapping[str, Any]) -> None:
        self.nimbus.now_s += step["s"]


OTHER_STEPS = {
    "by_hand": World.rebalance_by_hand,
    "machine_down": lambda world, step: world.nimbus.machine_down(step["machine"]),
    "machine_up": World.put_machine_up,
    "ports": World.put_machine_up,
    "executors_lost": World.lose_executors,
    "topology_gone": World.remove_topology,
    "time": World.let_time_pass,
    "nimbus_restarts": World.restart,
}


def world_of(request: Mapping[str, Any]) -> World:
    nimbus = Nimbus(SETTINGS, START_S)
    for machine in request["machines"]:
        nimbus.machine_up(Supervisor(machine["name"], machine["supervisor_id"], tuple(machine["ports"])))
        if not machine["alive"]:
            nimbus.machine_down(machine["name"])
    for topology in request["topologies"]:
        nimbus.submit(topology_from_request(topology))
    return World(nimbus)


def edited(request: dict[str, Any], edits: list[Mapping[str, Any]]) -> dict[str, Any]:
    """`at`: a JSON pointer into the request; without `to` what is there is removed."""
    for edit in edits:
        *way, last = edit["at"].split("/")[1:]
        parent: Any = request
        for key in way:
            parent = parent[int(key)] if isinstance(parent, list) else parent[key]
        if "to" in edit:
            parent[last] = edit["to"]
        else:
            del parent[last]
    return request


def placements(cluster: SchedulingCluster) -> dict[str, dict[str, str]]:
    """Topology → task → slot."""
    return {
        topology_id: {
            str(task): str(slot)
            for (first, last), slot in cluster.assignments.get(topology_id, {}).items()
            for task in range(first, last + 1)
        }
        for topology_id in cluster.topologies
    }


def moves(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The tasks that are elsewhere, None for nowhere, of topologies that have such tasks."""
    moved = {
        topology_id: {
            task: placed.get(task)
            for task in {**before[topology_id], **placed}
            if before[topology_id].get(task) != placed.get(task)
        }
        for topology_id, placed in after.items()
    }
    return {topology_id: tasks for topology_id, tasks in moved.items() if tasks}


def asked_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a request says beside what is placed where. `under_way`: tasks that a change will have elsewhere."""
    topologies = request["topologies"]
    facts = {
        "last_decision": request["last_decision"],
        "under_way": {
            t["id"]: dict(t.get("planned", {}).items() - t["placement"].items()) for t in topologies if t["rebalancing"]
        },
        "unplaced_why": {t["id"]: t["unplaced_why"] for t in topologies if t["unplaced_why"] is not None},
        "not_alive": [machine["name"] for machine in request["machines"] if not machine["alive"]],
    }
    return {name: fact for name, fact in facts.items() if fact}


@pytest.mark.parametrize("name", CASES)
def test_rounds_go_as_the_case_says(name: str) -> None:
    case = case_of(CASES[name])
    world = world_of(edited(case["request"], case.get("edits", [])))
    for number, step in enumerate(case["steps"]):
        assert world.take(step) == step.get("then"), f"step {number}: {step['do']}"
