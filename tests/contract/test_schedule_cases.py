"""The cases that the Java tests check against Storm itself, read by our Python: both must say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.json_data import from_json
from scheduler_plugins.model import Decision, Observation, Slot, executor_ranges
from scheduler_plugins.policies import POLICIES, bind
from scheduler_plugins.service.messages import Answer, answer_json, answer_of, observation_of, request_from_json
from scheduler_plugins.service.refusal import refusal
from scheduler_plugins.service.samples import MachineSamples

NEEDED: dict[str, dict[str, Any]] = {"foreign": {"scheduler": "org.example.Theirs"}}
FOLDER = Path(__file__).parent / "schedule_cases"
OPTIONAL = ("release", "scheduler", "rebalance", "wait_s")  # parts of an answer


def case_of(path: Path) -> dict[str, Any]:
    """Several cases may have one request: they name a file of `requests/`."""
    case = dict(json.loads(path.read_text()))
    if isinstance(case["request"], str):
        case["request"] = json.loads((FOLDER / "requests" / f"{case['request']}.json").read_text())
    return case


EVEN = {path.stem: case_of(path) for path in sorted(FOLDER.glob("even_*.json"))}
# Each once: most answers are to one of a few.
REQUESTS = {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "requests").glob("*.json"))}
DECISIONS = {
    name: case | {"request": REQUESTS[case["request"]]}
    for name, case in json.loads((FOLDER / "refusals.json").read_text()).items()
}
REQUESTS |= {name: case["request"] for name, case in EVEN.items()}


def observe(request: dict[str, Any]) -> Observation:
    return observation_of(request_from_json(request), {}, MachineSamples(), None)


@pytest.mark.parametrize(
    "case",
    json.loads((FOLDER / "executor_ranges.json").read_text()),
    ids=lambda c: f"{len(c['tasks'])}/{c['executors']}",
)
def test_executors_are_cut_as_storm_cuts_them(case: dict[str, Any]) -> None:
    assert [list(r) for r in executor_ranges(tuple(case["tasks"]), case["executors"])] == case["ranges"]


@pytest.mark.parametrize("case", EVEN.values(), ids=EVEN)
def test_even_places_as_storms_even_scheduler_does(case: dict[str, Any]) -> None:
    answer = answer_json(answer_of(bind("even", {})(observe(case["request"]), {}), "d1", "even"))
    for topology in case["request"]["topologies"]:
        changes = answer["topologies"].get(topology["id"], {}).get("placement", {})
        assert {**topology["placement"], **changes} == case["expected"][topology["id"]]


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("case", EVEN.values(), ids=EVEN)
def test_every_policy_leaves_no_executor_without_a_slot_and_moves_nothing_unasked(
    name: str, case: dict[str, Any]
) -> None:
    request = case["request"]
    decision = bind(name, NEEDED.get(name, {}))(observe(request), {})
    if decision.scheduler is not None:  # Storm's own places, in the bridge: StormSchedulersTest.java
        assert not decision.placement
        return
    for topology in request["topologies"]:
        placed = {task: str(slot) for task, slot in decision.placement.get(topology["id"], {}).items()}
        assert not set(placed) & {int(task) for task in topology["placement"]}
        tasks = {task for component in topology["components"] for task in component["tasks"]}
        assert tasks == set(placed) | {int(task) for task in topology["placement"]}
        allowed = {f"{m['name']}:{port}" for m in request["machines"] if m["alive"] for port in m["ports"]}
        assert set(placed.values()) <= allowed


@pytest.mark.parametrize("case", DECISIONS.values(), ids=DECISIONS)
def test_a_decision_is_refused_for_its_reason(case: dict[str, Any]) -> None:
    refused = refusal(observe(case["request"]), decision_of(case["answer"]))
    assert (refused.why if refused else None) == case["why"]


@pytest.mark.parametrize("case", DECISIONS.values(), ids=DECISIONS)
def test_a_decision_survives_the_way_to_the_bridge(case: dict[str, Any]) -> None:
    answer = answer_of(decision_of(case["answer"]), "d17", "any")
    body = json.loads(json.dumps(answer_json(answer)))
    assert from_json(Answer, body) == answer == answer_of(decision_of(body), "d17", "any")
    given = from_json(Answer, case["answer"])
    assert [getattr(answer, name) for name in OPTIONAL] == [getattr(given, name) for name in OPTIONAL]


def decision_of(answer: dict[str, Any]) -> Decision:
    changes, scheduler = answer["topologies"], answer.get("scheduler") or {}
    return Decision(
        executors={topology: change.get("executors", {}) for topology, change in changes.items()},
        placement={
            topology: {int(task): Slot.parse(slot) for task, slot in change.get("placement", {}).items()}
            for topology, change in changes.items()
        },
        release=tuple(answer.get("release", ())),
        scheduler=scheduler.get("name"),
        rebalance=tuple(answer.get("rebalance", ())),
        scheduler_class=scheduler.get("class_name"),
        wait_s=answer.get("wait_s", 0),
    )


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_no_answer_of_a_policy_is_refused(name: str, request_: dict[str, Any]) -> None:
    observation = observe(request_)
    assert refusal(observation, bind(name, NEEDED.get(name, {}))(observation, {})) is None
