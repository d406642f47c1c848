"""A real series simulated once more: whose runs, with which seeds, on machines in which order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.record.files import RunPaths, json_lines, read_json, write_json_atomic
from barograph import simulated_series
from barograph.plan.durations import Limit
from barograph.plan.experiment import Code, Durations, Experiment, Variant, from_data, load
from barograph.run.simulated_cluster import supervisor_ids
from barograph.simulated_series import simulate

SHORT = Durations(warm_up_floor_s=10, warm_up_ceiling_s=10, after_floor_s=20, horizon_s=20)
STAR = replace(load("stela/star"), repetitions=1, durations=SHORT)


def real_series(folder: Path, experiment: Experiment) -> Path:
    document = {"v": 1, "series_id": folder.name, "experiment": experiment.name, "spec": experiment.as_data()}
    write_json_atomic(folder / "series.json", {**document, "opened_s": 1.0})
    return folder


def machines_of(folder: Path, run: str) -> list[str]:
    """In the order in which the policy saw them last."""
    line = json.loads((folder / "runs" / run / "decisions.jsonl").read_text().splitlines()[-1])
    return [each["name"] for each in line["request"]["machines"]]


def test_a_run_is_simulated_with_several_seeds_and_each_is_another_run(tmp_path: Path) -> None:
    real = real_series(tmp_path / "real", replace(STAR, variants=STAR.variants[:1]))
    found = simulate(real, {"noise": 0.1}, tmp_path / "sim", ["even_rebalance-r1"], lambda _: None, seeds=2)
    assert found.missing == {}
    documents = [read_json(tmp_path / "sim" / "runs" / f"even_rebalance-r{n}" / "run.json") for n in (1, 2)]
    assert [each["status"] for each in documents] == ["complete", "complete"]
    assert [each["harness_facts"]["simulated"]["seed"] for each in documents] == [0, 1]
    assert {each["seed"] for each in documents} == {STAR.seed}, "the input is the same"
    assert all(each["harness_facts"]["simulated"]["costs"]["noise"] == 0.1 for each in documents)
    assert not list((tmp_path / "sim").glob(".cluster*"))


def test_a_run_is_watched_as_long_as_the_recorded_one_before_and_after_its_only_event(tmp_path: Path) -> None:
    """By the file it would be 10 s and 20 s; the recorded run was steady after 25 s, and watched for 33 s after the
    event, which came two seconds later."""
    real = real_series(tmp_path / "real", replace(STAR, variants=STAR.variants[:1]))
    run = RunPaths(real / "runs" / "even_rebalance-r1")
    run.root.mkdir(parents=True)
    lines = [
        {"t": 1000.0, "kind": "first_tuple"},
        {"t": 1025.0, "kind": "steady", "phase": "before"},
        {"t": 1027.0, "kind": "scale_requested", "event_id": "e1"},
        {"t": 1060.0, "kind": "steady", "phase": "after"},
    ]
    run.events.write_text("\n".join(map(json.dumps, lines)))
    simulate(real, {}, tmp_path / "sim", [run.root.name], lambda _: None)
    found = {
        (line["kind"], line.get("phase")): line["t"]
        for line in json_lines(RunPaths(tmp_path / "sim" / "runs" / run.root.name).events)
    }
    assert found["steady", "before"] - found["first_tuple", None] == pytest.approx(25.0, abs=1.5)
    assert found["steady", "after"] - found["scale_requested", None] == pytest.approx(33.0, abs=1.5)


def test_what_cannot_be_simulated_is_missing_with_a_reason(tmp_path: Path) -> None:
    coded = Variant("branch", "stela", code=Code(commit="a" * 40))
    real = real_series(tmp_path / "real", replace(STAR, variants=(coded,)))
    found = simulate(real, {}, tmp_path / "sim", ["branch-r1"], lambda _: None)
    assert (
        "variants.branch.code: a run is simulated once more with the policies of the work tree only"
        in found.missing["branch-r1"]
    )


def test_a_run_of_which_one_seed_fails_is_not_missing(tmp_path: Path) -> None:
    real, said = real_series(tmp_path / "real", replace(STAR, variants=STAR.variants[:1])), list[str]()
    runs = tmp_path / "sim" / "runs"
    runs.mkdir(parents=True)
    (runs / "even_rebalance-r2").symlink_to(tmp_path / "nowhere" / "else")
    found = simulate(real, {}, tmp_path / "sim", ["even_rebalance-r1"], said.append, seeds=2)
    assert found.missing == {} and read_json(runs / "even_rebalance-r1" / "run.json")["status"] == "complete"
    assert "even_rebalance-r1: 1 of 2 seeds could not be simulated" in said[-1]
    assert found.failed_seeds == {"even_rebalance-r1": said[-1].partition(": ")[2]}


def test_a_run_that_is_over_its_limit_is_missing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_series, "step_limit", lambda _step, _experiment: Limit(0.01, "a test's"))
    real = real_series(tmp_path / "real", STAR)
    runs = ["even_rebalance-r1", "stela-r1"]
    found = simulate(real, {}, tmp_path / "sim", runs, lambda _: None, seeds=2)
    assert sorted(found.missing) == runs
    assert all("still busy after 0.01 s, which is its limit, and was killed" in why for why in found.missing.values())
    assert not list((tmp_path / "sim").glob(".cluster*"))


def test_machines_come_in_the_order_of_the_recorded_supervisors(tmp_path: Path) -> None:
    real = real_series(tmp_path / "real", replace(STAR, variants=STAR.variants[:1]))
    run = real / "runs" / "even_rebalance-r1"
    run.mkdir(parents=True)
    recorded = [{"name": f"m{n}", "supervisor_id": f"{9 - n}-id"} for n in range(1, 6)]
    lines = [json.dumps({"request": {"machines": part}}) for part in (recorded[:4], recorded)]
    (run / "decisions.jsonl").write_text("\n".join([lines[0], "{", lines[1]]))
    assert supervisor_ids(json_lines(RunPaths(run).decisions)) == {
        each["name"]: each["supervisor_id"] for each in recorded
    }
    simulate(real, {}, tmp_path / "sim", [run.name], lambda _: None)
    assert machines_of(tmp_path / "sim", run.name) == ["m5", "m4", "m3", "m2", "m1"]


@pytest.mark.parametrize("seeds", [1, 3])
def test_no_run_that_was_not_asked_for_is_simulated(seeds: int, tmp_path: Path) -> None:
    real = real_series(tmp_path / "real", replace(STAR, repetitions=2))
    simulate(real, {}, tmp_path / "sim", ["stela-r2"], lambda _: None, seeds=seeds)
    runs = {path.name for path in (tmp_path / "sim" / "runs").iterdir()}
    assert runs == {f"stela-r{n}" for n in range(seeds + 1, 2 * seeds + 1)}


def on_machines(testbed: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec and the machines of a run's record: of the star on that testbed, with machines of two cores."""
    choice = replace(STAR.testbed, name=testbed, scale=0.3, bandwidth_mbit=100.0)
    facts = {"type": "type_1", "cores": 2, "memory_mb": 4096, "bandwidth_mbit": 5000, "slots": 4}
    experiment = replace(STAR, testbed=choice, variants=STAR.variants[:1])
    return experiment.as_data(), {f"m{n}": {**facts, "joins_at_scale": n == 5} for n in range(1, 6)}


@pytest.mark.parametrize(
    ("testbed", "scale", "cores", "bandwidth_mbit"),
    [("ec2", 1.0, 2, 5000), ("existing", 1.0, 2, None), ("local", 0.3, 0.3, 100)],
)
def test_whole_machines_are_simulated_as_what_they_were(
    testbed: str, scale: float, cores: float, bandwidth_mbit: int | None, tmp_path: Path
) -> None:
    spec, machines = on_machines(testbed)
    real = real_series(tmp_path / "real", from_data(spec))
    run = real / "runs" / "even_rebalance-r1"
    write_json_atomic(run / "run.json", {"spec": spec, "machines": machines})
    assert simulate(real, {}, tmp_path / "sim", [run.name], lambda _: None).missing == {}
    found = read_json(tmp_path / "sim" / "runs" / run.name / "run.json")
    assert found["spec"]["testbed"]["scale"] == scale
    assert {(each["cores"], each["bandwidth_mbit"]) for each in found["machines"].values()} == {(cores, bandwidth_mbit)}
