from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.replay import ReplayError, read_rounds, replay
from scheduler_plugins.service.messages import observation_from_log
from scheduler_plugins.service.run_snapshot import LostTasks, WorkerRestart
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.state import SHOWN_S, ServiceState
from tests.support.rounds import PLACED, TOPOLOGY, line, only_topology, request


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def service_state(tmp_path: Path) -> ServiceState:
    service_state = ServiceState(tmp_path, Clock())
    service_state.configure({"run_id": "stela-r1", "policy": "stela", "parameters": {}, "window_s": 30})
    return service_state


def feed(service_state: ServiceState, seconds: int, start: float = 1000.0) -> float:
    """`seconds` of lines: the spout emits 100/s, the centre executes 50/s and passes them on, so it is congested."""
    for i in range(seconds):
        t = start + i + 0.5
        service_state.take_samples(
            [line(t, "m1", {"spout": (100, 0), "centre": (50, 50)}), line(t, "m2", {"sink": (0, 50)})]
        )
    return start + seconds


def test_the_decision_log_begins_with_its_run(tmp_path: Path) -> None:
    state = ServiceState(tmp_path, Clock())
    state.schedule(request(1000.0, PLACED))
    for run in ("stela-r1", "stela-r2"):
        state.configure({"run_id": run, "policy": "stela"})
        state.schedule(request(1002.0, PLACED))
        assert [json.loads(line)["run_id"] for line in state.log_path.read_text().splitlines()] == [run]


def test_a_policys_own_window_comes_before_the_harnesss(tmp_path: Path) -> None:
    state = ServiceState(tmp_path, Clock())
    body = {"run_id": "r", "policy": "stela", "window_s": 30}
    for parameters, window_s in (({"window_s": 200}, 200.0), ({}, 30.0)):
        state.configure({**body, "parameters": parameters})
        state.schedule(request(1000.0, PLACED))
        assert state.topologies[TOPOLOGY].samples.window_s == window_s
    state.configure({"run_id": "r", "policy": "even"})
    state.schedule(request(1000.0, PLACED))
    assert state.topologies[TOPOLOGY].samples.window_s == 60.0


def test_a_window_longer_than_what_was_measured_has_that_and_says_so(tmp_path: Path) -> None:
    clock = Clock()
    state = ServiceState(tmp_path, clock)
    state.configure({"run_id": "r", "policy": "stela", "parameters": {"window_s": 200}, "window_s": 60})
    state.schedule(request(1000.0, PLACED))
    now = clock.now = feed(state, 50)
    state.schedule(request(now, PLACED, machines=3))
    assert only_topology(state.state())["window_fault"] == ""
    state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m3"]})
    answer = state.schedule(request(now + 1, PLACED, machines=3))
    assert answer["decision_id"] == "d1"
    assert answer["reason"].endswith("; rates over 48 s, as no more was measured of the 200 s asked for")


def test_a_submission_is_placed_and_a_placed_topology_is_left_alone(service_state: ServiceState) -> None:
    answer = service_state.schedule(request(1000.0))
    assert answer["decision_id"] == "d1"
    assert set(answer["topologies"]["star-1-1000"]["placement"]) == set(PLACED)
    assert service_state.schedule(request(1002.0, PLACED))["decision_id"] is None


def test_rates_reach_the_policy_and_the_event_is_decided_once(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    now = feed(service_state, 20)
    service_state.schedule(request(now, PLACED, machines=3))
    service_state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m3"]})
    answer = service_state.schedule(request(now, PLACED, machines=3))
    # 3 executors on 2 machines: two. With the second the centre is projected to send twice what the sink does.
    assert answer["topologies"]["star-1-1000"]["executors"] == {"centre": 2, "sink": 2}
    assert answer["topologies"]["star-1-1000"]["placement"] == {"2": "m3:6700", "4": "m3:6701"}
    assert service_state.event is None
    assert service_state.schedule(request(now + 2, PLACED, machines=3))["decision_id"] is None


def test_observed_rates_are_those_of_the_lines(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    now = feed(service_state, 20)
    service_state.take_machine_samples([json.dumps({"machine": "m1", "t": now, "dt_s": 1.0, "cpu_cores": 0.2})])
    service_state.schedule(request(now, PLACED))
    logged = json.loads(service_state.log_path.read_text().splitlines()[-1])["observation"]
    (topology,) = logged["topologies"]
    by_name = {c["name"]: c for c in topology["components"]}
    assert by_name["spout"]["emitted_per_s"] == pytest.approx(100)
    assert by_name["spout"]["due_per_s"] == pytest.approx(120)
    assert by_name["spout"]["behind_ms"] == 20.0
    assert by_name["centre"]["executed_per_s"] == pytest.approx(50)
    assert by_name["centre"]["execute_ms"] == pytest.approx(4.0)
    assert by_name["centre"]["capacity"] == pytest.approx(0.2)
    assert [e["tuples_per_s"] for e in topology["edges"]] == pytest.approx([100, 50])
    assert topology["sink_tuples_per_s"] == pytest.approx(50)
    assert topology["latency_ms"] == pytest.approx(25.0)
    assert logged["samples_age_s"] == pytest.approx(0.5)
    assert logged["machines"][0]["cpu_load"] == pytest.approx(0.2)


def test_a_policy_knows_the_cores_of_machines_when_it_first_places(service_state: ServiceState) -> None:
    """Probes run before the topology; a machine of which they have not said anything has none that are known."""
    sizes = {"m1": 0.25, "m2": None}
    lines = [{"machine": m, "t": 999.0, "dt_s": 1.0, "cpu_quota_cores": cores} for m, cores in sizes.items()]
    service_state.take_machine_samples(map(json.dumps, lines))
    service_state.schedule(request(1000.0, PLACED, machines=3))
    logged = json.loads(service_state.log_path.read_text().splitlines()[-1])["observation"]
    assert {m["name"]: m["cores"] for m in logged["machines"]} == {"m1": 0.25, "m2": None, "m3": None}
    assert [m.cores for m in observation_from_log(logged).machines] == [0.25, None, None]


def test_the_state_says_among_which_machines_the_topology_was_placed(service_state: ServiceState) -> None:
    """The first round that has the topology counts: one in which m2 is missing leaves it out for good."""
    without = request(1000.0, machines=1)
    service_state.schedule(without | {"topologies": []})
    assert service_state.state()["topologies"] == []
    service_state.schedule(without)
    service_state.schedule(request(1010.0, PLACED, machines=2))
    assert service_state.state()["machines"] == ["m1", "m2"]
    assert only_topology(service_state.state())["placed_among"] == ["m1"]
    service_state.configure({"run_id": "even-r1", "policy": "even"})
    assert service_state.state()["topologies"] == []


def test_damaged_lines_are_counted_and_the_rest_is_taken(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.take_samples(['{"v": 1, "t": 10', "[]", "{}", line(1001.0, "m2", {"sink": (0, 50)})])
    assert service_state.state()["damaged_lines"] == 3
    assert only_topology(service_state.state())["workers_reporting"] == 1


def test_no_number_in_a_line_takes_the_others_with_it(service_state: ServiceState) -> None:
    """Nor the service's time: a line of so many seconds was counted in each of them."""
    service_state.schedule(request(1000.0, PLACED))
    whole = json.loads(line(1001.0, "m1", {"sink": (0, 50)}))
    damaged = [whole | {"t": math.inf}, whole | {"dt_s": 1e12}, whole | {"dt_s": -1.0}, whole | {"spouts": [1]}]
    lines = [json.dumps(each) for each in damaged]
    service_state.take_samples([*lines, line(1001.0, "m2", {"sink": (0, 50)})])
    assert service_state.state()["damaged_lines"] == 4
    assert only_topology(service_state.state())["workers_reporting"] == 1


def test_a_line_of_a_clock_set_wrong_is_not_kept(service_state: ServiceState) -> None:
    """What is kept is trimmed by the lines' time: nothing would ever be older than such a line."""
    service_state.schedule(request(1000.0, PLACED))
    gaps = {"task": [1], "from_s": [1000.0], "until_s": [1e9], "due": [5]}
    ahead = line(1000.0 + 3600, "m1", {"spout": (100, 0)})
    gap = json.dumps(json.loads(line(1000.5, "m1", {"spout": (100, 0)})) | {"gaps": gaps})
    machine = {"machine": "m1", "dt_s": 1.0, "cpu_cores": 1.0}
    service_state.take_samples([line(1000.5, "m1", {"spout": (100, 0)}), ahead, gap])
    service_state.take_machine_samples([json.dumps(machine | {"t": t}) for t in (1000.5, 4600.0, math.nan)])
    assert service_state.state()["damaged_lines"] == 4
    service_state.clock.now = 1400.0  # type: ignore[attr-defined]
    for second in range(1001, 1400):
        service_state.take_samples([line(second + 0.5, "m1", {"spout": (100, 0)})])
        service_state.take_machine_samples([json.dumps(machine | {"t": second + 0.5})])
    samples = service_state.topologies[TOPOLOGY].samples
    assert len(samples._lines["m1:6700"]) == 30 + 10
    assert len(service_state.machine_samples._lines["m1"]) == 30
    assert max(samples._series) == 1399


@pytest.mark.parametrize("ahead", [0.05, 59.0])
def test_a_clock_that_is_a_little_ahead_is_heard(service_state: ServiceState, ahead: float) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.take_samples([line(1000.0 + ahead, "m2", {"sink": (0, 50)})])
    assert service_state.state()["damaged_lines"] == 0
    assert only_topology(service_state.state())["workers_reporting"] == 1


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"event_id": "e", "kind": "fly", "leave": 1}, 400, "kind is 'fly'; stela answers .*scale_out"),
        ({"event_id": "e", "kind": "scale_out", "joined": ["m2"], "leave": 1}, 400, "leave is 1 with a scale_out"),
        ({"event_id": "e", "kind": "scale_out", "joined": ["m9"]}, 409, "m9 is not known to Nimbus"),
        ({"event_id": "e", "kind": "scale_out", "joined": []}, 400, "without machines"),
    ],
)
def test_a_scale_event_that_cannot_be_is_refused(
    service_state: ServiceState, body: dict[str, object], status: int, said: str
) -> None:
    service_state.schedule(request(1000.0, PLACED))
    with pytest.raises(CallRefusal, match=said) as refused:
        service_state.scale(body)
    assert refused.value.status == status


def test_a_second_event_waits_for_the_first(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED, machines=3))
    service_state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m3"]})
    with pytest.raises(CallRefusal, match="e1 is still pending"):
        service_state.scale({"event_id": "e2", "kind": "scale_out", "joined": ["m3"]})


def test_a_policy_that_throws_moves_nothing_and_is_reported(service_state: ServiceState) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no rate")

    service_state.policy = broken  # type: ignore[assignment]
    assert service_state.schedule(request(1000.0))["topologies"] == {}
    assert service_state.state()["policy_error"] == "ZeroDivisionError: no rate"


def test_a_memory_is_logged_where_it_changes_and_read_in_every_round(service_state: ServiceState) -> None:
    """With 85 jobs one of Henge's has some 300 kB. A decision that was withdrawn takes its memory with it."""
    memories: list[Memory] = [{}, {"n": 1}, {"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}]
    given = []

    def remembers(_observation: Observation, memory: Memory) -> Decision:
        given.append(memory)
        return Decision(memory=dict(memories[len(given) - 1]))

    service_state.policy = remembers
    for number in range(len(memories)):
        if number == 3:
            service_state.memory = {}  # as `_forget` does
        service_state.schedule(request(1000.0 + number))
    lines = [json.loads(line) for line in service_state.log_path.read_text().splitlines()]
    assert [line.get("memory") for line in lines] == [{}, None, None, {}, None, None]
    assert [line["decision"].get("memory") for line in lines] == [None, {"n": 1}, None, {"n": 1}, {"n": 2}, None]
    rounds = list(read_rounds(service_state.log_path))
    assert [line["memory"] for line in rounds] == given
    assert [line["decision"]["memory"] for line in rounds] == memories
    service_state.configure({"run_id": "even-r1", "policy": "even"})
    service_state.schedule(request(2000.0))
    assert json.loads(service_state.log_path.read_text())["memory"] == {}, "a run's log stands for itself"


def test_a_log_without_its_first_lines_is_refused(service_state: ServiceState) -> None:
    for number in range(3):
        service_state.schedule(request(1000.0 + number))
    service_state.log_path.write_text("".join(service_state.log_path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(ReplayError, match=r"line 1: not a decision log line \(a decision log whose first line has no"):
        list(read_rounds(service_state.log_path))


def test_a_memory_that_could_not_be_logged_is_the_policys_failure(service_state: ServiceState) -> None:
    service_state.policy = lambda _observation, _memory: Decision(memory={"seen": {1, 2}})
    assert service_state.schedule(request(1000.0))["topologies"] == {}
    assert (
        service_state.state()["policy_error"]
        == "its memory is no JSON data: Object of type set is not JSON serializable"
    )


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        *(
            (Decision(wait_s=n), f"wait_s is {n!r}; allowed are whole numbers from 0 to")
            for n in (2.5, True, "30", 601)
        ),
        *(
            (Decision(executors={TOPOLOGY: {"sink": n}}), f"sink is {n!r}; allowed are whole numbers from 1 to 2")
            for n in (1.5, True, 0, 3)
        ),
    ],
)
def test_a_number_out_of_its_range_is_the_policys_failure(
    service_state: ServiceState, decision: Decision, said: str
) -> None:
    service_state.policy = lambda _observation, _memory: decision
    answer = service_state.schedule(request(1000.0))
    assert answer["topologies"] == {} and not answer["wait_s"]
    assert said in service_state.state()["policy_error"]


def test_an_unknown_policy_or_parameter_is_refused(service_state: ServiceState) -> None:
    with pytest.raises(CallRefusal, match=r"'stella' is not known; known are .*even, .*stela, storm"):
        service_state.configure({"run_id": "r", "policy": "stella"})
    with pytest.raises(CallRefusal, match="no parameter 'alpha'"):
        service_state.configure({"run_id": "r", "policy": "stela", "parameters": {"alpha": 1}})


def test_a_log_replays_to_the_same_decisions_and_shows_what_another_policy_would_do(
    service_state: ServiceState,
) -> None:
    service_state.schedule(request(1000.0, PLACED, machines=3))
    now = feed(service_state, 20)
    service_state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m3"]})
    service_state.schedule(request(now, PLACED, machines=3))
    same = replay(service_state.log_path, "stela")
    assert [r.same for r in same] == [True, True]
    other = replay(service_state.log_path, "even", {"rebalance": True})
    assert other[1].event_id == "e1" and not other[1].same
    assert other[1].now["placement"]


def test_a_log_that_is_not_one_is_named_with_its_line(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    with pytest.raises(ReplayError, match="No such file"):
        replay(log, "stela")
    log.write_text('{"t": 1}\n')
    with pytest.raises(ReplayError, match="line 1: not a decision log line"):
        replay(log, "stela")


def test_a_foreign_scheduler_that_failed_ends_the_run_and_is_not_asked_again(tmp_path: Path) -> None:
    service_state = ServiceState(tmp_path, Clock())
    service_state.configure(
        {"run_id": "theirs-r1", "policy": "foreign", "parameters": {"scheduler": "org.example.Theirs"}}
    )
    asked = service_state.schedule(request(1000.0))
    assert asked["scheduler"] == {"name": "foreign", "class_name": "org.example.Theirs", "conf": {}}
    said = "org.example.Theirs threw java.lang.IllegalStateException: boom"
    after = service_state.schedule(request(1002.0, scheduler_error=said))
    assert after["scheduler"] is None and after["topologies"] == {}
    assert service_state.state()["policy_error"] == said
    service_state.schedule(request(1004.0))
    assert service_state.state()["policy_error"] == said, "once is enough"
    service_state.configure(
        {"run_id": "theirs-r2", "policy": "foreign", "parameters": {"scheduler": "org.example.Theirs"}}
    )
    assert service_state.state()["policy_error"] is None
    assert "scheduler" in service_state.schedule(request(1006.0))


def test_a_worker_that_begins_again_is_said_once(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    rates = {"spout": (100, 0), "centre": (50, 50)}
    again = json.dumps({**json.loads(line(1003.5, "m1", rates)), "pid": 2})
    service_state.take_samples([line(1001.5, "m1", rates), line(1002.5, "m2", {"sink": (0, 50)}), again])
    late = line(1002.5, "m1", rates)
    service_state.take_samples([late, json.dumps({**json.loads(again), "t": 1004.5})])
    assert service_state.snapshot().worker_restarts == (WorkerRestart(1003.5, "m1:6700", (5, 6), "star"),)
    service_state.configure({"run_id": "stela-r2", "policy": "stela"})
    service_state.schedule(request(1000.0, PLACED))
    assert service_state.snapshot().worker_restarts == ()


def test_a_spout_that_begins_again_in_another_slot_is_said(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    rates = {"spout": (100, 0), "centre": (50, 50)}
    service_state.take_samples([line(1001.5, "m1", rates), line(1001.5, "m2", {"sink": (0, 50)})])
    service_state.take_samples([line(1008.5, "m2", rates), line(1002.5, "m1", rates), line(1009.5, "m2", rates)])
    assert service_state.snapshot().worker_restarts == (WorkerRestart(1008.5, "m2:6700", (5, 6), "star"),)


def test_spouts_that_a_workers_first_line_does_not_name_are_said_when_they_are_there(
    service_state: ServiceState,
) -> None:
    service_state.schedule(request(1000.0, PLACED))
    rates = {"spout": (100, 0), "centre": (50, 50)}
    first, second, third = ({**json.loads(line(t, "m1", rates)), "pid": 2} for t in (1003.5, 1004.5, 1005.5))
    del first["spouts"]
    service_state.take_samples([line(1001.5, "m1", rates), *map(json.dumps, (first, second, third))])
    restarts = service_state.snapshot().worker_restarts
    assert [(each.t, each.spouts) for each in restarts] == [(1003.5, ()), (1004.5, (5, 6))]


def test_tasks_that_lose_their_slots_are_said_unless_they_are_rebalanced(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    lost = {task: slot for task, slot in PLACED.items() if not slot.startswith("m2")}
    service_state.schedule(request(1002.0, {}, rebalancing=True))
    service_state.schedule(request(1004.0, PLACED))
    assert service_state.snapshot().lost_tasks == ()
    service_state.schedule(request(1006.0, lost))
    service_state.schedule(request(1008.0, lost))
    assert service_state.snapshot().lost_tasks == (LostTasks(1000.0, 2, ("m2",), "star"),)
    service_state.schedule({**request(1010.0), "topologies": []})
    assert len(service_state.snapshot().lost_tasks) == 1, "a topology that is killed loses nothing"


def test_how_long_lines_are_is_the_clusters_and_in_the_state(tmp_path: Path) -> None:
    state = ServiceState(tmp_path, Clock(), sample_s=10)
    state.configure({"run_id": "r", "policy": "even"})
    state.schedule(request(1000.0, PLACED))
    assert state.state()["sample_s"] == 10
    assert (state.topologies[TOPOLOGY].samples.sample_s, state.machine_samples.sample_s) == (10, 10)


def test_what_is_over_is_in_the_state_for_an_hour(tmp_path: Path) -> None:
    """Two days of restarts and decisions would be in every look."""
    clock = Clock()
    state = ServiceState(tmp_path, clock)
    state.configure({"run_id": "r", "policy": "even"})
    decision_id = state.schedule(request(1000.0))["decision_id"]
    state.applied({"decision_id": decision_id, "topology": TOPOLOGY, "t": 1001.0, "ok": True})
    state.schedule(request(1002.0, {**PLACED, "7": "m1:6700"}))
    for t, pid in ((1001.0, 1), (1002.0, 2)):
        state.take_samples([json.dumps(json.loads(line(t, "m1", {"centre": (50, 50)})) | {"pid": pid})])
    clock.now = 1003.0
    state.schedule(request(1003.0, PLACED))
    for now, number in ((1000.0 + SHOWN_S, 1), (1100.0 + SHOWN_S, 0)):
        clock.now = now
        shown = state.snapshot()
        lists = (shown.decisions, shown.worker_restarts, shown.lost_tasks)
        assert [len(each) for each in lists] == [number] * 3


def test_a_decision_of_which_nothing_is_known_stays_in_the_state(tmp_path: Path) -> None:
    clock = Clock()
    state = ServiceState(tmp_path, clock)
    state.configure({"run_id": "r", "policy": "even"})
    state.schedule(request(1000.0))
    (status,) = state.decisions.statuses
    assert not status.was_over(math.inf)
    assert len(state.state()["decisions"]) == 1
