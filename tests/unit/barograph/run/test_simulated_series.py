"""Whole runs on simulated machines: the closed form's throughput, the same bytes for the same seed, and policies that
fail with the words that they fail with on machines."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import capacity
from analysis.record.files import RunPaths, json_lines, read_json, write_json_atomic
from analysis.record.simulated import date_s
from barograph.campaign.steps import attempt_next_run
from barograph.errors import RunBroken
from barograph.plan.durations import DEFAULT_OVERHEAD, run_s
from barograph.plan.experiment import Durations, Experiment, Variant, load
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulated_cluster import SimulatedCluster, supervisor_ids
from barograph.run.simulation import BEGIN_S, SimulatedClock
from barograph.series.results import complete_runs
from barograph.series.run_record import median_overhead
from barograph.series.series import Series, open_series
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.model import Decision, Memory, Observation, Slot
from scheduler_plugins.policies import POLICIES, PolicyEntry, initial_placement
from tests.support import worker_lines
from tests.support.endless_policy import NoParameters
from topologies import catalogue

OPENED_S = 1_767_225_600.0
OF_A_SERIES = ("series_id", "git_commit", "git_dirty", "git_changes", "date_s", "wall_s")  # that a record names


@pytest.fixture
def star(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))
    experiment = load("stela/star")
    return replace(experiment, testbed=replace(experiment.testbed, name="simulated"), repetitions=1)


def quick(star: Experiment) -> Experiment:
    """Its first variant, watched for a moment."""
    durations = Durations(warm_up_floor_s=40, warm_up_ceiling_s=60, after_floor_s=20, horizon_s=20)
    return replace(star, variants=star.variants[:1], durations=durations)


IN_TIME = {"sleep_slack_ms": 0.0}  # who sleeps is not late: closed forms know nothing of that


def series_of(experiment: Experiment, folder: Path, heard: Any, **options: Any) -> tuple[Series, SeriesContext]:
    series = open_series(experiment, new=True, now_s=OPENED_S)
    clock = SimulatedClock()
    cluster = SimulatedCluster(experiment, SimulatedTestbed(options), clock, folder)
    return series, SeriesContext(experiment, cluster, cluster, clock, heard, steady_test)


def run_all(series: Series, context: SeriesContext) -> list[Path]:
    return [series.run_folder(run_id) for _ in series.plan() if (run_id := attempt_next_run(series, context))]


def sink_rate(folder: Path, from_s: float, until_s: float) -> float:
    """Tuples/s at the sinks, by the lines that end in between."""
    total = 0
    for line in worker_lines.of_run(folder):
        if from_s < line["t"] <= until_s and "sinks" in line:
            total += sum(line["sinks"]["n"])
    return total / (until_s - from_s)


def event(folder: Path, kind: str) -> dict[str, Any]:
    lines = (json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines())
    return next(line for line in lines if line["kind"] == kind)


def executors_at_end(folder: Path) -> dict[str, int]:
    rounds = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    (topology,) = next(line["request"]["topologies"] for line in reversed(rounds) if line["request"]["topologies"])
    return {component["name"]: len(component["executors"]) for component in topology["components"]}


def test_throughput_is_that_of_the_closed_form_before_and_after(star: Experiment, tmp_path: Path, heard: Any) -> None:
    closed = capacity.topology_of_flux(catalogue.render("star"))
    assert closed is not None
    for folder in run_all(*series_of(star, tmp_path / "cluster", heard, costs=IN_TIME)):
        zero_s = float(event(folder, "scale_requested")["t"])
        before, after = sink_rate(folder, zero_s - 30, zero_s), sink_rate(folder, zero_s + 100, zero_s + 160)
        executors = executors_at_end(folder)
        # Tuples cost differently: 30 s of two executors scatter by 1 %.
        assert before == pytest.approx(capacity.throughput(closed, closed.initial), rel=0.03)
        assert after == pytest.approx(capacity.throughput(closed, executors), rel=0.02)
        is_stela = folder.name.startswith("stela")
        assert executors["centre"] == (4 if is_stela else 2)
        assert after / before == pytest.approx(2.0 if is_stela else 1.0, abs=0.05)


def test_a_run_says_that_it_was_simulated_and_how(star: Experiment, tmp_path: Path, heard: Any) -> None:
    given = {"seed": 7, "costs": {"hop_ms": 2.5}}
    folder, *_ = run_all(*series_of(quick(star), tmp_path / "cluster", heard, **given))
    document = json.loads((folder / "run.json").read_text())
    simulated = document["harness_facts"]["simulated"]
    assert simulated["seed"] == 7 and simulated["costs"]["hop_ms"] == 2.5 and simulated["costs"]["receive_ms"] > 0
    assert document["versions"]["storm"] == "none: simulated"
    assert document["missing"] == [] and document["topology"]["name"] == "star"
    assert (folder / "topology.yaml").read_text().startswith('"name": "star"')
    rounds = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    assert rounds and {each["duration_ms"] for each in rounds} == {None}, "nothing measures how long one takes"


def test_the_same_seed_gives_the_same_record_to_the_byte(star: Experiment, tmp_path: Path, heard: Any) -> None:
    once, again = (
        {
            (folder.name, str(path.relative_to(folder))): content_of(path)
            for folder in run_all(*series_of(quick(star), tmp_path / name, heard, costs={"noise": 0.05}))
            for path in folder.rglob("*")
            if path.is_file()
        }
        for name in ("a", "b")
    )
    assert len(once) > 20 and once.keys() == again.keys()
    assert [name for name in once if once[name] != again[name]] == []


def test_a_run_that_is_simulated_again_is_another_though_its_times_are_the_same(
    star: Experiment, tmp_path: Path, heard: Any
) -> None:
    begun_s = time.time()
    series, context = series_of(quick(star), tmp_path / "cluster", heard)
    (folder,) = run_all(series, context)
    first = complete_runs(series.folder)
    (run,) = series.plan()
    before = json.loads((folder / "run.json").read_text())
    assert before["started_s"] == BEGIN_S and begun_s <= before["date_s"] <= time.time()
    assert not series.was_complete(run, begun_s) and series.was_complete(run, time.time() + 1)
    document = read_json(series.folder / "series.json")
    write_json_atomic(series.folder / "series.json", {**document, "reported": first})
    assert series.is_reported()
    _, anew = series_of(quick(star), tmp_path / "cluster", heard)
    attempt_next_run(series, anew, run)
    after = json.loads((folder / "run.json").read_text())
    assert (after["started_s"], after["ended_s"]) == (before["started_s"], before["ended_s"])
    assert complete_runs(series.folder) != first and not series.is_reported()
    assert date_s(json.loads((folder / "run.json").read_text())) != before["date_s"]


def test_how_long_a_simulated_series_takes_is_learnt_in_seconds_that_pass(
    star: Experiment, tmp_path: Path, heard: Any
) -> None:
    machines = replace(star, testbed=replace(star.testbed, name="local"))
    assert run_s(star) < run_s(machines) / 20
    (folder,) = run_all(*series_of(quick(star), tmp_path / "cluster", heard))
    document = read_json(folder / "run.json")
    simulated_s = document["ended_s"] - document["started_s"]
    overhead = median_overhead(star.testbed)
    assert 0 < document["wall_s"] < time.time() - document["date_s"] + 1
    assert overhead.pace == pytest.approx(document["wall_s"] / simulated_s) and overhead.runs == 1
    assert run_s(quick(star), overhead) == pytest.approx(document["wall_s"], rel=0.7)
    assert median_overhead(machines.testbed) == DEFAULT_OVERHEAD, "runs on machines take as long as they took"


def test_another_seed_gives_another_record(star: Experiment, tmp_path: Path, heard: Any) -> None:
    workers = [
        [path.read_bytes() for path in sorted(folder.glob("workers/*"))]
        for seed in (1, 2)
        for folder in run_all(*series_of(quick(star), tmp_path / str(seed), heard, seed=seed, costs={"noise": 0.05}))
    ]
    assert workers[0] != workers[1]


def test_the_experiments_seed_draws_speeds_and_the_testbeds_also_supervisors(
    star: Experiment, tmp_path: Path, heard: Any
) -> None:
    """docs/simulator.md, chance, without the cost `noise`."""
    uneven = quick(star)
    assert uneven.topology is not None
    even = replace(uneven, topology=replace(uneven.topology, parameters={"cost_model": "none"}))

    def simulated(experiment: Experiment, seed: int, option: int = 0) -> tuple[list[bytes], dict[str, str]]:
        series, context = series_of(replace(experiment, seed=seed), tmp_path / "cluster", heard, seed=option)
        (folder,) = run_all(series, context)
        return [path.read_bytes() for path in sorted(folder.glob("workers/*"))], supervisor_ids(
            json_lines(RunPaths(folder).decisions)
        )

    (lines, ids), (same_lines, same_ids), (_, other_ids) = (simulated(even, *seeds) for seeds in ((1,), (2,), (1, 1)))
    assert (lines, ids) == (same_lines, same_ids), "no tuple costs more than another"
    assert ids.keys() == other_ids.keys() and ids != other_ids
    (lines, ids), (other_lines, same_ids) = simulated(uneven, 1), simulated(uneven, 2)
    assert lines != other_lines and ids == same_ids


def content_of(path: Path) -> Any:
    if path.name != "run.json":
        return path.read_bytes()
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in OF_A_SERIES}


def failing(answer: Callable[[Observation], Decision]) -> PolicyEntry:
    """A policy that places as others do, and answers the scale-out so."""

    def decide(observation: Observation, memory: Memory, parameters: NoParameters) -> Decision:
        first = initial_placement.initial_decision(observation, memory, "round_robin")
        return first or (Decision(memory=memory) if observation.event is None else answer(observation))

    return PolicyEntry(decide, NoParameters, frozenset({"scale_out"}))


def divides(_observation: Observation) -> Decision:
    return Decision(acquire=1 // 0)


def invents_a_slot(observation: Observation) -> Decision:
    (topology,) = observation.topologies
    return Decision(placement={topology.topology_id: {1: Slot("m99", 6700)}}, settled=True)


def sleeps(_observation: Observation) -> Decision:
    time.sleep(8.0)
    return Decision()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (divides, r"the policy failing failed: ZeroDivisionError: integer division or modulo by zero"),
        (invents_a_slot, r"the policy failing failed: its decision is refused: .*m99:6700"),
        (sleeps, r"the policy failing failed: its decide has not answered after \d+\.\d s(, .*)?; allowed: 1\.5 s"),
    ],
)
def test_a_policy_that_fails_fails_as_on_machines(
    answer: Callable[[Observation], Decision], words: str, star: Experiment, tmp_path: Path, heard: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setitem(POLICIES, "failing", failing(answer))  # type: ignore[arg-type]
    only = replace(star, variants=(Variant("failing", "failing"),), claims=())
    series, context = series_of(only, tmp_path / "cluster", heard)
    with pytest.raises(RunBroken, match=words):
        attempt_next_run(series, context)
    document = json.loads((series.run_folder("failing-r1") / "run.json").read_text())
    assert document["status"] == "failed" and document["failure"]["blame"] == "system_under_test"


def test_looks_rounds_and_samples_may_be_rare(star: Experiment, tmp_path: Path, heard: Any) -> None:
    series, context = series_of(
        star, tmp_path / "cluster", heard, look_s=5, round_s=10, sample_s=5, step_s=5, costs=IN_TIME
    )
    folder, *_ = run_all(series, replace(context, look_s=5.0))
    looks = [line for line in heard.lines if line["kind"] == "throughput"]
    rounds = (folder / "decisions.jsonl").read_text().count("\n")
    assert len(looks) < 300 and rounds < 60, "with looks and rounds of a second it is some 1,000"
    assert {line["dt_s"] for line in worker_lines.of_run(folder)} >= {5.0}
    closed = capacity.topology_of_flux(catalogue.render("star"))
    assert closed is not None
    zero_s = float(event(folder, "scale_requested")["t"])
    last_s = zero_s - zero_s % 5
    assert sink_rate(folder, last_s - 20, last_s) == pytest.approx(
        capacity.throughput(closed, closed.initial), rel=0.01
    )
