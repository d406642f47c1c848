"""METIS and greedy in the policy service: from workers' lines to answers that the bridge takes, whatever is missing."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.replay import replay
from scheduler_plugins.service.messages import VERSION
from scheduler_plugins.service.state import ServiceState

TOPOLOGY = "chains-1-1000"
BEGIN, NOW = 1000.0, 1050.0
STAGES, WIDTH = 4, 6
TASKS = range(1, 1 + STAGES * WIDTH)
BOTH = pytest.mark.parametrize("policy", ["metis", "greedy"])
Pairs = dict[tuple[int, int], int]  # tuples in a second


def stage(task: int) -> int:
    return (task - 1) // WIDTH


def all_traffic() -> Pairs:
    """Task i of a stage sends to task i + 1 of the next: round robin over three machines cuts every edge."""
    senders = [task for task in TASKS if stage(task) < STAGES - 1]
    return {(task, 1 + (stage(task) + 1) * WIDTH + (task % WIDTH)): 50 for task in senders}


def request(t: float, machines: int, *, ports: int = 1, workers: int = 3) -> dict[str, Any]:
    names = [f"stage_{number}" for number in range(STAGES)]
    components = [
        {
            "name": name,
            "kind": "bolt" if number else "spout",
            "tasks": tasks,
            "executors": [[each, each] for each in tasks],
        }
        for number, name in enumerate(names)
        for tasks in [[task for task in TASKS if stage(task) == number]]
    ]
    edges = [
        {"source": source, "stream": "default", "target": target, "grouping": "fields"}
        for source, target in pairwise(names)
    ]
    topology = {
        "id": TOPOLOGY, "name": "chains", "workers": workers, "uptime_s": 60, "components": components, "edges": edges,
        "placement": {str(task): f"m{1 + (task - 1) % machines}:6700" for task in TASKS}, "rebalancing": False,
        "unplaced_why": None,
    }  # fmt: skip
    hosts = [
        {"name": f"m{n}", "supervisor_id": f"id-{n}", "ports": [6700 + p for p in range(ports)], "alive": True}
        for n in range(1, machines + 1)
    ]
    return {"v": VERSION, "t": t, "machines": hosts, "topologies": [topology]}


def line(t: float, machine: int, machines: int, traffic: Pairs, cpu_ms: float | None) -> str:
    """A worker's line for a second."""
    mine = [task for task in TASKS if 1 + (task - 1) % machines == machine]
    tasks = {"task": mine, "component": [f"stage_{stage(task)}" for task in mine]}
    tasks |= {name: [50] * len(mine) for name in ("emitted", "transferred", "executed")}
    tasks |= {"execute_ms": [5.0] * len(mine), "process_ms": [None] * len(mine), "queue": [0] * len(mine)}
    sent = [(source, target, n) for (source, target), n in traffic.items() if source in mine]
    body = {
        "v": 1, "t": t, "dt_s": 1.0, "machine": f"m{machine}", "port": 6700, "pid": 1, "topology": TOPOLOGY,
        "seq": int(t),
        "tasks": tasks | {"cpu_ms": [cpu_ms] * len(mine)},
        "streams": {"task": mine, "stream": ["default"] * len(mine), "emitted": [50] * len(mine)},
        "traffic": {name: [each[column] for each in sent] for column, name in enumerate(("from", "to", "n"))},
    }  # fmt: skip
    return json.dumps(body)


class Service:
    """A policy service that has heard of a running topology for 50 s."""

    def __init__(
        self,
        folder: Path,
        policy: str,
        *,
        machines: int = 3,
        traffic: Pairs | None = None,
        cpu_ms: float | None = 20.0,
        parameters: dict[str, Any] | None = None,
        **shape: int,
    ) -> None:
        self.machines, self.shape, self.now = machines, shape, BEGIN
        self.state = ServiceState(folder, lambda: self.now)
        self.state.configure({"run_id": "r1", "policy": policy, "parameters": parameters or {}})
        self.round()
        self.traffic, self.cpu_ms = all_traffic() if traffic is None else traffic, cpu_ms
        self.work(NOW - BEGIN)

    def work(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 1
            hosts = range(1, self.machines + 1)
            self.state.take_samples([line(self.now, n, self.machines, self.traffic, self.cpu_ms) for n in hosts])

    def round(self) -> dict[str, Any]:
        """The answer to the bridge, which takes it."""
        asked = request(self.now, self.machines, **self.shape)
        answer = json.loads(json.dumps(self.state.schedule(asked)))
        assert self.state.state()["policy_error"] is None
        return dict(answer)

    def reschedule(self) -> dict[str, Any]:
        self.state.scale({"event_id": "e1", "kind": "reschedule"})
        answer = self.round()
        assert self.state.state()["pending_event"] is None
        return answer


def crossing(placement: dict[str, str]) -> int:
    placed = {int(task): slot for task, slot in placement.items()}
    return sum(n for (source, target), n in all_traffic().items() if placed[source] != placed[target])


@BOTH
def test_what_workers_counted_becomes_a_placement_with_less_between_machines(policy: str, tmp_path: Path) -> None:
    service = Service(tmp_path, policy)
    before = request(NOW, 3)["topologies"][0]["placement"]
    answer = service.reschedule()
    after = {**before, **answer["topologies"][TOPOLOGY]["placement"]}
    assert crossing(after) < 0.5 * crossing(before)
    assert f"tuples between machines {crossing(before)} → {crossing(after)}/s (100.0 % → " in answer["reason"]


@BOTH
def test_what_was_decided_replays_from_the_log(policy: str, tmp_path: Path) -> None:
    service = Service(tmp_path, policy)
    service.reschedule()
    *_, last = replay(service.state.log_path, policy)
    assert last.same and last.refused is None and last.now["placement"]


@BOTH
def test_in_a_hold_it_acts_and_then_rests(policy: str, tmp_path: Path) -> None:
    service = Service(tmp_path, policy, parameters={"rest_s": 20})
    service.state.change_rounds({"decide_every_s": 2})
    answers = []
    for _ in range(5):
        answers.append(service.round()["decision_id"] is not None)
        service.work(6)
    assert answers == [True, False, False, False, True]


REFUSED = "refused: "


@BOTH
@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"traffic": {}}, f"{REFUSED}no tuple from task to task is on record; set barograph.traffic: true"),
        ({"traffic": {(1, 1): 50}}, f"{REFUSED}no tuple passes from one of its executors to another"),
        ({"traffic": {(1, 7): 0}}, f"{REFUSED}no tuple from task to task is on record"),
        ({"traffic": {(900, 901): 50}}, f"{REFUSED}no tuple from task to task is on record"),
        ({"machines": 1}, f"{REFUSED}1 living machine has a slot for it"),
        ({"workers": 1}, f"{REFUSED}it runs in one worker"),
    ],
    ids=["no traffic", "within one task", "zero weights", "unknown tasks", "one machine", "one worker"],
)
def test_bad_input_is_refused_in_words_and_the_event_is_over(
    policy: str, shape: dict[str, Any], said: str, tmp_path: Path
) -> None:
    answer = Service(tmp_path, policy, **shape).reschedule()
    assert answer["decision_id"] is not None and answer["topologies"] == {}
    assert answer["reason"].startswith(f"chains: {said}")


@BOTH
@pytest.mark.parametrize(
    "shape",
    [
        {"traffic": {pair: n for pair, n in all_traffic().items() if 3 not in pair}},
        {"traffic": {(1, 7): 50, (2, 8): 1, (8, 2): 90}},
        {"machines": 12, "workers": 12, "traffic": {(1, 7): 50, (7, 13): 50}},
        {"traffic": {(1, 7): 50, (2, 8): 50, (13, 19): 50}},
        {"ports": 4, "workers": 12},
    ],
    ids=["an isolated task", "directed weights", "more parts than tasks", "not connected", "several slots a machine"],
)
def test_odd_graphs_get_an_answer_that_the_bridge_takes(policy: str, shape: dict[str, Any], tmp_path: Path) -> None:
    parameters = {"no_room": "least_loaded"} if policy == "greedy" else {}
    answer = Service(tmp_path, policy, parameters=parameters, **shape).reschedule()
    assert answer["decision_id"] is not None
    assert "tuples between machines" in answer["reason"]


def test_greedy_as_published_says_which_executor_finds_no_place(tmp_path: Path) -> None:
    answer = Service(tmp_path, "greedy", traffic={(1, 7): 50, (2, 8): 50}).reschedule()
    assert answer["decision_id"] is not None and answer["topologies"] == {}
    assert "declined: greedy finds no place: no worker takes one more executor with a load of 0.020" in answer["reason"]


def test_cpu_time_that_workers_did_not_measure_is_named(tmp_path: Path) -> None:
    answer = Service(tmp_path, "greedy", cpu_ms=None).reschedule()
    assert "refused: no CPU time is on record of executors of stage_0, stage_1, stage_2, stage_3" in answer["reason"]


def test_a_master_without_pymetis_refuses_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    answer = Service(tmp_path, "metis").reschedule()
    assert answer["topologies"] == {} and "refused: the Python that decides has no pymetis" in answer["reason"]


@BOTH
def test_before_there_are_rates_it_waits_and_the_event_stays(policy: str, tmp_path: Path) -> None:
    state = ServiceState(tmp_path, lambda: BEGIN)
    state.configure({"run_id": "r1", "policy": policy})
    state.schedule(request(BEGIN, 3))
    state.scale({"event_id": "e1", "kind": "reschedule"})
    assert state.schedule(request(BEGIN, 3))["reason"] == "held: no samples yet"
    assert state.state()["pending_event"] == "e1"
