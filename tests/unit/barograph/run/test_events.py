"""Events over a fake cluster: what happens, what is written down, and what goes wrong."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barograph.errors import (
    CapacityError,
    ExperimentError,
    InfrastructureError,
    Interrupted,
    MachineLost,
    MachineRecalled,
    NoFreshSamples,
    RunBroken,
)
from barograph.machines import series_lease
from barograph.plan.blocks import digest
from barograph.plan.events.faults import Crash
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import Experiment
from barograph.policy_service import ServiceUnreachable
from barograph.run import storm_cluster
from barograph.run.clocks import ClockWrong
from barograph.run.context import RunContext
from playbooks import cluster
from scheduler_plugins.service.run_snapshot import (
    LostTasks,
    Move,
    ServiceDecision,
    TopologyStatus,
    TupleCounts,
    WorkerRestart,
)
from tests.support.fakes.storm import BOOT_S
from tests.unit.barograph.conftest import Heard
from tests.unit.barograph.run.conftest import Notes, SetUp, Stage, of

OUT, IN = ScaleOut("steady", 1), ScaleIn("steady", 1)
RATE, CRASH = RateChange("steady", 1.5), Crash("steady", "m2")
REVIVED = Crash("steady", "m2", restart_after_s=10.0)
MIXED = (ScaleOut("steady", 2), ScaleIn("steady", 1), RateChange(70.0, 1.5), Crash("steady", "m2", 10.0))


def test_a_machine_leaves_when_nothing_is_on_it(stage: SetUp) -> None:
    here = stage(IN)
    kinds = [event["kind"] for event in here.go()]
    assert kinds.index("applied") < kinds.index("machines_left") < kinds.index("topology_killed")
    (asked,), (left,), (before, after) = here.of("scale_requested"), here.of("machines_left"), here.of("steady")
    assert (asked["event_id"], asked["event"], asked["joined"], asked["leave"]) == ("e1", "scale_in", [], 1)
    assert (left["machines"], left["given_back"]) == (["m4"], False)
    assert (before["event_id"], after["event_id"]) == (None, "e1") and after["steady"] and after["t"] > left["t"]
    assert [phase["name"] for phase in here.document()["phases"]][5:] == ["scale", "leave", "after", "collect"]
    assert "give_back" not in here.storm.calls
    assert here.storm.arguments["collect"]["machines"] == ("master", "m1", "m2", "m3"), "m4 was collected before"
    assert (here.series.run_folder(here.run_id) / "machines" / "m4.jsonl").stat().st_size > 0
    assert set(here.document()["clock_offset_ms"]) == {"master", "m1", "m2", "m3", "m4"}


@pytest.mark.parametrize(("wait_s", "faults"), [(30, {}), (300, {}), (300, {"nimbus_restarts_after_scale_s": 280.0})])
def test_a_rebalance_that_waits_is_waited_for(stage: SetUp, wait_s: int, faults: dict[str, float]) -> None:
    """300 s are more than is waited for a decision that does not wait (OUTCOME_S). A Nimbus that restarts waits again
    from the beginning."""
    waiting = {"rebalance": True, "wait_s": wait_s}
    here = stage(OUT, repetitions=1, policy="even", parameters=waiting, durations={"horizon_s": 700.0}, **faults)
    here.go()
    (asked,), (applied,), (_, after) = here.of("scale_requested"), here.of("applied"), here.of("steady")
    waited_s = wait_s + (280 if faults else 0)
    assert applied["ok"] and waited_s <= applied["t"] - asked["t"] <= waited_s + 25
    assert after["steady"] and after["t"] >= applied["t"], "steadiness is tested from then on"


def test_the_last_run_gives_its_machine_back_at_once(stage: SetUp) -> None:
    here = stage(IN, repetitions=1).last()
    assert of(here.go(), "machines_left")[0]["given_back"] is True
    calls = here.storm.calls[here.storm.calls.index("give_back") - 2 :]
    assert calls[:3] == ["leave", "collect", "give_back"] and here.storm.returned == {"m4"}


def test_a_run_that_gave_machines_back_is_not_repeated_on_what_is_left(stage: SetUp) -> None:
    here = stage(IN, repetitions=1).last()
    here.storm.faults["stop"] = [ServiceUnreachable("the network went")]
    assert here.fails(ServiceUnreachable)["attempt"] == 1 and here.storm.returned == {"m4"}


HELD = "held: samples are 12.0 s old"
FAILURES: list[tuple[tuple[PlannedEvent, ...], dict[str, Any], type[Exception], str]] = [
    ((IN,), {"release": (), "reason": "too few slots"}, RunBroken, "1 machines leave and released none: too few slots"),
    ((IN,), {"release": ("m3", "m4")}, RunBroken, "released m3, m4"),
    ((IN,), {"release": ("m9",)}, RunBroken, "released m9"),
    ((IN,), {"placed": 1}, RunBroken, r"not every task found a place before m4 left within 60 s; 1 of 2 tasks"),
    ((OUT,), {"held": HELD}, RunBroken, rf"e1 was not decided.*within 90 s; policy \w+: {HELD}"),
    ((OUT,), {"held": HELD, "silent_after_s": 52}, RunBroken, rf"a worker has been silent for 7\d s; {HELD}"),
    ((CRASH,), {"dead": ("m3",), "dies_after_s": 9_000}, MachineLost, "m3 stopped answering during the run"),
    ((IN, Crash("steady", "m4")), {}, ExperimentError, r"events.1 names m4, but the policy had let it leave"),
    ((RATE,), {"restarts": [(60, "m1:6700", (1,))]}, RunBroken, "m1:6700 restarted and nobody asked for that"),
]


@pytest.mark.parametrize(("events", "faults", "error", "message"), FAILURES)
def test_what_ends_a_run_in_an_event(
    events: Sequence[PlannedEvent], faults: dict[str, Any], error: type[Exception], message: str, stage: SetUp
) -> None:
    here = stage(*events, **faults)
    failure = here.fails(error, message)["failure"]
    assert failure["blame"] == {RunBroken: "system_under_test", MachineLost: "infrastructure"}.get(
        error, "configuration"
    )
    assert "leave" not in here.storm.calls or len(events) > 1, "not before every task has another place"


def test_an_aborted_scale_out_is_repeated_with_those_that_live(stage: SetUp) -> None:
    here = stage(ScaleOut("steady", 2), dies_deciding=["m5"])
    here.go()
    (aborted,) = here.of("scale_aborted")
    assert (aborted["event_id"], aborted["machines"]) == ("e1", ["m5"]) and "slot m5:6701 was lost" in aborted["reason"]
    requests = [(event["event_id"], event["joined"]) for event in here.of("scale_requested")]
    assert requests == [("e1", ["m5", "m6"]), ("e1.2", ["m6"])]
    applied = [(event["decision_id"], event["event_id"], event["ok"]) for event in here.of("applied")]
    assert applied == [("d2", "e1", False), ("d3", "e1.2", True)]
    assert here.document()["missing"] == ["m5: all files, it is down"]


def test_an_aborted_scale_in_is_repeated(stage: SetUp) -> None:
    here = stage(IN, dies_deciding=["m2", "m3"])
    here.go()
    assert [event["event_id"] for event in here.of("scale_requested")] == ["e1", "e1.2", "e1.3"]
    assert here.of("machines_left")[0]["machines"] == ["m4"]


@pytest.mark.parametrize(
    ("machines", "message"), [(1, "m5 died before scale event e1 was applied"), (5, "e1 was aborted 3 times")]
)
def test_an_operation_is_repeated_twice_at_most_and_while_machines_are_left(
    machines: int, message: str, stage: SetUp
) -> None:
    here = stage(ScaleOut("steady", machines), dies_deciding=["m5", "m6", "m7", "m8"][: 4 if machines > 1 else 1])
    here.fails(MachineLost)
    failure = here.first_attempt()["failure"]
    assert failure["blame"] == "infrastructure" and message in failure["message"]


def test_the_input_rate_changes(stage: SetUp) -> None:
    here = stage(RATE)
    here.go()
    (changed,), (_, after) = here.of("rate_changed"), here.of("steady")
    assert (changed["event_id"], changed["factor"]) == ("e1", 1.5) and here.storm.state().input_rate_factor == 1.5
    assert after["t"] - changed["t"] >= here.context.experiment.durations.after_floor_s
    assert here.storm.state().topologies[0].series.sinks[-1] == pytest.approx(300)


def test_a_crash_is_not_blamed_on_the_machine_and_its_files_are_fetched_in_the_end(stage: SetUp) -> None:
    here = stage(CRASH)
    here.go()
    (crashed,), (_, after) = here.of("crashed"), here.of("steady")
    assert (crashed["event_id"], crashed["machine"]) == ("e1", "m2") and here.of("restarted") == []
    assert after["steady"] and after["t"] > crashed["t"] + 30 + 40, "steadiness is tested since the tasks are back"
    assert here.storm.calls[-3:] == ["stop", "restart", "collect"]
    assert "m2" in here.storm.arguments["collect"]["machines"] and here.document()["missing"] == []


def test_a_machine_that_does_not_come_back_costs_its_files_only(stage: SetUp) -> None:
    here = stage(CRASH, restart=[OSError("no such container")])
    here.go()
    assert here.document()["missing"] == ["m2: all files, it is down"]
    assert "m2" not in here.storm.arguments["collect"]["machines"]


def test_a_crashed_machine_restarts_when_the_plan_says(stage: SetUp) -> None:
    here = stage(REVIVED)
    here.go()
    (crashed,), (restarted,) = here.of("crashed"), here.of("restarted")
    assert restarted["machine"] == "m2" and 10 <= restarted["t"] - crashed["t"] < 12
    assert here.of("steady")[1]["steady"]


def test_a_topology_that_does_not_recover_is_a_result_not_an_error(stage: SetUp) -> None:
    after = of(stage(CRASH, placed=1).go(), "steady")[1]
    assert not after["steady"] and after["reason"].endswith("1 of 2 tasks are placed")


def test_a_mixed_plan_happens_in_order_and_the_next_run_starts_with_every_machine(stage: SetUp) -> None:
    here = stage(*MIXED)
    told = here.go()
    zeros = [event for event in told if event["kind"] in ("scale_requested", "rate_changed", "crashed")]
    assert [event["event_id"] for event in zeros] == ["e1", "e2", "e3", "e4"]
    assert 70 <= zeros[2]["t"] - zeros[1]["t"] < 72, "the third is at a time"
    assert [event["event_id"] for event in here.of("steady")] == [None, "e1", "e2", "e3", "e4"]
    assert [event["t"] for event in told] == sorted(event["t"] for event in told)
    assert here.document()["missing"] == []
    assert here.attempt() == here.series.plan()[1].run_id


def test_machines_that_join_have_names_that_nobody_had(stage: SetUp) -> None:
    told = stage(OUT, IN, ScaleOut("steady", 2)).go()
    assert [event["machines"] for event in of(told, "machines_joined")] == [["m5"], ["m6", "m7"]]


CALLS = [(OUT, "join"), (OUT, "scale"), (IN, "scale"), (IN, "leave"), (IN, "collect"), (IN, "give_back"),
         (RATE, "input_rate"), (CRASH, "crash"), (REVIVED, "restart")]  # fmt: skip


@pytest.mark.parametrize(("event", "call"), CALLS)
def test_an_interruption_in_each_kind_keeps_what_was_measured(event: PlannedEvent, call: str, stage: SetUp) -> None:
    here = stage(event, repetitions=1).last()
    here.storm.calls.clear()
    here.storm.faults[call] = [Interrupted()]
    run = here.fails(Interrupted)
    assert (run["status"], run["failure"]) == ("incomplete", None)
    assert here.storm.calls[-2:] == ["stop", "collect"] and here.events()[-1]["kind"] == "run_ended"


# Restarts of workers that were not asked for


def restart_of(run: RunContext, here: Stage, **state: Any) -> None:
    """A spout's worker in m1 restarts now, with nobody's asking."""
    restarts = (WorkerRestart(run.now(), "m1:6700", (1,)),)
    run.note(replace(here.storm.state(), run_id=here.run_id, worker_restarts=restarts, **state))


def noted(run: RunContext, here: Stage, *missing: str) -> None:
    known = tuple(name for name in run.machines.present if name not in missing)
    star = TopologyStatus("star", TupleCounts(), placed_among=run.machines.present)
    run.note(replace(here.storm.state(), run_id=here.run_id, machines=known, topologies=(star,)))


def test_a_restart_for_one_event_that_is_heard_of_after_the_next_was_asked_for(stage: SetUp) -> None:
    here, record = stage(OUT, RATE), Notes()
    run = here.run(record)
    zero_s = run.mark_zero()
    run.allow_restarts(zero_s)
    here.storm.clock.sleep(30.0)
    run.mark_zero()
    times = ((zero_s - 1.0, ()), (zero_s + 29.5, (1,)), (zero_s + 31.0, (1,)))
    restarts = tuple(WorkerRestart(t, "m1:6700", spouts) for t, spouts in times)
    run.note(replace(here.storm.state(), run_id=here.run_id, worker_restarts=restarts))
    assert [event["asked"] for event in of(record, "worker_restarted")] == [False, True, True]


@pytest.mark.parametrize(("since_s", "error"), [(170.0, MachineLost), (190.0, RunBroken)])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_machine_missed_or_tasks_lost_long_ago_excuse_nothing(
    stage: SetUp, since_s: float, is_lost: bool, error: type[Exception]
) -> None:
    here = stage(OUT, RATE)
    run = here.run()
    lost = (LostTasks(run.mark_zero(), 2, ("m2",)),) if is_lost else ()
    if is_lost:
        here.storm.clock.sleep(since_s)
    for missing in ((), ("m2",)) if is_lost else ((), ("m1",), ()):
        noted(run, here, *missing)
    if not is_lost:
        here.storm.clock.sleep(since_s)
    with pytest.raises(error):
        restart_of(run, here, lost_tasks=lost)


@pytest.mark.parametrize("missed_before", [True, False])
def test_nobody_misses_a_machine_that_has_just_joined_again(stage: SetUp, missed_before: bool) -> None:
    here = stage(OUT, RATE)
    run = here.run()
    noted(run, here)
    if missed_before:
        noted(run, here, "m1")
    run.machines.leave(["m1"])
    run.machines.down.add("m1")
    run.join(["m1"])
    if not missed_before:
        noted(run, here, "m1")  # it has not registered yet
    with pytest.raises(RunBroken):
        restart_of(run, here)


def test_a_decision_is_on_record_once_nimbus_has_it(stage: SetUp) -> None:
    """One whose answer got lost is taken back, and was never made."""
    here, record = stage(OUT), Notes()
    run = here.run(record)
    lost = ServiceDecision("d1", run.mark_zero() + 1, "e1", "2 slots", False, None, "", arrived=False)
    for decision in (lost, replace(lost, decision_id="d2"), replace(lost, decision_id="d2", arrived=True)):
        run.note(replace(here.storm.state(), run_id=here.run_id, decisions=(decision,)))
    assert [event["decision_id"] for event in of(record, "decision")] == ["d2"]


@pytest.mark.parametrize(
    ("event", "faults"),
    [
        (replace(OUT, machines=2), {"dies_deciding": ["m5"], "restarts_after_scale": [(9, "m1:6700", (1,))],
                                    "slots": ["m2:6700"]}),
        (CRASH, {"restarts": [(60, "m1:6700", (1,))]}),
    ],
)  # fmt: skip
def test_a_machine_that_is_gone_excuses_the_restart_of_any_worker(
    event: PlannedEvent, faults: dict[str, Any], stage: SetUp
) -> None:
    assert of(stage(event, **faults).go(), "worker_restarted")[0]["asked"]


@pytest.mark.parametrize(
    ("policy", "ago_s", "slot", "is_asked"),
    [
        ("storm", 2.0, "m1:6700", True),
        ("storm", 90.0, "m1:6700", False),
        ("storm", 2.0, "m2:6700", False),
        ("stela", 2.0, "m1:6700", False),
    ],
)
def test_a_worker_may_restart_for_what_a_scheduler_moves_by_itself_and_for_nothing_else(
    policy: str, ago_s: float, slot: str, is_asked: bool, stage: SetUp
) -> None:
    here = stage(OUT, policy=policy)
    run = here.run()
    with nullcontext() if is_asked else pytest.raises(RunBroken, match="nobody asked for that"):
        restart_of(run, here, moves=(Move(run.now() - ago_s, (slot, "m5:6700")),))


def test_allowances_of_restarts_end_with_the_next_event(stage: SetUp) -> None:
    """That of an event that was never over too, though another began before the next zero; it may be some time ago."""
    here = stage(OUT, RATE)
    run = here.run()
    run.allow_restarts(run.now())
    here.storm.clock.sleep(500.0)
    run.allow_restarts(run.now())
    run.mark_zero(run.now() - 100.0)
    restart_of(run, here)
    here.storm.clock.sleep(80.0)
    with pytest.raises(RunBroken, match="nobody asked for that"):
        restart_of(run, here)


# When a policy is asked


@pytest.mark.parametrize(("policy", "parameters"), [("storm", {}), ("even", {"rebalance": True}), ("centrality", {})])
def test_a_policy_without_rates_is_asked_though_workers_are_young(
    policy: str, parameters: dict[str, Any], stage: SetUp
) -> None:
    """As those of a scheduler are that deals executors out again when a machine joins."""
    here = stage(OUT, repetitions=1, policy=policy, parameters=parameters, no_window_until_s=10_000)
    assert [event["event_id"] for event in of(here.go(), "scale_requested")] == ["e1"]


@pytest.mark.parametrize("policy", ["stela", "least_link_load"])
@pytest.mark.parametrize(
    ("faults", "why"),
    [({"silent_after_s": 34}, "newest sample is"), ({"no_window_until_s": 300}, "m1:6700 has not reported yet")],
)
def test_a_policy_that_reads_rates_is_not_asked_without_them(
    policy: str, faults: dict[str, Any], why: str, stage: SetUp
) -> None:
    here = stage(OUT, repetitions=1, policy=policy, **faults)
    failure = here.fails(NoFreshSamples, f"the scale request was not sent: .*{why}")["failure"]
    assert (failure["blame"], failure["where"]) == ("infrastructure", "scale")


@pytest.mark.parametrize(("parameters", "at_join"), [({}, True), ({"rebalance": True}, False)])
def test_a_scheduler_that_acts_by_itself_has_its_zero_at_the_join_of_the_first_machine(
    parameters: dict[str, Any], at_join: bool, stage: SetUp
) -> None:
    """Nimbus knows m6 only when m5 has long been there."""
    here = stage(
        replace(OUT, machines=2), repetitions=1, policy="storm", parameters=parameters, missed=("m6", 0.0, 60.0)
    )
    here.go()
    (asked,), (joined,), (submitted,) = map(here.of, ("scale_requested", "machines_joined", "topology_submitted"))
    assert joined["t"] - submitted["t"] >= 60
    assert (asked["t"] <= joined["t"] - 10) == at_join and (asked["t"] == joined["t"]) != at_join


# Machines that boot at their event, and machines that their owner takes away


def test_joining_machines_boot_at_the_event_and_go_after_the_run(stage: SetUp) -> None:
    here = stage(joining="booted")
    order = [event["kind"] for event in here.go()]
    run, told = here.document(), {event["kind"]: event for event in here.events()}
    assert run["missing"] == [] and run["machines"]["m5"]["joins_at_scale"] is True
    assert [phase["name"] for phase in run["phases"]][4:8] == ["warm_up", "boot", "join", "scale"]
    asked, booted = told["machines_requested"], told["machine_booted"]
    assert asked["machines"] == ["m5"] and (booted["machine"], booted["boot_s"]) == ("m5", BOOT_S)
    assert booted["t"] == asked["t"] + BOOT_S <= told["scale_requested"]["t"]
    assert told["machines_returned"]["machines"] == ["m5"] and here.storm.returned == {"m5"}
    assert order.index("machine_booted") < order.index("machines_joined") < order.index("scale_requested")


def test_every_run_boots_its_own(stage: SetUp) -> None:
    here = stage(joining="booted")
    runs = here.series.plan()
    assert [here.attempt() for _ in runs] == [run.run_id for run in runs]
    assert here.storm.calls.count("grow") == len(runs) == here.storm.calls.count("give_back")


@pytest.mark.parametrize("error", [CapacityError("no zone has one"), InfrastructureError("m5 is silent")])
def test_a_boot_that_fails_is_tried_again(error: Exception, stage: SetUp, heard: Heard) -> None:
    here = stage(joining="booted", grow=[error])
    here.go()
    failure = here.first_attempt()["failure"]
    assert (failure["where"], failure["message"]) == ("boot", str(error))
    assert [line["again"] for line in heard.lines if line["kind"] == "run_failed"] == [True]


def test_no_capacity_twice_is_said_as_that(stage: SetUp) -> None:
    here = stage(joining="booted", grow=[CapacityError("none"), CapacityError("none still")])
    assert here.fails(CapacityError, "none still")["failure"]["blame"] == "capacity"


def test_what_cannot_be_given_back_does_not_spoil_the_run(stage: SetUp, heard: Heard) -> None:
    here = stage(joining="booted", give_back=[InfrastructureError("throttled")])
    assert not of(here.go(), "machines_returned")
    assert any("m5 could not be given back yet: throttled" in str(line.get("text")) for line in heard.lines)


@pytest.mark.parametrize("name", ["m2", "master"])
def test_a_recalled_machine_ends_the_run_at_once_as_infrastructure(name: str, stage: SetUp) -> None:
    here = stage(joining="booted", recalled=name, recalled_after_s=20)
    run = here.fails(MachineRecalled)
    assert (run["failure"]["blame"], run["failure"]["where"]) == ("infrastructure", "warm_up")
    assert run["ended_s"] - run["started_s"] < 30
    assert [event["machines"] for event in here.of("machines_recalled")] == [[name]]
    assert here.storm.calls.count("submit") == 1, "it can not be replaced, so the run is not repeated"


def test_a_recalled_machine_is_replaced_where_that_is_possible(stage: SetUp) -> None:
    here = stage(joining="booted", recalled="m2", recalled_after_s=20, replaces=True)
    here.go()
    assert here.document()["attempt"] == 2


def test_how_machines_join_is_a_part_of_the_request_and_a_budget_is_not(experiment: Experiment) -> None:
    testbed = experiment.testbed
    priced, richer = (replace(testbed, options={"fake": {"budget_usd": usd}}) for usd in (1, 2))
    booted, priced_digest, richer_digest = (
        digest(replace(experiment, testbed=each)) for each in (replace(testbed, joining="booted"), priced, richer)
    )
    assert booted != digest(experiment) != priced_digest == richer_digest


def test_a_machine_that_boots_with_another_time_is_refused(stage: SetUp) -> None:
    here = stage(joining="booted", clock_offset_ms={"m5": 5000.0})
    here.fails(ClockWrong, r"m5 \+5\.000 s")
    assert "join" not in here.storm.calls and here.storm.returned == {"m5"}


@pytest.mark.parametrize("error", [Interrupted("asked to stop"), InfrastructureError("no Storm on m5")])
def test_what_is_put_on_a_machine_that_boots_and_fails_leaves_no_machine(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    given_back: list[Sequence[str]] = []

    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(series_lease, "grow", lambda _series, _names: ())
    monkeypatch.setattr(series_lease, "give_back", lambda _series, names: given_back.append(names))
    monkeypatch.setattr(series_lease, "current_machines", lambda _folder: ())
    monkeypatch.setattr(storm_cluster, "base_home", lambda _directory: tmp_path)
    monkeypatch.setattr(cluster, "extend", fail)
    here: Any = SimpleNamespace(experiment=experiment, folder=tmp_path)
    with pytest.raises(type(error)):
        storm_cluster.StormCluster(here, tmp_path).grow(["m5"])
    assert given_back == [["m5"]]
