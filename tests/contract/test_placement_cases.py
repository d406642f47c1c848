"""The cases of placement (EvenCasesTest.java), read by the driver in Python, and its requests."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_plugins.driver.cluster import OnlyInNimbus, place_by, request_of
from scheduler_plugins.service.messages import VERSION, PlacingScheduler, request_json
from tests.contract.test_round_cases import START_S, placements, world_of
from tests.contract.test_schedule_cases import EVEN, REQUESTS


@pytest.mark.parametrize("scheduler", ["even", "default"])
@pytest.mark.parametrize("case", EVEN.values(), ids=EVEN)
def test_storms_schedulers_place_as_storms_do(case: dict[str, Any], scheduler: str) -> None:
    cluster = world_of(case["request"]).nimbus.cluster()
    assert place_by(PlacingScheduler(scheduler, None, {}), cluster) == {}
    assert placements(cluster) == case["default" if scheduler == "default" and "default" in case else "expected"]


@pytest.mark.parametrize(
    ("scheduler", "class_name"), [("resource_aware", None), ("isolation", None), ("foreign", "a.B")]
)
def test_a_scheduler_that_places_in_a_real_nimbus_only_is_refused_in_words(
    scheduler: str, class_name: str | None
) -> None:
    called = class_name or f"Storm's {scheduler} scheduler"
    world = world_of(next(iter(REQUESTS.values())))
    named = {"name": scheduler, "conf": {}} | ({"class_name": class_name} if class_name else {})
    answer = {"v": VERSION, "decision_id": None, "topologies": {}, "scheduler": named}
    with pytest.raises(
        OnlyInNimbus, match=rf"^{called} places in a real Nimbus only; here are Storm's default and even"
    ):
        world.take({"do": "round", "answer": answer})
    assert world.rounds.events == []


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_request_survives_the_way_through_storm(request_: dict[str, Any]) -> None:
    body = request_json(request_of(world_of(request_).nimbus.cluster(), START_S, [], {}))
    assert body == expected(request_)


def expected(request: dict[str, Any]) -> dict[str, Any]:
    """What Storm shows of it: no changes under way, machines in the order of their ids, dead ones only if in use."""
    ports: dict[str, set[int]] = {}
    for topology in request["topologies"]:
        for slot in topology["placement"].values():
            ports.setdefault(slot.split(":")[0], set()).add(int(slot.split(":")[1]))
    dead = [
        {**m, "ports": sorted(ports[m["name"]])} for m in request["machines"] if not m["alive"] and m["name"] in ports
    ]
    machines = [m for m in request["machines"] if m["alive"]] + dead
    topologies = [
        {key: value for key, value in topology.items() if key not in ("planned", "rebalancing")}
        | {"rebalancing": False, "unplaced_why": None}
        | {"components": sorted(topology["components"], key=lambda c: c["tasks"][0])}
        | {"edges": sorted(topology["edges"], key=lambda e: (e["source"], e["stream"], e["target"]))}
        for topology in sorted(request["topologies"], key=lambda t: t["id"])
    ]
    head = {"v": VERSION, "t": START_S, "machines": sorted(machines, key=lambda m: m["supervisor_id"])}
    return {**head, "topologies": topologies, "last_decision": None}
