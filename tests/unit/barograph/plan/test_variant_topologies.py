"""A variant's own topology: what it is laid over, what is said of it, and where it makes another thing of a run."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from analysis.ingest.run_tables import run_row
from barograph.compare.comparison import Demand, Side, derive
from barograph.errors import ExperimentError
from barograph.nights.procedure import facts_of_experiment, fingerprint
from barograph.plan.blocks import digest, plan_runs
from barograph.plan.experiment import EXPERIMENTS, Code, Experiment, as_data, from_data, load, only, parse, with_changes
from barograph.plan.topologies import TopologyChanges
from barograph.run.storm_cluster import StormCluster
from barograph.testbeds.checks import check, remarks
from barograph.web.dag_documentation import experiment_documentation
from barograph.yaml_files import read_yaml

BOX = {"testbed": "fake", "storm": "2.8.3", "java": "17", "measurement": 2, "host": {}}


def star(**changes: Any) -> Experiment:
    """stela/star, of which the second variant has these changes in its topology."""
    data: dict[str, Any] = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    data["topology"] = {
        "name": "star",
        "parameters": {"rate_per_s": 100.0},
        "overrides": {"workers": 8, "tasks": {"centre": 6}, "config": {"topology.priority": 1, "topology.debug": 2}},
    }
    if changes:
        data["variants"][1]["topology"] = changes
    return with_changes(parse("stela/star", data, source="star.yaml"), {"testbed": "fake"})


def submitted(experiment: Experiment, variant: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The Flux file that a run of this variant submits."""
    series = SimpleNamespace(experiment=experiment, run_folder=lambda _run_id: tmp_path)
    monkeypatch.setattr("barograph.run.storm_cluster.cluster.submit", lambda *_: None)
    run = next(run for run in plan_runs(experiment) if run.variant == experiment.variants[variant])
    (chosen,) = experiment.topologies_of(run.variant)
    StormCluster(series, tmp_path).submit(run, chosen)  # type: ignore[arg-type]  # what it needs of a series
    flux: dict[str, Any] = yaml.safe_load((tmp_path / "topology.yaml").read_text())
    return flux


def test_it_is_laid_over_the_experiments_key_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = star(
        parameters={"ms_per_character": 0.3},
        overrides={"workers": 9, "tasks": {"sink_1": 5}, "config": {"topology.debug": 3}},
    )
    check(experiment)
    common, own = (submitted(experiment, n, tmp_path, monkeypatch) for n in (0, 1))
    keys = ("topology.workers", "topology.priority", "topology.debug")
    assert [common["config"][key] for key in keys] == [8, 1, 2]
    assert [own["config"][key] for key in keys] == [9, 1, 3]
    parameters = [flux["config"]["barograph.parameters"] for flux in (common, own)]
    assert [(p["rate_per_s"], p["ms_per_character"]) for p in parameters] == [(100.0, 0.2), (100.0, 0.3)]
    tasks = [{bolt["id"]: bolt["numTasks"] for bolt in flux["bolts"]} for flux in (common, own)]
    assert tasks == [{"centre": 6, "sink_1": 4, "sink_2": 4}, {"centre": 6, "sink_1": 5, "sink_2": 4}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flux": "linear"}, "unknown key variants.1.topology.flux; known here: parameters, overrides"),
        ({"parameters": 3}, "variants.1.topology.parameters is 3"),
        ({"parameters": {"rate": 3}}, "variants.stela.topology: topology star: parameter 'rate' is unknown; known are"),
        (
            {"parameters": {"cost_model": "idle"}},
            "variants.stela.topology: topology star: parameter cost_model: 'idle' is not one of none, sleep, busy",
        ),
        ({"overrides": {"wrkers": 3}}, "override 'wrkers' is unknown; known are workers, tasks, executors, config"),
        ({"overrides": {"config": 3}}, "variants.stela.topology: topology star: config: 3 does not map keys to values"),
        ({"overrides": {"executors": {"centre": 7}}}, "component centre: executors: 7 are more than its 6 tasks"),
    ],
)
def test_what_is_wrong_in_it_is_named_with_its_variant(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        check(star(**changes))
    assert said in str(caught.value) and "star" in str(caught.value).partition(":")[0]


def test_a_wrong_topology_of_the_experiment_is_said_once() -> None:
    data = star(parameters={"ms_per_character": 0.3}).as_data()
    data["topology"]["parameters"] = {"rate": 3}
    with pytest.raises(ExperimentError) as caught:
        check(from_data(data))
    assert str(caught.value).count("parameter 'rate' is unknown") == 1


def test_it_makes_another_request_and_nothing_makes_the_same() -> None:
    plain, none, own = star(), star(parameters={}, overrides={}), star(parameters={"ms_per_character": 0.3})
    assert none == plain and digest(none) == digest(plain) != digest(own)
    assert from_data(own.as_data()) == own
    assert not any("topology" in variant for variant in plain.as_data()["variants"])


def test_nights_compare_what_ran_on_the_same_topologies() -> None:
    def of(experiment: Experiment) -> str:
        return fingerprint(facts_of_experiment(experiment, BOX))

    plain, own = star(), star(parameters={"ms_per_character": 0.3})
    assert len({of(plain), of(own), of(star(parameters={"ms_per_character": 0.4}))}) == 3
    assert of(only(own, ("even_rebalance",))) == of(only(plain, ("even_rebalance",)))


def test_it_is_on_record_with_the_run_and_in_the_table_of_runs() -> None:
    common, own = star(overrides={"config": {"topology.debug": 3}}).variants
    records = [{"variant": as_data(variant)} for variant in (common, own)]
    assert [json.loads(run_row("r", record)["topology_changes"]) for record in records] == [
        {}, {"parameters": {}, "overrides": {"config": {"topology.debug": 3}}},
    ]  # fmt: skip


def test_it_is_said_before_anything_starts_and_other_sizes_are_called_so() -> None:
    cost, sizes = star(parameters={"ms_per_character": 0.3}), star(overrides={"tasks": {"centre": 8}})
    assert "variants.stela: its topology differs: parameters.ms_per_character = 0.3" in remarks(cost)
    assert any(
        "overrides.tasks.centre = 8; other sizes, so what differs in its results is not the policy's alone" in said
        for said in remarks(sizes)
    )
    assert not any("differs" in said for said in remarks(star()))
    text = experiment_documentation(cost)
    assert "`stela`: policy `stela`, on a topology with parameters.ms_per_character = 0.3" in text


def test_isolation_is_checked_on_the_variants_own_topology() -> None:
    isolation = {"scheduler": "isolation", "conf": {"isolation.scheduler.machines": {"star": 4}}}
    data = star(overrides={"workers": 12}).as_data()
    data["variants"][1] |= {"policy": "storm", "parameters": isolation}
    with pytest.raises(ExperimentError, match=r"variants.stela: Storm's isolation .* 12 workers and 10"):
        check(from_data(data))
    data["variants"][1]["topology"] = None  # the experiment's own have 8 workers
    check(from_data(data))


THEIRS = Side(Code("theirs", "c" * 40, "https://example.org/x.git", ("make",), "x.jar", "org.example.X"))
OURS = Side(Code("main", "a" * 40))


def test_a_scheduler_that_stands_for_every_variant_needs_one_topology() -> None:
    own = star(parameters={"ms_per_character": 0.3})
    assert [v.topology for v in derive(own, OURS, OURS, 3, Demand()).experiment.variants] == [
        None, TopologyChanges({"ms_per_character": 0.3}),
    ] * 2  # fmt: skip
    with pytest.raises(ExperimentError, match=r"the topologies of even_rebalance and stela differ.*choose variants of"):
        derive(own, OURS, THEIRS, 3, Demand())
    foreign = derive(only(own, ("stela",)), OURS, THEIRS, 3, Demand()).experiment.variants[-1]
    assert foreign.topology == TopologyChanges({"ms_per_character": 0.3})


def test_the_slower_variant_that_ships_costs_a_ninth_more() -> None:
    experiment = load("small/aa_and_slower")
    costs = [experiment.topologies_of(variant)[0].parameters["ms_per_character"] for variant in experiment.variants]
    assert costs[0] == costs[1] and costs[0] / costs[2] == pytest.approx(0.9, abs=1e-4)
    assert len({json.dumps(asdict(replace(variant, name=""))) for variant in experiment.variants[:2]}) == 1
    assert experiment.repetitions * 2 == 40, "runs of the same code"
