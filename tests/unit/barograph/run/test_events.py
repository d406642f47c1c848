"""Every kind of event over a fake cluster: what happens, what is written down, and what goes wrong."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.errors import ExperimentError, Interrupted, MachineLost, NoFreshSamples, RunBroken
from barograph.plan.events.faults import Crash
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import Variant
from barograph.policy_service import ServiceUnreachable
from barograph.run.context import RunContext
from barograph.series.run_record import read_run
from scheduler_plugins.service.run_snapshot import (
    LostTasks,
    Move,
    ServiceDecision,
    TopologyStatus,
    TupleCounts,
    WorkerRestart,
)
from tests.unit.barograph.run.conftest import SetUp, Stage

OUT, IN = ScaleOut("steady", 1), ScaleIn("steady", 1)
RATE, CRASH = RateChange("steady", 1.5), Crash("steady", "m2")
REVIVED = Crash("steady", "m2", restart_after_s=10.0)


def named(told: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in told if event["kind"] == kind]


def last_run_of(stage: SetUp, *events: PlannedEvent) -> Stage:
    """Everything but one run of the series is done."""
    one = stage(*events, repetitions=1)
    for _ in one.series.plan()[:-1]:
        attempt_next_run(one.series, one.context)
    one.run_id = one.series.plan()[-1].run_id
    return one


def test_a_machine_leaves_when_nothing_is_on_it(stage: SetUp) -> None:
    here = stage(IN)
    told = here.go()
    kinds = [event["kind"] for event in told]
    assert kinds.index("applied") < kinds.index("machines_left") < kinds.index("topology_killed")
    (asked,), (left,) = named(told, "scale_requested"), named(told, "machines_left")
    assert (asked["event_id"], asked["event"], asked["joined"], asked["leave"]) == ("e1", "scale_in", [], 1)
    assert (left["machines"], left["given_back"]) == (["m4"], False)
    assert [phase["name"] for phase in here.document()["phases"]][5:] == ["scale", "leave", "after", "collect"]
    assert "give_back" not in here.storm.calls


@pytest.mark.parametrize(("wait_s", "least_s"), [(0, 0.0), (30, 30.0), (300, 300.0)])
def test_a_rebalance_that_waits_is_waited_for(stage: SetUp, wait_s: int, least_s: float) -> None:
    """300 s are more than is waited for a decision that does not wait (OUTCOME_S)."""
    here = stage(OUT, repetitions=1)
    waiting = tuple(replace(each, policy="even", parameters={"rebalance": True, "wait_s": wait_s})
                    for each in here.series.experiment.variants)  # fmt: skip
    durations = replace(here.series.experiment.durations, horizon_s=400.0)
    here = Stage(replace(here.series.experiment, variants=waiting, durations=durations), here.context.listener)
    told = here.go()
    (asked,), (applied,) = named(told, "scale_requested"), named(told, "applied")
    assert applied["ok"] and least_s <= applied["t"] - asked["t"] <= least_s + 5
    (_, after) = named(told, "steady")
    assert after["steady"] and after["t"] >= applied["t"], "steadiness is tested from then on"


def test_a_nimbus_that_restarts_late_in_the_wait_is_waited_for(stage: SetUp) -> None:
    """Storm waits again from the beginning: 2 × 300 s are more than OUTCOME_S and one wait."""
    here = stage(OUT, repetitions=1)
    waiting = tuple(replace(each, policy="even", parameters={"rebalance": True, "wait_s": 300})
                    for each in here.series.experiment.variants)  # fmt: skip
    durations = replace(here.series.experiment.durations, horizon_s=700.0)
    here = Stage(replace(here.series.experiment, variants=waiting, durations=durations), here.context.listener)
    here.storm.faults["nimbus_restarts_after_scale_s"] = 280.0
    (applied,) = named(here.go(), "applied")
    assert applied["ok"]


def test_a_machine_that_left_is_not_collected_again(stage: SetUp) -> None:
    here = stage(IN)
    here.go()
    assert here.storm.arguments["collect"]["machines"] == ("master", "m1", "m2", "m3")
    assert (here.series.run_folder(here.run_id) / "machines" / "m4.jsonl").stat().st_size > 0
    assert set(here.document()["clock_offset_ms"]) == {"master", "m1", "m2", "m3", "m4"}


def test_the_last_run_gives_its_machine_back_at_once(stage: SetUp) -> None:
    here = last_run_of(stage, IN)
    told = here.go()
    assert named(told, "machines_left")[0]["given_back"] is True
    calls = here.storm.calls[here.storm.calls.index("give_back") - 2 :]
    assert calls[:3] == ["leave", "collect", "give_back"] and here.storm.returned == {"m4"}


def test_a_run_that_gave_machines_back_is_not_repeated_on_what_is_left(stage: SetUp) -> None:
    here = last_run_of(stage, IN)
    here.storm.faults["stop"] = [ServiceUnreachable("the network went")]
    with pytest.raises(ServiceUnreachable):
        attempt_next_run(here.series, here.context)
    assert here.storm.returned == {"m4"} and here.document()["attempt"] == 1


def test_throughput_is_watched_after_the_machine_left(stage: SetUp) -> None:
    told = stage(IN).go()
    before, after = named(told, "steady")
    assert (before["event_id"], after["event_id"]) == (None, "e1") and after["steady"]


@pytest.mark.parametrize(
    ("released", "said"),
    [
        ((), "asked to let 1 machines leave and released none: refused: too few slots"),
        (("m3", "m4"), "released m3, m4"),
        (("m9",), "released m9"),
    ],
)
def test_a_policy_that_does_not_release_what_was_asked_is_the_result(
    released: tuple[str, ...], said: str, stage: SetUp
) -> None:
    here = stage(IN)
    here.storm.faults |= {"release": released, "reason": "refused: too few slots"}
    with pytest.raises(RunBroken, match=said):
        attempt_next_run(here.series, here.context)
    assert "leave" not in here.storm.calls
    assert here.document()["failure"]["blame"] == "system_under_test"


def test_tasks_without_a_place_keep_the_machine(stage: SetUp) -> None:
    here = stage(IN)
    here.storm.faults["placed"] = 1
    with pytest.raises(RunBroken, match=r"not every task found a place before m4 left within 60 s; 1 of 2 tasks"):
        attempt_next_run(here.series, here.context)
    assert "leave" not in here.storm.calls


def test_an_aborted_scale_out_is_repeated_with_those_that_live(stage: SetUp) -> None:
    here = stage(ScaleOut("steady", 2))
    here.storm.faults["dies_deciding"] = ["m5"]
    told = here.go()
    (aborted,) = named(told, "scale_aborted")
    assert (aborted["event_id"], aborted["machines"]) == ("e1", ["m5"]) and "slot m5:6701 was lost" in aborted["reason"]
    assert [(e["event_id"], e["joined"]) for e in named(told, "scale_requested")] == [
        ("e1", ["m5", "m6"]),
        ("e1.2", ["m6"]),
    ]
    assert [(e["decision_id"], e["event_id"], e["ok"]) for e in named(told, "applied")] == [
        ("d2", "e1", False),
        ("d3", "e1.2", True),
    ]
    assert here.document()["missing"] == ["m5: all files, it is down"]


def test_an_aborted_scale_in_is_repeated(stage: SetUp) -> None:
    here = stage(IN)
    here.storm.faults["dies_deciding"] = ["m2", "m3"]
    told = here.go()
    assert [event["event_id"] for event in named(told, "scale_requested")] == ["e1", "e1.2", "e1.3"]
    assert named(told, "machines_left")[0]["machines"] == ["m4"]


def first_failure(here: Stage) -> dict[str, str]:
    """What ended the first attempt; infrastructure is repeated, and here the machine stays dead."""
    with pytest.raises(MachineLost):
        attempt_next_run(here.series, here.context)
    kept = read_run(here.series.attempts / f"{here.run_id}.attempt-1")
    assert kept is not None
    failure: dict[str, str] = kept["failure"]
    return failure


def test_no_machine_left_to_join_is_infrastructure(stage: SetUp) -> None:
    here = stage(OUT)
    here.storm.faults["dies_deciding"] = ["m5"]
    failure = first_failure(here)
    assert failure["blame"] == "infrastructure"
    assert failure["message"].startswith("m5 died before scale event e1 was applied")


def test_an_operation_is_repeated_twice_at_most(stage: SetUp) -> None:
    here = stage(ScaleOut("steady", 5))
    here.storm.faults["dies_deciding"] = ["m5", "m6", "m7", "m8"]
    assert "e1 was aborted 3 times" in first_failure(here)["message"]


def test_why_the_policy_held_is_said(stage: SetUp) -> None:
    here = stage(OUT)
    here.storm.faults["held"] = "held: samples are 12.0 s old, allowed are 10 s"
    with pytest.raises(RunBroken, match=r"e1 was not decided.*within 90 s; policy \w+: held: samples are 12.0 s old"):
        attempt_next_run(here.series, here.context)


def test_samples_that_stop_while_the_policy_holds(stage: SetUp) -> None:
    here = stage(OUT)
    here.storm.faults |= {"held": "held: no samples", "silent_after_s": 52}
    with pytest.raises(RunBroken, match=r"a worker has been silent for 7\d s; held: no samples"):
        attempt_next_run(here.series, here.context)


def test_the_input_rate_changes(stage: SetUp) -> None:
    here = stage(RATE)
    told = here.go()
    (changed,) = named(told, "rate_changed")
    assert (changed["event_id"], changed["factor"]) == ("e1", 1.5)
    assert here.storm.state().input_rate_factor == 1.5
    assert named(told, "steady")[1]["t"] - changed["t"] >= here.context.experiment.durations.after_floor_s
    assert here.storm.state().topologies[0].series.sinks[-1] == pytest.approx(300)


def test_a_crash_is_not_blamed_on_the_machine(stage: SetUp) -> None:
    here = stage(CRASH)
    told = here.go()
    (crashed,) = named(told, "crashed")
    assert (crashed["event_id"], crashed["machine"]) == ("e1", "m2") and named(told, "restarted") == []
    after = named(told, "steady")[1]
    assert after["steady"] and after["t"] > crashed["t"] + 30 + 40, "steadiness is tested since the tasks are back"


def test_a_crashed_machines_files_are_fetched_in_the_end(stage: SetUp) -> None:
    here = stage(CRASH)
    here.go()
    assert here.storm.calls[-3:] == ["stop", "restart", "collect"]
    assert "m2" in here.storm.arguments["collect"]["machines"] and here.document()["missing"] == []


def test_a_machine_that_does_not_come_back_costs_its_files_only(stage: SetUp) -> None:
    here = stage(CRASH)
    here.storm.faults["restart"] = [OSError("no such container")]
    here.go()
    assert here.document()["missing"] == ["m2: all files, it is down"]
    assert "m2" not in here.storm.arguments["collect"]["machines"]


def test_a_crashed_machine_restarts_when_the_plan_says(stage: SetUp) -> None:
    told = stage(REVIVED).go()
    (crashed,), (restarted,) = named(told, "crashed"), named(told, "restarted")
    assert restarted["machine"] == "m2" and 10 <= restarted["t"] - crashed["t"] < 12
    assert named(told, "steady")[1]["steady"]


def test_another_machine_that_dies_meanwhile_is_still_infrastructure(stage: SetUp) -> None:
    here = stage(CRASH)
    here.storm.faults |= {"dead": ("m3",), "dies_after_s": 9_000}
    with pytest.raises(MachineLost, match="m3 stopped answering during the run"):
        attempt_next_run(here.series, here.context)


def test_a_topology_that_does_not_recover_is_a_result_not_an_error(stage: SetUp) -> None:
    here = stage(CRASH)
    here.storm.faults["placed"] = 1
    told = here.go()
    after = named(told, "steady")[1]
    assert not after["steady"] and after["reason"].endswith("1 of 2 tasks are placed")


def test_a_crash_of_a_machine_that_was_let_go_is_the_users(stage: SetUp) -> None:
    here = stage(IN, Crash("steady", "m4"))
    with pytest.raises(ExperimentError, match=r"events.1 names m4, but the policy had let it leave"):
        attempt_next_run(here.series, here.context)


MIXED = (ScaleOut("steady", 2), ScaleIn("steady", 1), RateChange(70.0, 1.5), Crash("steady", "m2", 10.0))


def test_a_mixed_plan_happens_in_order(stage: SetUp) -> None:
    here = stage(*MIXED)
    told = here.go()
    zeros = [event for event in told if event["kind"] in ("scale_requested", "rate_changed", "crashed")]
    assert [event["event_id"] for event in zeros] == ["e1", "e2", "e3", "e4"]
    assert 70 <= zeros[2]["t"] - zeros[1]["t"] < 72, "the third is at a time"
    assert [event["event_id"] for event in named(told, "steady")] == [None, "e1", "e2", "e3", "e4"]
    assert [event["t"] for event in told] == sorted(event["t"] for event in told)
    assert here.document()["missing"] == []


def test_machines_that_join_have_names_that_nobody_had(stage: SetUp) -> None:
    here = stage(OUT, IN, ScaleOut("steady", 2))
    told = here.go()
    assert [event["machines"] for event in named(told, "machines_joined")] == [["m5"], ["m6", "m7"]]


def test_the_second_run_starts_with_every_machine_again(stage: SetUp) -> None:
    here = stage(*MIXED)
    here.go()
    second = here.series.plan()[1].run_id
    assert attempt_next_run(here.series, here.context) == second


CALLS = [
    (OUT, "join"),
    (OUT, "scale"),
    (IN, "scale"),
    (IN, "leave"),
    (IN, "collect"),
    (IN, "give_back"),
    (RATE, "input_rate"),
    (CRASH, "crash"),
    (REVIVED, "restart"),
]


@pytest.mark.parametrize(("event", "call"), CALLS)
def test_an_interruption_in_each_kind_keeps_what_was_measured(event: PlannedEvent, call: str, stage: SetUp) -> None:
    here = last_run_of(stage, event)
    here.storm.calls.clear()
    here.storm.faults[call] = [Interrupted()]
    with pytest.raises(Interrupted):
        attempt_next_run(here.series, here.context)
    assert here.document()["status"] == "incomplete" and here.document()["failure"] is None
    assert here.storm.calls[-2:] == ["stop", "collect"]
    assert here.events()[-1]["kind"] == "run_ended"


class Events(list[dict[str, Any]]):
    """As much of a run's record as its notes need."""

    document: ClassVar[dict[str, Any]] = {}

    def event(self, kind: str, **facts: Any) -> None:
        self.append({"kind": kind, **facts})


def test_a_restart_for_one_event_that_is_heard_of_after_the_next_was_asked_for(stage: SetUp) -> None:
    here, record = stage(OUT, RATE), Events()
    run = RunContext.begin(here.context, here.series.plan()[0], record, last=False)  # type: ignore[arg-type]
    zero_s = run.mark_zero()
    run.allow_restarts(zero_s)
    here.storm.clock.sleep(30.0)
    run.mark_zero()
    state = replace(here.storm.state(), run_id=here.run_id, worker_restarts=(
        WorkerRestart(zero_s - 1.0, "m1:6700", ()), WorkerRestart(zero_s + 29.5, "m1:6700", (1,)),
        WorkerRestart(zero_s + 31.0, "m1:6700", (1,)),
    ))  # fmt: skip
    run.note(state)
    assert [event["asked"] for event in record if event["kind"] == "worker_restarted"] == [False, True, True]


def restart_of(run: RunContext, here: Any, **state: Any) -> None:
    """A spout's worker in m1 restarts now, with nobody's asking."""
    restarts = (WorkerRestart(run.now(), "m1:6700", (1,)),)
    run.note(replace(here.storm.state(), run_id=here.run_id, worker_restarts=restarts, **state))


def noted(run: RunContext, here: Any, *missing: str) -> None:
    state = here.storm.state()
    known = tuple(name for name in run.machines.present if name not in missing)
    star = TopologyStatus("star", TupleCounts(), placed_among=run.machines.present)
    run.note(replace(state, run_id=here.run_id, machines=known, topologies=(star,)))


@pytest.mark.parametrize(("since_s", "error"), [(170.0, MachineLost), (190.0, RunBroken)])
def test_a_machine_that_nimbus_missed_long_ago_excuses_nothing(
    stage: SetUp, since_s: float, error: type[Exception]
) -> None:
    here = stage(OUT, RATE)
    run = RunContext.begin(here.context, here.series.plan()[0], Events(), last=False)  # type: ignore[arg-type]
    for missing in ((), ("m1",), ()):
        noted(run, here, *missing)
    here.storm.clock.sleep(since_s)
    with pytest.raises(error):
        restart_of(run, here)


@pytest.mark.parametrize(("since_s", "error"), [(170.0, MachineLost), (190.0, RunBroken)])
def test_a_loss_of_long_ago_excuses_no_restart_elsewhere(stage: SetUp, since_s: float, error: type[Exception]) -> None:
    here = stage(OUT, RATE)
    run = RunContext.begin(here.context, here.series.plan()[0], Events(), last=False)  # type: ignore[arg-type]
    lost = LostTasks(run.mark_zero(), 2, ("m2",))
    here.storm.clock.sleep(since_s)
    for missing in ((), ("m2",)):
        noted(run, here, *missing)
    with pytest.raises(error):
        restart_of(run, here, lost_tasks=(lost,))


@pytest.mark.parametrize("missed_before", [True, False])
def test_nobody_misses_a_machine_that_has_just_joined_again(stage: SetUp, missed_before: bool) -> None:
    here = stage(OUT, RATE)
    run = RunContext.begin(here.context, here.series.plan()[0], Events(), last=False)  # type: ignore[arg-type]
    noted(run, here)
    if missed_before:
        noted(run, here, "m1")
    run.machines.crash("m1")
    run.join(["m1"])
    if not missed_before:
        noted(run, here, "m1")  # it has not registered yet
    with pytest.raises(RunBroken):
        restart_of(run, here)


def test_a_decision_is_on_record_once_nimbus_has_it(stage: SetUp) -> None:
    """One whose answer got lost is taken back, and was never made."""
    here, record = stage(OUT), Events()
    run = RunContext.begin(here.context, here.series.plan()[0], record, last=False)  # type: ignore[arg-type]
    zero_s = run.mark_zero()
    lost = ServiceDecision("d1", zero_s + 1, "e1", "2 slots", False, None, "", arrived=False)
    for decision in (lost, replace(lost, decision_id="d2"), replace(lost, decision_id="d2", arrived=True)):
        run.note(replace(here.storm.state(), run_id=here.run_id, decisions=(decision,)))
    assert [event["decision_id"] for event in record if event["kind"] == "decision"] == ["d2"]


def test_a_machine_that_dies_in_a_scale_event_excuses_the_restart_of_any_worker(stage: SetUp) -> None:
    here = stage(ScaleOut("steady", 2))
    here.storm.faults |= {"dies_deciding": ["m5"], "restarts_after_scale": [(9, "m1:6700", (1,))], "slots": ["m2:6700"]}
    assert named(here.go(), "worker_restarted")[0]["asked"]


def test_a_change_of_rate_excuses_no_restart(stage: SetUp) -> None:
    here = stage(RATE)
    here.storm.faults["restarts"] = [(60, "m1:6700", (1,))]
    with pytest.raises(RunBroken, match="the worker in m1:6700 restarted and nobody asked for that"):
        attempt_next_run(here.series, here.context)
    rate, restart = named(here.events(), "rate_changed")[0], named(here.events(), "worker_restarted")[0]
    assert rate["t"] < restart["t"]


def test_a_crash_excuses_the_restart_of_any_worker(stage: SetUp) -> None:
    here = stage(CRASH)
    here.storm.faults["restarts"] = [(60, "m1:6700", (1,))]
    assert named(here.go(), "worker_restarted")[0]["asked"]


def stage_of(stage: SetUp, policy: str, **parameters: Any) -> Stage:
    """One run, of this policy."""
    one = stage(OUT, repetitions=1)
    variant = Variant(policy, policy, parameters)
    return Stage(replace(one.series.experiment, variants=(variant,)), one.context.listener)


@pytest.mark.parametrize(
    ("policy", "parameters"),
    [("storm", {}), ("storm", {"rebalance": True}), ("even", {"rebalance": True}), ("centrality", {})],
)
def test_a_policy_without_rates_is_asked_though_workers_are_young(
    policy: str, parameters: dict[str, Any], stage: SetUp
) -> None:
    """As those of a scheduler are that deals executors out again when a machine joins."""
    here = stage_of(stage, policy, **parameters)
    here.storm.faults["no_window_until_s"] = 10_000
    (asked,) = named(here.go(), "scale_requested")
    assert asked["event_id"] == "e1"


@pytest.mark.parametrize("policy", ["stela", "least_link_load"])
@pytest.mark.parametrize(
    ("faults", "why"),
    [({"silent_after_s": 34}, "newest sample is"), ({"no_window_until_s": 300}, "m1:6700 has not reported yet")],
)
def test_a_policy_that_reads_rates_is_not_asked_without_them(
    policy: str, faults: dict[str, Any], why: str, stage: SetUp
) -> None:
    here = stage_of(stage, policy)
    here.storm.faults.update(faults)
    with pytest.raises(NoFreshSamples, match=f"the scale request was not sent: .*{why}"):
        attempt_next_run(here.series, here.context)
    failure = here.document()["failure"]
    assert (failure["blame"], failure["where"]) == ("infrastructure", "scale")


@pytest.mark.parametrize(("parameters", "at_join"), [({}, True), ({"rebalance": True}, False)])
def test_a_scheduler_that_acts_by_itself_has_its_zero_at_the_join_of_the_first_machine(
    parameters: dict[str, Any], at_join: bool, stage: SetUp
) -> None:
    """Nimbus knows m6 only when m5 has long been there."""
    one = stage(replace(OUT, machines=2), repetitions=1)
    variant = Variant("storm", "storm", parameters)
    here = Stage(replace(one.series.experiment, variants=(variant,)), one.context.listener)
    here.storm.faults["missed"] = ("m6", 0.0, 60.0)
    told = here.go()
    (asked,), (joined,), (submitted,) = (
        named(told, kind) for kind in ("scale_requested", "machines_joined", "topology_submitted")
    )
    assert joined["t"] - submitted["t"] >= 60
    assert (asked["t"] <= joined["t"] - 10) == at_join and (asked["t"] == joined["t"]) != at_join


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
    here = stage_of(stage, policy)
    run = RunContext.begin(here.context, here.series.plan()[0], Events(), last=False)  # type: ignore[arg-type]
    with nullcontext() if is_asked else pytest.raises(RunBroken, match="nobody asked for that"):
        restart_of(run, here, moves=(Move(run.now() - ago_s, (slot, "m5:6700")),))


def test_allowances_of_restarts_end_with_the_next_event(stage: SetUp) -> None:
    """That of an event that was never over too, though another began before the next zero; it may be some time ago."""
    here = stage(OUT, RATE)
    run = RunContext.begin(here.context, here.series.plan()[0], Events(), last=False)  # type: ignore[arg-type]
    run.allow_restarts(run.now())
    here.storm.clock.sleep(500.0)
    run.allow_restarts(run.now())
    run.mark_zero(run.now() - 100.0)
    restart_of(run, here)
    here.storm.clock.sleep(80.0)
    with pytest.raises(RunBroken, match="nobody asked for that"):
        restart_of(run, here)
