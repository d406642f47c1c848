"""What Nimbus does by itself in the driver, and the real policy service behind it, in process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.driver.cluster import (
    AmbiguousMachine,
    SchedulingCluster,
    Supervisor,
    WorkerChanges,
    request_of,
    with_executors,
    worker_changes,
)
from scheduler_plugins.driver.nimbus import AssignmentChange, Nimbus, NimbusSettings, StormRefusal
from scheduler_plugins.driver.rounds import Rounds, ServiceInProcess, bridge_in
from scheduler_plugins.model import Component, Edge, Slot, Topology
from scheduler_plugins.service.messages import Answer, PlacingScheduler, Request
from scheduler_plugins.service.state import ServiceState

START_S = 1_700_000_000.0
STAR = "star-1-1700000000"
M1, M2, M3 = (Slot(f"m{n}", 6700) for n in (1, 2, 3))


def supervisor(number: int, **changes: Any) -> Supervisor:
    return Supervisor(f"m{number}", f"m{number}-id", (6700, 6701, 6702, 6703), **changes)


def star(name: str = "star", workers: int = 3) -> Topology:
    kinds = (("spout", "spout", (1, 2, 3, 4)), ("centre", "bolt", (5, 6, 7, 8)), ("sink", "bolt", (9, 10, 11, 12)))
    components = tuple(Component(each, kind, tasks, ()) for each, kind, tasks in kinds)  # type: ignore[arg-type]
    edges = (Edge("spout", "default", "centre", "shuffle"), Edge("centre", "default", "sink", "shuffle"))
    whole = Topology(f"{name}-1-1700000000", name, workers, components, edges)
    return with_executors(whole, {"spout": 2, "centre": 2, "sink": 2})


class RoundRobin:
    """Places by a rule of its own what has no slot, and notes what it is shown."""

    def __init__(self, slots: Sequence[Slot] = (M1, M2)) -> None:
        self.slots, self.shown, self.places = slots, list[SchedulingCluster](), True
        self.meanwhile: list[Any] = []  # calls for the background

    def round(self, cluster: SchedulingCluster) -> None:
        shown = {each: dict(placed) for each, placed in cluster.assignments.items()}
        self.shown.append(SchedulingCluster(cluster.supervisors, dict(cluster.topologies), shown))
        for topology_id in cluster.topologies if self.places else ():
            waiting = cluster.unassigned(topology_id)
            cluster.assign(topology_id, {e: self.slots[i % len(self.slots)] for i, e in enumerate(waiting)})

    def after_round(self) -> None:
        while self.meanwhile:
            self.meanwhile.pop()()


def cluster_of(scheduler: RoundRobin, **settings: float) -> Nimbus:
    nimbus = Nimbus(NimbusSettings(**settings), START_S)
    nimbus.scheduler = scheduler
    for number in (1, 2, 3):
        nimbus.machine_up(supervisor(number))
    return nimbus


def running(scheduler: RoundRobin, **settings: float) -> Nimbus:
    """With star placed in its first round."""
    nimbus = cluster_of(scheduler, **settings)
    nimbus.submit(star())
    nimbus.advance(START_S)
    scheduler.shown.clear()
    return nimbus


def test_a_topology_is_placed_in_the_next_round() -> None:
    scheduler = RoundRobin()
    nimbus = cluster_of(scheduler)
    nimbus.advance(START_S)
    nimbus.submit(star())
    assert nimbus.next_s == START_S + 2 and nimbus.advance(START_S + 1.9) == ()
    (change,) = nimbus.advance(START_S + 2)
    assert change == AssignmentChange(START_S + 2, STAR, {}, nimbus.assignment(STAR))
    assert worker_changes(change.before, change.after) == WorkerChanges(started=(M1, M2))
    assert [len(shown.topologies) for shown in scheduler.shown] == [0, 1]
    assert nimbus.advance(START_S + 60) == () and len(scheduler.shown) == 31


def test_a_worker_restarts_only_if_its_own_executors_change() -> None:
    before = {(1, 2): M1, (3, 4): M1, (5, 6): M2, (7, 8): M3}
    assert worker_changes(before, before) == WorkerChanges()
    moved = {**before, (3, 4): M2}
    assert worker_changes(before, moved) == WorkerChanges(restarted=(M1, M2))
    cut = {(1, 2): M1, (3, 3): M1, (4, 4): M1, (5, 6): M2, (7, 8): Slot("m4", 6700)}
    assert worker_changes(before, cut) == WorkerChanges((Slot("m4", 6700),), (M3,), (M1,))


def test_a_rebalance_waits_and_hides_the_assignment_in_its_round() -> None:
    scheduler = RoundRobin()
    nimbus = running(scheduler, call_s=0.5)
    nimbus.rebalance("star", {"centre": 9}, 3)
    assert nimbus.status(STAR) == "REBALANCING" and nimbus.advance(START_S + 3.4) == ()
    assert [len(shown.assignments[STAR]) for shown in scheduler.shown] == [6]
    assert len(nimbus.topology(STAR).component("centre").executors) == 2
    (change,) = nimbus.advance(START_S + 3.5)
    assert scheduler.shown[-1].assignments == {} and nimbus.status(STAR) == "ACTIVE"
    assert [e.first_task for e in nimbus.topology(STAR).component("centre").executors] == [5, 6, 7, 8], "more are cut"
    assert len(change.before) == 6 and len(change.after) == 8
    nimbus.advance(START_S + 4)
    assert len(scheduler.shown[-1].assignments[STAR]) == 8


def test_a_second_rebalance_is_refused_while_one_is_under_way() -> None:
    scheduler = RoundRobin()
    nimbus = running(scheduler)
    nimbus.rebalance("star", {}, 0)
    with pytest.raises(StormRefusal, match="No transition for event: REBALANCE, status: REBALANCING"):
        nimbus.rebalance("star", {}, 0)
    scheduler.meanwhile = [lambda: nimbus.rebalance("star", {"sink": 3}, 0)]
    nimbus.carry_out_rebalance(STAR)
    assert nimbus.status(STAR) == "REBALANCING", "the one that its round led to is another one"


@pytest.mark.parametrize(
    ("name", "executors", "said"),
    [("star", {"sink": 0}, "Number of executors must be greater than 0"), ("other", {}, "other is not alive")],
)
def test_what_cannot_be_rebalanced_is_refused(name: str, executors: Mapping[str, int], said: str) -> None:
    nimbus = running(RoundRobin())
    with pytest.raises(StormRefusal, match=said):
        nimbus.rebalance(name, executors, 0)
    assert nimbus.status(STAR) == "ACTIVE"


def test_two_rebalances_follow_each_other() -> None:
    scheduler = RoundRobin()
    nimbus = running(scheduler, call_s=0.5)
    nimbus.submit(star("other"))
    nimbus.advance(START_S + 2)
    scheduler.shown.clear()
    nimbus.rebalance("star", {}, 0)
    nimbus.rebalance("other", {}, 0)
    nimbus.advance(START_S + 2.9)
    assert [sorted(shown.assignments) for shown in scheduler.shown] == [["other-1-1700000000"]]
    nimbus.advance(START_S + 3)
    assert [sorted(shown.assignments) for shown in scheduler.shown][1:] == [[STAR]], "Nimbus takes calls one by one"


def test_a_rebalance_that_places_nothing_leaves_an_assignment_that_is_empty() -> None:
    scheduler = RoundRobin()
    nimbus = running(scheduler)
    nimbus.rebalance("star", {}, 0)
    scheduler.places = False
    (change,) = nimbus.advance(START_S + 1)
    assert worker_changes(change.before, change.after) == WorkerChanges(stopped=(M1, M2))
    assert nimbus.cluster().assignments == {STAR: {}}


def test_a_nimbus_that_takes_over_begins_the_wait_again() -> None:
    first, second = RoundRobin(), RoundRobin()
    nimbus = running(first)
    nimbus.submit(star("other"))
    nimbus.rebalance("star", {}, 30)
    nimbus.kill("other", 30)
    nimbus.advance(START_S + 20)
    nimbus.restart(second)
    nimbus.advance(START_S + 49)
    assert nimbus.status(STAR) == "REBALANCING" and nimbus.topology_ids() == (STAR, "other-1-1700000000")
    nimbus.advance(START_S + 50)
    assert nimbus.status(STAR) == "ACTIVE" and nimbus.topology_ids() == (STAR,)
    assert len(second.shown) == 17, "at once, every 2 s, and for the rebalance"


def test_a_kill_waits_and_ends_the_rebalance_under_way() -> None:
    nimbus = running(RoundRobin())
    with pytest.raises(StormRefusal, match="star is already alive"):
        nimbus.submit(star())
    placed = nimbus.assignment(STAR)
    nimbus.rebalance("star", {}, 5)
    nimbus.kill("star", 10)
    with pytest.raises(StormRefusal, match="status: KILLED"):
        nimbus.rebalance("star", {}, 0)
    assert nimbus.advance(START_S + 9) == () and nimbus.status(STAR) == "KILLED"
    assert nimbus.advance(START_S + 10) == (AssignmentChange(START_S + 10, STAR, placed, {}),)
    assert nimbus.topology_ids() == ()


def alive(cluster: SchedulingCluster) -> list[str]:
    return [each.name for each in cluster.supervisors if each.alive]


def test_nimbus_notices_by_and_by_that_a_machine_died() -> None:
    scheduler = RoundRobin()
    nimbus = running(scheduler)
    nimbus.advance(START_S + 200)
    nimbus.machine_down("m2")
    nimbus.advance(START_S + 209)
    nimbus.machine_down("m2")
    assert alive(nimbus.cluster()) == ["m1", "m2", "m3"]
    nimbus.advance(START_S + 220)
    assert alive(nimbus.cluster()) == ["m1", "m3"] and len(nimbus.cluster().assignments[STAR]) == 6
    scheduler.slots = (M3,)
    (change,) = nimbus.advance(START_S + 222)
    assert worker_changes(change.before, change.after) == WorkerChanges((M3,), (M2,))
    nimbus.machine_up(supervisor(2))
    assert alive(nimbus.cluster()) == ["m1", "m2", "m3"]


def test_a_machine_that_is_back_in_time_has_lost_nothing() -> None:
    nimbus = running(RoundRobin())
    nimbus.advance(START_S + 200)
    nimbus.machine_down("m2")
    nimbus.advance(START_S + 215)
    nimbus.machine_up(supervisor(2))
    assert nimbus.advance(START_S + 300) == () and alive(nimbus.cluster()) == ["m1", "m2", "m3"]


def test_executors_that_were_just_placed_are_given_up_later() -> None:
    """Storm gives a worker nimbus.task.launch.secs to begin, and does not know that its machine died."""
    scheduler = RoundRobin()
    nimbus = running(scheduler)
    nimbus.machine_down("m2")
    scheduler.slots = (M3,)
    assert nimbus.advance(START_S + 119) == ()
    (change,) = nimbus.advance(START_S + 120)
    assert worker_changes(change.before, change.after) == WorkerChanges((M3,), (M2,))


def test_executors_without_heartbeats_are_placed_anew() -> None:
    scheduler = RoundRobin()
    nimbus = running(scheduler)
    scheduler.slots = (M3,)
    nimbus.lose_executors(STAR, [(1, 2)])
    (change,) = nimbus.advance(START_S + 2)
    assert worker_changes(change.before, change.after) == WorkerChanges(started=(M3,), restarted=(M1,))


def test_a_topology_that_runs_already_keeps_its_place() -> None:
    nimbus = cluster_of(RoundRobin())
    task_slots = dict.fromkeys(range(1, 11), M3)
    nimbus.submit(replace(star(), placement=task_slots, uptime_s=61))
    (change,) = nimbus.advance(START_S)
    assert set(change.before.values()) == {M3} and worker_changes(change.before, change.after).started == (M1,)
    assert nimbus.cluster().topologies[STAR].uptime_s == 61 and nimbus.topology(STAR).placement == {}


def test_a_machine_on_the_black_list_offers_nothing() -> None:
    nimbus = running(RoundRobin())
    nimbus.machine_up(supervisor(2, blacklisted=True))
    cluster = nimbus.cluster()
    assert not cluster.offers(M2) and sorted(cluster.free_slots()) == ["m1-id", "m3-id"]
    assert [machine.alive for machine in request_of(cluster, START_S, [], {}).machines] == [True, False, True]


def test_two_supervisors_of_one_name_are_ambiguous() -> None:
    twice = (supervisor(1), Supervisor("m1", "other-id", (6700,)))
    with pytest.raises(AmbiguousMachine, match="supervisors m1-id and other-id are both named m1"):
        request_of(SchedulingCluster(twice, {}, {}), START_S, [], {})


# With the policy service


def driven(folder: Path, policy: str, parameters: Mapping[str, Any], machines: int = 3) -> tuple[Nimbus, ServiceState]:
    nimbus = Nimbus(NimbusSettings(), START_S)
    state = ServiceState(folder, nimbus.clock)
    bridge_in(nimbus, ServiceInProcess(state))
    for number in range(1, machines + 1):
        nimbus.machine_up(supervisor(number))
    state.configure({"run_id": "r1", "policy": policy, "parameters": parameters})
    nimbus.submit(star())
    nimbus.advance(START_S)
    return nimbus, state


def test_the_real_policy_service_scales_out_by_a_rebalance(tmp_path: Path) -> None:
    nimbus, state = driven(tmp_path, "even", {"rebalance": True, "wait_s": 5})
    assert {slot.machine for slot in nimbus.assignment(STAR).values()} == {"m1", "m2", "m3"}
    nimbus.machine_up(supervisor(0))
    nimbus.advance(START_S + 4)
    state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m0"]})
    assert nimbus.advance(START_S + 11) == () and nimbus.status(STAR) == "REBALANCING"
    assert state.state()["topologies"][0]["rebalancing"]
    (change,) = nimbus.advance(START_S + 12)
    assert change.t == pytest.approx(START_S + 6 + 0.05 + 5)
    (first, second) = state.state()["decisions"]
    assert (first["message"], second["message"], second["event_id"]) == ("placed at once", "rebalanced", "e1")
    assert second["applied"] and second["applied_t"] == change.t
    changes = worker_changes(change.before, change.after)
    assert Slot("m0", 6700) in changes.started + changes.restarted
    touched = {*changes.started, *changes.stopped, *changes.restarted}
    assert touched == set(map(Slot.parse, second["slots"])), "what the service says restarts does"


def test_what_is_driven_twice_is_the_same(tmp_path: Path) -> None:
    logs = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        nimbus, state = driven(tmp_path / folder, "even", {"rebalance": True})
        nimbus.machine_up(supervisor(0))
        nimbus.advance(START_S + 4)
        state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m0"]})
        nimbus.machine_down("m2")
        changes = nimbus.advance(START_S + 300)
        assert [change.t - START_S for change in changes] == pytest.approx([6.05, 128])
        logs.append(state.log_path.read_text())
    assert logs[0] == logs[1] and logs[0].count("\n") == 152


def test_a_policy_that_throws_moves_nothing_and_is_no_fallback(tmp_path: Path) -> None:
    nimbus, state = driven(tmp_path, "even", {})
    state.policy = lambda _observation, _memory: 1 / 0  # type: ignore[assignment, return-value]
    assert nimbus.advance(START_S + 2) == ()
    assert state.policy_error == "ZeroDivisionError: division by zero"
    rounds = nimbus.scheduler
    assert isinstance(rounds, Rounds) and rounds.events == []


def test_a_service_that_fails_is_a_fallback_in_its_words(tmp_path: Path) -> None:
    nimbus, state = driven(tmp_path, "even", {})
    state.log_dir = tmp_path / "gone"
    nimbus.advance(START_S + 2)
    rounds = nimbus.scheduler
    assert isinstance(rounds, Rounds)
    (event,) = rounds.events
    assert event["kind"] == "fallback" and event["t"] == START_S + 2
    assert event["reason"].startswith("schedule: FileNotFoundError: ")


class Answering:
    """A policy service with one answer."""

    def __init__(self, **answer: Any) -> None:
        self.requests, self.reports = list[Request](), list[Mapping[str, Any]]()
        self.answer = Answer(**answer)

    def schedule(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.answer

    def applied(self, report: Mapping[str, Any]) -> None:
        self.reports.append(report)


def test_a_scheduler_that_throws_places_nothing_and_the_next_request_says_why() -> None:
    service, nimbus = Answering(scheduler=PlacingScheduler("even", conf={"a": 1})), Nimbus(start_s=START_S)
    rounds = bridge_in(nimbus, service)
    nimbus.machine_up(supervisor(1))
    two_workers = {task: Slot("m1", 6700 + (task + 1) // 2 % 2) for task in range(1, 13)}
    nimbus.submit(replace(star(workers=1), placement=two_workers))
    nimbus.lose_executors(STAR, [(1, 2)])
    nimbus.submit(star("other", workers=1))
    assert [len(change.after) for change in nimbus.advance(START_S)] == [5], "what it placed before is forgotten"
    (event,) = rounds.events
    assert event["kind"] == "scheduler_failed" and event["frames"][0].startswith("place_evenly(cluster.py:")
    said = 'Storm\'s even scheduler with conf {"a": 1} threw ValueError: fromIndex(0) > toIndex(-1)'
    assert event["reason"] == said
    service.answer = Answer()
    nimbus.advance(START_S + 4)
    errors = [[r.scheduler_errors.get(t.topology_id) for t in r.topologies] for r in service.requests]
    assert errors == [[None, None], [said, said], [None, None]], "once"


def test_a_scheduler_that_throws_in_the_round_of_the_rebalance_moves_nothing() -> None:
    service, nimbus = Answering(), Nimbus(start_s=START_S)
    rounds = bridge_in(nimbus, service)
    nimbus.machine_up(supervisor(1))
    two_workers = {task: Slot("m1", 6700 + (task + 1) // 2 % 2) for task in range(1, 13)}
    nimbus.submit(replace(star(), placement=two_workers))
    service.answer = Answer("d1", scheduler=PlacingScheduler("even"), rebalance=(STAR,))
    nimbus.submit(
        replace(star("other", workers=1), placement={t: Slot("m1", s.port + 2) for t, s in two_workers.items()})
    )
    nimbus.advance(START_S)
    service.answer = Answer()
    nimbus.lose_executors("other-1-1700000000", [(1, 2)])
    assert [change.topology_id for change in nimbus.advance(START_S + 1)] == ["other-1-1700000000"]
    assert [event["kind"] for event in rounds.events] == ["scheduler_failed"]
    (report,) = service.reports
    assert not report["ok"] and report["message"].endswith(
        "threw ValueError: fromIndex(0) > toIndex(-1); nothing was moved"
    )
