"""Every kind of event on simulated machines: performed, on record, and felt by what runs there."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from analysis.record.event_timeline import event_outcomes
from analysis.record.files import RunPaths
from barograph.campaign.steps import attempt_next_run
from barograph.errors import ExperimentError
from barograph.plan.events import KINDS
from barograph.plan.events.faults import CpuLoad, MemoryLimit, SlowCpu
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.order import machines_at_end
from barograph.plan.events.scaling import Arrival, AutonomousPhase, Reschedule, ScaleOut
from barograph.plan.experiment import Durations, Experiment, MachineCount, Variant, load
from barograph.plan.topologies import TopologyChoice
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.run.simulation import SimulatedClock
from barograph.series.series import Series, open_series
from barograph.testbeds.checks import check
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.policies import POLICIES
from tests.support import elastic_policy, worker_lines
from tests.unit.barograph.run.test_every_event_kind import example, examples

SHORT = Durations(warm_up_floor_s=40, warm_up_ceiling_s=60, after_floor_s=40, horizon_s=80)
SIMULATED = sorted(set(KINDS) - {"memory_limit"})
NOTHING: Mapping[str, Any] = {}
ALL = ("m1", "m2", "m3", "m4")


class Simulated:
    """A run of an experiment with these events."""

    def __init__(self, experiment: Experiment, folder: Path, listener: Any) -> None:
        self.series: Series = open_series(experiment, new=True, now_s=1_699_999_000.0)
        clock = SimulatedClock()
        self.cluster = SimulatedCluster(experiment, SimulatedTestbed(), clock, folder)
        self.context = SeriesContext(experiment, self.cluster, self.cluster, clock, listener, steady_test)
        self.run_id = self.series.plan()[0].run_id
        self.folder = self.series.run_folder(self.run_id)

    def go(self) -> list[dict[str, Any]]:
        assert attempt_next_run(self.series, self.context) == self.run_id
        assert json.loads((self.folder / "run.json").read_text())["status"] == "complete"
        return self.events()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]

    def rate(self, component: str, from_s: float, until_s: float) -> float:
        """Tuples/s that a component executed, by the lines that end in between."""
        total = 0.0
        for line in worker_lines.of_run(self.folder):
            if from_s < line["t"] <= until_s:
                names, executed = line["tasks"]["component"], line["tasks"]["executed"]
                total += sum(n for name, n in zip(names, executed, strict=True) if name == component)
        return total / (until_s - from_s)


SetUp = Callable[..., Simulated]


@pytest.fixture
def simulate(experiment: Experiment, series: object, heard: Any, tmp_path: Path) -> SetUp:
    def set_up(
        *events: PlannedEvent,
        topologies: Sequence[TopologyChoice] = (),
        parameters: Mapping[str, Any] = NOTHING,
        joining: Literal["ready", "booted"] = "ready",
        limits: tuple[int | None, int | None] = (None, None),
        policy: str = "",
    ) -> Simulated:
        star = load("stela/star")
        (chosen,), stela = star.every_topology(), star.variants[1]
        variants = (stela,) if any(event.kind == "scale_in" for event in events) else experiment.variants
        variants = (Variant(policy, policy),) if policy else variants
        planned = replace(
            experiment,
            variants=variants,
            topology=None if topologies else replace(chosen, parameters=parameters),
            topologies=tuple(topologies),
            testbed=replace(star.testbed, name="simulated", scale=1.0, joining=joining),
            events=events,
            machines=MachineCount(4, machines_at_end(4, events), *limits),
            durations=SHORT,
        )
        return Simulated(planned, tmp_path / "cluster", heard)

    return set_up


@pytest.mark.parametrize("kind", SIMULATED)
def test_it_is_performed_and_stands_in_the_record(kind: str, simulate: SetUp) -> None:
    event = examples()[kind]
    few = [replace(each, overrides={"workers": 4}) for each in example().topologies]  # 16 slots are there
    several = few if event.arrives or event.departs else ()
    here = simulate(event, topologies=several)
    here.go()
    (outcome,) = event_outcomes(RunPaths(here.folder))
    assert outcome.kind == kind


@pytest.mark.parametrize("policy", ["ds2", "greedy", "even"])
def test_an_event_is_asked_of_every_policy_though_a_job_finds_no_slot(policy: str, simulate: SetUp) -> None:
    """Two jobs have all 16 slots. The third sends nothing, and so has no rates to wait for."""
    jobs = [TopologyChoice(name, {}, {"workers": 8}, flux="star") for name in ("first", "second", "late")]
    arrival, reschedule = Arrival("steady", ("late",)), Reschedule("steady")
    told = simulate(arrival, reschedule, topologies=jobs, policy=policy).go()
    (asked,) = (event for event in told if event["kind"] == "scale_requested")
    assert asked["event"] == "reschedule"


def zero(events: Sequence[dict[str, Any]]) -> float:
    return next(float(event["t"]) for event in events if event.get("event_id") == "e1")


def test_a_topology_with_ackers_runs_and_scales_and_its_spouts_wait_for_their_trees(simulate: SetUp) -> None:
    """20 trees a task, of which a spout component has four: so many wait at most, where a queue grew before."""
    config = {"topology.acker.executors": 2, "topology.max.spout.pending": 20}
    star = TopologyChoice("star", {}, {"workers": 4, "config": config})
    here = simulate(
        ScaleOut("steady", 1), topologies=[star, replace(star, name="plain", flux="star", overrides={"workers": 4})]
    )
    t = zero(here.go())
    lines = [line for line in worker_lines.of_run(here.folder) if line["t"] == t - 1]
    waiting = {name: sum(sum(line["tasks"]["queue"]) for line in lines if line["topology"].startswith(name))
               for name in ("star", "plain")}  # fmt: skip
    assert waiting["star"] <= 2 * 4 * 20 < 10 * waiting["star"] and waiting["plain"] > 5000
    acked = {line["topology"].split("-")[0] for line in lines if "__acker" in line["tasks"]["component"]}
    assert acked == {"star"}


BUSY = {"cost_model": "busy", "ms_per_character": 0.2}  # 8 ms of a core a tuple, at two executors


@pytest.mark.parametrize(
    ("event", "share"),
    [
        # Of a core about 0.1 goes to workers at rest and the supervisor, so of 0.9 cores 0.4 are left.
        (SlowCpu(machines=ALL, share=0.5, at="steady"), 0.45),
        # Beside two greedy threads the executor has a third of them.
        (CpuLoad(machines=ALL, cores=2.0, at="steady"), 0.33),
    ],
)
def test_what_burns_cpu_does_less_on_machines_that_are_disturbed(
    event: PlannedEvent, share: float, simulate: SetUp
) -> None:
    here = simulate(event, parameters=BUSY)
    t = zero(here.go())
    before, after = here.rate("centre", t - 20, t), here.rate("centre", t + 10, t + 30)
    assert after / before == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("joining", ["ready", "booted"])
def test_a_policy_has_more_machines_in_a_hold_and_lets_them_go(
    joining: Literal["ready", "booted"], simulate: SetUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "elastic", elastic_policy.ENTRY)  # type: ignore[arg-type]
    here = simulate(
        AutonomousPhase("steady", decide_every_s=10.0, for_s=150.0), joining=joining, limits=(4, 5), policy="elastic"
    )
    events = here.go()
    asked = [(line["request"], line["number"]) for line in events if line["kind"] == "machine_request"]
    assert asked == [("acquire", 1), ("release", 1)]
    (joined,), (left,) = ([e for e in events if e["kind"] == kind] for kind in ("machines_joined", "machines_left"))
    assert joined["machines"] == left["machines"] == ["m5"]
    booted = [line["boot_s"] for line in events if line["kind"] == "machine_booted"]
    assert booted == ([] if joining == "ready" else [SimulatedTestbed().options.boot_s])
    used = [line["t"] for line in worker_lines.of_run(here.folder) if line["machine"] == "m5"]
    assert joined["t"] < min(used) and max(used) <= left["t"] + 1
    (closed,) = [line for line in events if line["kind"] == "requests_closed"]
    assert (closed["done"], closed["refused"], closed["failed"]) == (2, 0, 0)


def test_a_limit_of_memory_is_refused_in_words(experiment: Experiment) -> None:
    limited = replace(
        experiment,
        testbed=replace(experiment.testbed, name="simulated"),
        events=(MemoryLimit(at="steady", machines=("m1",), memory_mb=256),),
        machines=MachineCount(4, 4),
        claims=(),
    )
    with pytest.raises(
        ExperimentError, match=r"events\.0 is a memory_limit, and the simulator knows nothing of memory"
    ):
        check(limited)
