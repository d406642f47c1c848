"""The fingerprint of machines: what makes numbers comparable, and nothing else."""

from dataclasses import replace

import pytest

from barograph.nights.procedure import fact_lines, facts_of_box, facts_of_experiment, fingerprint
from barograph.plan.experiment import Experiment, load, with_changes
from barograph.testbeds import checks
from scheduler_plugins.simulator.work import Costs

BOX = {"testbed": "fake", "storm": "2.8.3", "java": "17", "measurement": 2, "host": {}}
pytestmark = pytest.mark.usefixtures("own_folders")


def of(experiment: Experiment, **box: object) -> str:
    return fingerprint(facts_of_experiment(experiment, {**BOX, **box}))


@pytest.fixture
def star() -> Experiment:
    return with_changes(load("stela/star"), {"testbed": "fake"})


def test_variants_repetitions_seed_claims_and_budget_do_not_count(star: Experiment) -> None:
    other = replace(star, repetitions=9, seed=5, claims=(), variants=star.variants[:1], title="x", lease_minutes=1.0)
    assert of(other) == of(star)
    paid = replace(
        star,
        testbed=replace(
            star.testbed, options={"fake": {"budget_usd": 5}, "ec2": {"region": "eu-west-1", "budget_usd": 5}}
        ),
    )
    assert of(paid) == of(star)


def test_machines_topology_plan_and_software_count(star: Experiment) -> None:
    testbed, topology = star.testbed, star.topology
    others = [
        of(replace(star, testbed=replace(testbed, scale=0.2))),
        of(replace(star, testbed=replace(testbed, bandwidth_mbit=10))),
        of(replace(star, testbed=replace(testbed, options={"fake": {"core_hour_usd": 0.1}}))),
        of(replace(star, topology=replace(topology, parameters={"rate": 5}))),
        of(replace(star, durations=replace(star.durations, horizon_s=200))),
        of(star, storm="2.9.0"),
        of(star, measurement=1),
        of(star, host={"cpu_model": "other", "cpus": 2}),
    ]
    assert len({of(star), *others}) == len(others) + 1


def test_a_simulated_night_is_of_no_storm_and_of_its_own_costs(
    star: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = facts_of_box("simulated")
    assert (box["storm"], box["java"], box["host"]) == ("none: simulated", "none: simulated", {})
    simulated = replace(star, testbed=replace(star.testbed, name="simulated", options={}))
    same = with_options(simulated, {"costs": {"hop_ms": Costs().hop_ms}})
    assert of(same) == of(simulated) != of(star), "a cost that is given is no other one than a default that is the same"
    found = [of(simulated), *(of(with_options(simulated, each)) for each in ({"seed": 1}, {"costs": {"hop_ms": 9.0}}))]
    assert len(set(found)) == 3
    monkeypatch.setattr(checks.testbed_of(simulated.testbed), "costs", Costs(hop_ms=7.0))
    assert of(simulated) not in found, "a later version has other defaults"


def with_options(experiment: Experiment, options: dict[str, object]) -> Experiment:
    return replace(experiment, testbed=replace(experiment.testbed, options={"simulated": options}))


def test_the_box_counts_only_where_it_emulates() -> None:
    assert facts_of_box("fake")["host"] == {}
    assert set(facts_of_box("local")["host"]) == {"cpu_model", "cpus"}
    assert facts_of_box("local")["storm"]


def test_people_are_told_the_machines_and_not_the_whole_plan(star: Experiment) -> None:
    box = {**BOX, "host": {"cpu_model": "Some CPU", "cpus": 2}}
    facts = facts_of_experiment(star, box)
    lines = fact_lines(box, {"stela/star": facts})
    assert lines["emulated on"] == "2 cores of Some CPU" and lines["storm"] == "2.8.3"
    assert lines["stela/star"].endswith(f"; with topology and plan {fingerprint(facts)}")
    assert "type_1 (" in lines["stela/star"] and "100 Mbit/s" in lines["stela/star"]
    assert "emulated on" not in fact_lines(BOX, {})
