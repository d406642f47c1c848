"""Whose placement counts in a run that begins as a recorded one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barograph.run.simulated_cluster import REASON, RecordedStart, begun_as, start_of
from scheduler_plugins.model import Component, Decision, Executor, Memory, Observation, Slot, Topology, WorkerMachine

MACHINES = tuple(WorkerMachine(f"m{n}", f"id-{n}", (6700, 6701)) for n in (1, 2))
BOLT = Component("bolt", "bolt", (1, 2), (Executor(1, 1), Executor(2, 2)))
START = RecordedStart({"star": {1: "m2:6701", 2: "m2:6701"}})
OTHER = dict.fromkeys((1, 2), Slot("m1", 6700))


def star(**changes: Any) -> Observation:
    return Observation(1000.0, MACHINES, (replace(Topology("star-1-1000", "star", 1, (BOLT,), ()), **changes),))


def elsewhere(observation: Observation, _memory: Memory) -> Decision:
    return Decision(placement={topology.topology_id: OTHER for topology in observation.topologies}, reason="mine")


def test_a_topology_begins_where_it_was_recorded_and_what_loses_its_place_is_the_policys() -> None:
    decide = begun_as(elsewhere, START)
    for _ in range(2):  # also where the first answer did not reach Nimbus
        first = decide(star(), {})
        assert (first.reason, first.placement) == (REASON, {"star-1-1000": dict.fromkeys((1, 2), Slot("m2", 6701))})
    assert decide(star(placement=OTHER), {}).reason == "mine"
    assert decide(star(), {}).reason == "mine", "its only worker died"
    assert decide(star(topology_id="star-2-1090"), {}).reason == "mine", "it departed, and arrives again"
    assert begun_as(elsewhere, START)(star(), {}).reason == REASON, "the next run begins anew"


def test_only_topologies_of_the_start_begin_as_recorded() -> None:
    def seen(name: str, placement: dict[str, str]) -> dict[str, Any]:
        return {"name": name, "components": [{"tasks": [1, 2]}], "placement": placement}

    placed, half = {"1": "m1:6700", "2": "m1:6701"}, {"1": "m2:6700"}
    rounds = [
        {"observation": {"topologies": topologies}}
        for topologies in ([seen("star", half)], [seen("star", placed)], [seen("star", half), seen("late", placed)])
    ]
    assert start_of(rounds, ("star",), {}).placement == {"star": {1: "m1:6700", 2: "m1:6701"}}
