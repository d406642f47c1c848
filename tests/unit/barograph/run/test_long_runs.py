"""Runs of hours on simulated machines, with lines, rounds and looks that are as far apart as in `long/ten_jobs`."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.plan.events.rates import Sine
from barograph.plan.events.scaling import AutonomousPhase
from barograph.plan.experiment import Durations, Experiment, MachineCount, load, only
from barograph.run.context import context_in_memory
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.run.simulation import InProcessService, SimulatedClock
from barograph.series.series import open_series
from barograph.testbeds.checks import check
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.service.run_snapshot import RunSnapshot
from scheduler_plugins.service.samples import SERIES_LENGTH_S
from tests.support import worker_lines

pytestmark = pytest.mark.long
HOURS = 2
RATES = {"star": 2 * 120.0, "page_load": 80.0}  # offered at the mean, tuples/s


def two_jobs() -> Experiment:
    """Of the ten; their day is an hour long."""
    ten = only(load("long/ten_jobs"), ("ds2",))
    events = (
        *(replace(each, period_s=3600.0) for each in ten.events if isinstance(each, Sine) and each.topology in RATES),
        *(each for each in ten.events if isinstance(each, AutonomousPhase)),
    )
    watched = Durations(warm_up_floor_s=120, warm_up_ceiling_s=300, after_floor_s=3600 * HOURS, horizon_s=3600 * HOURS)
    return replace(
        ten,
        topologies=tuple(each for each in ten.topologies if each.name in RATES),
        events=events,
        machines=MachineCount(8, 8),
        durations=watched,
    )


class Run:
    """What a run leaves, and what was asked of the service on the way."""

    def __init__(self, folder: Path, states: list[RunSnapshot]) -> None:
        self.states = states
        self.document = json.loads((folder / "run.json").read_text())
        self.events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        self.rounds = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
        self.lines = worker_lines.of_run(folder)
        self.machine_lines = [
            json.loads(line) for path in folder.glob("machines/*.jsonl") for line in path.read_text().splitlines()
        ]

    def zero_s(self, kind: str) -> float:
        return next(float(line["t"]) for line in self.events if line.get("event") == kind)

    def total(self, topology: str, group: str, column: str, from_s: float, until_s: float) -> int:
        return sum(
            n or 0
            for line in self.lines
            if line["topology"].startswith(f"{topology}-") and from_s < line["t"] <= until_s and group in line
            for n in line[group][column]
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, experiment = tmp_path_factory.mktemp("long"), two_jobs()
    testbed, clock = SimulatedTestbed(experiment.testbed.options["simulated"]), SimulatedClock()
    states: list[RunSnapshot] = []
    state_of = InProcessService.state

    def state(self: InProcessService) -> RunSnapshot:
        states.append(state_of(self))
        return states[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_RESULTS", str(folder / "results"))
        patch.setattr(InProcessService, "state", state)
        series = open_series(experiment, new=True)
        cluster = SimulatedCluster(experiment, testbed, clock, folder / "cluster")
        context = context_in_memory(experiment, cluster, clock, testbed.options.look_s)
        run_id = attempt_next_run(series, context)
    assert run_id is not None
    return Run(series.run_folder(run_id), states)


def test_what_ships_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    ten = load("long/ten_jobs")
    check(ten)
    assert len(ten.topologies) == 10 and ten.machines.before == 80 and ten.durations.horizon_s == 48 * 3600
    check(two_jobs())


def test_looks_rounds_and_lines_are_as_many_as_their_periods_say(run: Run) -> None:
    assert run.document["status"] == "complete"
    seconds = run.document["ended_s"] - run.document["started_s"]
    assert seconds > 3600 * HOURS
    assert len(run.states) < seconds / 60 + 60
    changes = sum(len(line["decision"]["executors"]) for line in run.rounds)
    assert seconds / 10 - 30 < len(run.rounds) < seconds / 10 + 3 * changes + 30
    lengths = Counter(line["dt_s"] for line in run.lines)
    assert lengths[10.0] > 0.9 * sum(lengths.values()) and max(lengths) == 10
    assert len(run.lines) < 8 * seconds / 10 + 40 * changes + 100
    assert Counter(line["dt_s"] for line in run.machine_lines)[10.0] > 0.95 * len(run.machine_lines)


def test_the_state_is_as_long_after_hours_as_after_minutes(run: Run) -> None:
    rows = [len(topology.series.t) for state in run.states for topology in state.topologies]
    assert max(rows) <= SERIES_LENGTH_S // 10 + 1
    last = run.states[-1]
    assert last.sample_s == 10 and {topology.series.step_s for topology in last.topologies} == {10}
    assert all(restart.t > last.t - 3700 for restart in last.worker_restarts)


def test_the_policy_follows_the_hour_with_its_executors(run: Run) -> None:
    counts: dict[str, set[int]] = {"centre": set(), "transform": set()}
    begin_s = run.zero_s("hold")
    for line in run.rounds:
        for topology in line["request"]["topologies"] if line["t"] > begin_s else ():
            for component in topology["components"]:
                if component["name"] in counts:
                    counts[component["name"]].add(len(component["executors"]))
    assert all(max(each) >= 2 * min(each) for each in counts.values()), counts
    own = [line for line in run.events if line["kind"] == "decision" and line.get("own")]
    applied = [line for line in run.events if line["kind"] == "applied" and line.get("own")]
    assert 4 <= len(own) <= 100 and len(applied) == len(own) and all(line["ok"] for line in applied)
    restarts = [line for line in run.events if line["kind"] == "worker_restarted"]
    assert restarts and all(line["asked"] for line in restarts)


@pytest.mark.parametrize("topology", RATES)
def test_what_falls_due_is_the_integral_of_the_course_and_comes_out(run: Run, topology: str) -> None:
    """Over a whole period the mean, though the harness looks once a minute and sends a course half a minute ahead; of
    what was due nearly all came to the sinks, for no queue is left behind."""
    assert not [line for line in run.events if line["kind"] == "course_interrupted"]
    end_s = float(run.zero_s("hold")) + 3600 * HOURS
    last_s = end_s - end_s % 10
    due = run.total(topology, "spouts", "due", last_s - 3600, last_s)
    gaps = run.total(topology, "gaps", "due", last_s - 3600, last_s)
    assert due + gaps == pytest.approx(3600 * RATES[topology], rel=0.01)
    emitted = run.total(topology, "spouts", "emitted", last_s - 3600, last_s)
    assert emitted == pytest.approx(due + gaps, rel=0.01)
    copies = {"star": 2.0, "page_load": 0.8 * 0.8}[topology]
    arrived = run.total(topology, "sinks", "n", last_s - 3600, last_s)
    assert arrived == pytest.approx(copies * (due + gaps), rel=0.06), "but for what restarts have lost"


def test_nothing_is_made_of_a_zero_that_was_not_measured(run: Run) -> None:
    """Each round of the hold has rates of a window, or says why it has none."""
    begin_s = run.zero_s("hold")
    seen: list[dict[str, Any]] = [
        topology for line in run.rounds if line["t"] > begin_s for topology in line["observation"]["topologies"]
    ]
    faults = [each["window_fault"] for each in seen if each["window_fault"]]
    assert len(faults) < 0.5 * len(seen)
    assert all(each["window_s"] >= 30 for each in seen if not each["window_fault"])
    assert not [fault for fault in faults if "has not reported for" in fault]
