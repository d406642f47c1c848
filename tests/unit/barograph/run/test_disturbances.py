"""Machines that are disturbed while they run, over a fake cluster: begun, ended whatever ends the run, and refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barograph.errors import ExperimentError, InfrastructureError, RunBroken
from barograph.machines import series_lease
from barograph.plan.blocks import plan_runs
from barograph.plan.events import KINDS
from barograph.plan.events.faults import (
    CpuLoad,
    Crash,
    LanCut,
    MemoryLimit,
    NetworkPartition,
    SampleLoss,
    SlowCpu,
    WorkerCrash,
)
from barograph.plan.events.kind import Disturbance, PlannedEvent
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import EXPERIMENTS, load, parse
from barograph.run import storm_cluster
from barograph.run.storm_cluster import StormCluster
from barograph.yaml_files import read_yaml
from inventory.machines import Machine
from playbooks import cluster
from tests.unit.barograph.run.conftest import SetUp, of

SLOW = SlowCpu(at="steady", machines=("m1", "m2"), share=0.5)


def test_it_begins_at_the_events_zero_and_ends_so_many_seconds_later(stage: SetUp) -> None:
    here = stage(CpuLoad(at="steady", machines=("m1",), cores=0.2, for_s=20.0))
    here.go()
    (begun,), (ended,), (_, steady) = map(here.of, ("event_performed", "disturbance_ended", "steady"))
    assert (begun["event"], begun["machines"]) == ("cpu_load", ["m1"])
    assert (ended["event_id"], ended["machines"]) == ("e1", ["m1"])
    assert 20.0 <= ended["t"] - begun["t"] < 22.0 and steady["t"] > ended["t"], "what follows is watched without it"
    assert here.storm.arguments["disturb"] == {"machines": ("m1",), "disturbance": Disturbance("cpu_load", 0.2)}


def test_without_an_end_it_lasts_until_the_topology_is_killed(stage: SetUp) -> None:
    here = stage(SLOW)
    kinds, calls = [event["kind"] for event in here.go()], here.storm.calls
    assert kinds.index("topology_killed") < kinds.index("disturbance_ended") < kinds.index("run_ended")
    assert calls.index("disturb") < calls.index("stop") < calls.index("end_disturbance") < calls.index("collect")


@pytest.mark.parametrize("breaks", ["disturb", "end_disturbance"])
def test_a_run_that_breaks_in_it_ends_it_too(stage: SetUp, breaks: str) -> None:
    partition = NetworkPartition(at="steady", machines=("m1", "m2"), for_s=10.0)
    here = stage(partition, **{breaks: [RunBroken("half begun")]})
    here.fails(RunBroken)
    calls = here.storm.calls
    assert calls.index("stop") < len(calls) - 1 - calls[::-1].index("end_disturbance")
    assert [event["machines"] for event in here.of("disturbance_ended")] == [["m1", "m2"]]


def test_what_cannot_be_ended_is_said_and_the_run_is_collected(stage: SetUp, heard: Any) -> None:
    here = stage(SLOW, end_disturbance=[RunBroken("no such machine")])
    here.go()
    assert "collect" in here.storm.calls and not here.of("disturbance_ended")
    said = [line["text"] for line in heard.lines if line["kind"] == "message"]
    assert "m1, m2: slow_cpu could not be ended: no such machine" in said


def test_machines_off_the_lan_are_not_missed_and_are_back_before_it_goes_on(stage: SetUp) -> None:
    """Nimbus forgets them after 30 s."""
    here = stage(LanCut(at="steady", machines=("m1", "m3"), for_s=80.0))
    here.go()
    names = [phase["name"] for phase in here.document()["phases"]]
    assert names[names.index("disturb") :] == ["disturb", "recover", "after", "collect"]
    assert set(here.storm.arguments["collect"]["machines"]) >= {"m1", "m3"}
    assert not here.of("machines_unknown"), "nobody expects them there"


def test_a_run_goes_on_without_samples_for_a_while(stage: SetUp) -> None:
    """Longer than a worker may be silent unasked."""
    here = stage(SampleLoss(at="steady", machines=("m1", "m2", "m3", "m4"), for_s=80.0))
    here.go()
    assert here.storm.calls.count("end_disturbance") == 1


def test_a_worker_that_was_killed_may_begin_again(stage: SetUp) -> None:
    here = stage(WorkerCrash("steady", "m2"), restarts=[(60.0, "m2:6700", (1,))])
    here.go()
    assert here.storm.arguments["kill_worker"] == {"machine": "m2"}


def test_a_machine_without_a_worker_is_the_users_error(stage: SetUp) -> None:
    stage(WorkerCrash("steady", "m2"), worker_on=[ExperimentError("no worker runs on m2")]).fails(ExperimentError)


def parsed(*events: dict[str, Any]) -> None:
    data = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    data |= {"machines": {"before": 4, "after": 4}, "events": [{"at": "steady"} | event for event in events]}
    parse("stela/star", data, source="star.yaml")


SLOWED = {"kind": "slow_cpu", "machines": ["m1", "m2"], "share": 0.5}
AGAIN = {"kind": "slow_cpu", "machines": ["m2", "m3"], "share": 0.2, "for_s": 20}
BOOTED = {"kind": "crash", "machine": "m1", "restart_after_s": 10}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([{"kind": "cpu_load", "machines": [], "cores": 1.0}], "events.0"),
        ([{"kind": "cpu_load", "machines": ["m1"], "cores": 0}], "events.0"),
        ([{"kind": "cpu_load", "machines": ["m9"], "cores": 1.0}], r"machines has 'm9'; at that time .* m1, .*m4"),
        ([SLOWED | {"share": 1.0}], "share"),
        ([SLOWED | {"machines": ["m1", "m1"]}], "machines is m1, m1; allowed: 1 or more, each once"),
        ([SLOWED | {"for_s": 999}], r"for_s is 999; allowed: at most 310, 60 s less"),
        ([{"kind": "partition", "machines": ["m1"]}], "machines is m1; allowed: 2 or more, each once"),
        ([{"kind": "lan_cut", "machines": ["m1"]}], "for_s is missing; say after how many seconds"),
        ([{"kind": "lan_cut", "machines": ["m1", "m2", "m3", "m4"], "for_s": 9}], "allowed: not all"),
        ([{"kind": "sample_loss", "machines": ["m1"]}], "for_s is missing"),
        ([{"kind": "memory_limit", "machines": ["m1"], "memory_mb": 0.5}], "memory_mb"),
        ([{"kind": "worker_crash", "machine": "m7"}], "machine is 'm7'; at that time there are m1"),
        ([SLOWED, AGAIN], "machines has m2, with such a dist"),
        ([SLOWED, BOOTED], "m1, which has a slow_cpu without an end"),
        ([{"kind": "hold"}], "decide_every_s"),
        ([{"kind": "hold", "decide_every_s": 1.0}], "decide_every_s"),
        ([{"kind": "hold", "decide_every_s": 10.0, "for_s": 999.0}], "for_s is 999; allowed: at most 310, 60 s less"),
        (
            [{"kind": "hold", "decide_every_s": 60.0, "for_s": 30.0}],
            r"decide_every_s is 60; .* at most the hold \(30\)",
        ),
        ([{"kind": "hold", "decide_every_s": 900.0}], r"decide_every_s is 900; allowed: at most durations.horizon_s"),
        ([{"kind": "hold", "decide_every_s": 10.0}] * 2, "events.1 is a hold, and an earlier one lasts until the run"),
    ],
)
def test_what_cannot_be_is_refused(events: Sequence[dict[str, Any]], said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        parsed(*events)


@pytest.mark.parametrize("second", [AGAIN, BOOTED])
def test_what_would_end_an_earlier_disturbance_is_possible_after_its_end(second: dict[str, Any]) -> None:
    parsed(SLOWED | {"for_s": 20}, second)


def test_a_worker_may_restart_for_as_long_as_its_machine_is_disturbed(stage: SetUp) -> None:
    """Also later than the 75 s that a worker may need after an event."""
    here = stage(SLOW, durations={"after_floor_s": 90.0}, restarts=[(132.0, "m1:6700", (1,))])
    (restarted,) = of(here.go(), "worker_restarted")
    assert restarted["asked"]


def test_the_worker_that_is_killed_has_the_lowest_port() -> None:
    listed = (
        "41 /usr/bin/java -server -Dworker.port=6702 -cp x org.apache.storm.daemon.worker.Worker star-1 id 6702\n"
        "77 /usr/bin/java -server -Dworker.port=6700 -cp x org.apache.storm.daemon.worker.Worker star-1 id 6700\n"
        "90 /usr/bin/java -cp x org.apache.storm.LogWriter /usr/bin/java -Dworker.port=6700\n"
    )
    assert storm_cluster.lowest_worker(listed) == (6700, "77")
    assert storm_cluster.lowest_worker("") is None


class DisturbedTestbed:
    """Notes what it is asked for; m1 cannot be brought back."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str, list[str]]] = []

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        self.calls.append(("begin", machine.name, disturbance.kind, [other.name for other in others]))

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        self.calls.append(("end", machine.name, disturbance.kind, [other.name for other in others]))
        if machine.name == "m1":
            raise InfrastructureError("no machine m1")


@pytest.fixture
def disturbed(monkeypatch: pytest.MonkeyPatch) -> DisturbedTestbed:
    testbed, there = DisturbedTestbed(), [SimpleNamespace(name=name) for name in ("master", "m1", "m2", "m3")]
    monkeypatch.setattr(storm_cluster, "testbed_of", lambda _choice: testbed)
    monkeypatch.setattr(series_lease, "current_machines", lambda _folder: there)
    monkeypatch.setattr(cluster, "reset", lambda *_: None)
    return testbed


def storm(tmp_path: Path, *events: PlannedEvent) -> StormCluster:
    experiment = replace(load("stela/star"), events=events)
    return StormCluster(SimpleNamespace(experiment=experiment, folder=tmp_path), tmp_path)  # type: ignore[arg-type]


def test_samples_are_lost_on_their_way_to_the_master_and_partitions_are_mutual(
    disturbed: DisturbedTestbed, tmp_path: Path
) -> None:
    cluster = storm(tmp_path)
    cluster.disturb(["m2"], Disturbance("sample_loss"))
    cluster.disturb(["m2", "m3"], Disturbance("partition"))
    assert disturbed.calls == [
        ("begin", "m2", "sample_loss", ["master"]),
        ("begin", "m2", "partition", ["m3"]), ("begin", "m3", "partition", ["m2"]),
    ]  # fmt: skip


def test_whatever_a_harness_that_died_left_is_ended_before_the_next_run(
    disturbed: DisturbedTestbed, tmp_path: Path
) -> None:
    """On every machine that is there, though one cannot be brought back; m4 has gone."""
    cluster = storm(tmp_path, SlowCpu(at="steady", machines=("m1", "m2", "m4"), share=0.5))
    with pytest.raises(InfrastructureError, match="no machine m1"):
        cluster.reset(plan_runs(cluster.series.experiment)[0])
    assert [(call[0], call[1]) for call in disturbed.calls] == [("end", "m1"), ("end", "m2")]


def test_every_disturbance_has_its_kind() -> None:
    """What a testbed is asked for is called like the event."""
    planned = {kind for kind, cls in KINDS.items() if "disturbance" in dir(cls)}
    assert planned == {"cpu_load", "slow_cpu", "memory_limit", "lan_cut", "partition", "sample_loss"}


@pytest.mark.parametrize("second", [ScaleIn("steady", 1), WorkerCrash("steady", "m4")])
def test_one_with_little_memory_is_still_in_the_cluster(second: PlannedEvent, stage: SetUp) -> None:
    """A policy may let it leave, and a later event may name it: only Nimbus may miss it meanwhile."""
    here = stage(MemoryLimit(at="steady", machines=("m4",), memory_mb=200), second, release=("m4",))
    left = [event["machines"] for event in of(here.go(), "machines_left")]
    assert left == ([["m4"]] if second.leaves else [])


def test_one_that_dies_disturbed_is_a_machine_that_was_lost(stage: SetUp) -> None:
    """And the policy's answer, which it spoiled, is no failure of the policy."""
    here = stage(SLOW, ScaleOut("steady", 1), dies_deciding=["m2"])
    assert [event["machines"] for event in of(here.go(), "scale_aborted")] == [["m2"]]


def test_one_that_the_plan_has_crashed_meanwhile_needs_no_end(stage: SetUp, heard: Any) -> None:
    here = stage(SLOW, Crash("steady", "m1"))
    assert [event["machines"] for event in of(here.go(), "disturbance_ended")] == [["m2"]]
    assert not [line for line in heard.lines if "could not be ended" in str(line)]
