"""Many jobs of one kind in one entry: what it stands for, also in events and variants."""

from typing import Any

import pytest
import yaml

from barograph.plan.blocks import digest
from barograph.plan.experiment import Experiment, from_data, parse
from barograph.testbeds.checks import check, remarks
from barograph.web.dag_documentation import experiment_documentation

JOBS = """
title: Many
topologies:
  - name: job
    flux: page_load
    count: 9
    overrides: {workers: 1}
    service_level: {latency_ms: 60}
    each: {service_level.max_utility: [10, 20, 30, 40, 50, 60, 70, 80, 90]}
  - {name: later, flux: star, count: 2, overrides: {workers: 1}, service_level: {latency_ms: 70, juice: 1.0}}
  - {name: linear, overrides: {workers: 1}}
testbed: {name: simulated, machine_type: quad_14_slots, bandwidth_mbit: 1000}
machines: {before: 2, after: 2}
variants:
  - {name: henge, policy: henge}
  - name: manual
    policy: even
    topologies:
      job: {overrides: {executors: {transform: 8}}}
      later_2: {parameters: {ms_per_character: 0.1}}
events:
  - {kind: arrival, at: steady, topologies: [later]}
  - {kind: departure, at: steady, topologies: [linear, job]}
durations: {warm_up_floor_s: 60, warm_up_ceiling_s: 120, after_floor_s: 60, horizon_s: 120}
repetitions: 1
seed: 1
lease_minutes: 60
"""


def experiment(**changes: Any) -> Experiment:
    return parse("henge/many", {**yaml.safe_load(JOBS), **changes}, source="many.yaml")


def test_an_entry_stands_for_so_many_that_differ_in_what_it_says() -> None:
    jobs = experiment().topologies
    assert [each.name for each in jobs] == [*(f"job_{n}" for n in range(1, 10)), "later_1", "later_2", "linear"]
    assert {each.file for each in jobs[:9]} == {"page_load"}
    levels = [each.service_level for each in jobs]
    assert [level and (level.latency_ms, level.juice, level.max_utility) for level in levels] == [
        *((60.0, None, 10.0 * n) for n in range(1, 10)), (70.0, 1.0, 1.0), (70.0, 1.0, 1.0), None,
    ]  # fmt: skip
    assert all(each.count is None and not each.each for each in jobs)


def test_its_name_stands_for_all_of_them_in_events() -> None:
    arrival, departure = experiment().events
    assert arrival.arrives == ("later_1", "later_2")
    assert departure.departs == ("linear", *(f"job_{n}" for n in range(1, 10)))
    assert experiment().topologies_at_start() == (*(f"job_{n}" for n in range(1, 10)), "linear")
    assert (arrival.words(), departure.words()) == (
        "later_1, later_2 arrive", "linear, job_1, job_2 and 7 more depart",
    )  # fmt: skip


def test_a_variant_changes_several_and_the_others_stay() -> None:
    many = experiment()
    check(many)
    henge, manual = (many.topologies_of(variant) for variant in many.variants)
    assert {json_of["executors"]["transform"] for json_of in (each.overrides for each in manual[:9])} == {8}
    assert [each.overrides for each in henge] == [{"workers": 1}] * 12
    assert [each.parameters for each in manual[9:]] == [{}, {"ms_per_character": 0.1}, {}]
    assert henge[11] == manual[11]
    (difference,) = [text for text in remarks(many) if "differs" in text]
    assert difference.startswith(
        "variants.manual: its topology differs: job_1, job_2, job_3 and 6 more: overrides.executors.transform = 8;"
        " later_2: parameters.ms_per_character = 0.1; other sizes,"
    )
    assert "`job_1`, `job_2`, `job_3` and 9 more" in experiment_documentation(many)


def test_what_it_stands_for_is_recorded_and_is_the_same_request() -> None:
    many = experiment()
    assert from_data(many.as_data()) == many
    assert digest(from_data(many.as_data())) == digest(many)
    assert "count" not in str(many.as_data()) and len(many.as_data()["topologies"]) == 12


@pytest.mark.parametrize("testbed", ["fake", "simulated", "local", "ec2", "emulab", "existing"])
def test_every_testbed_takes_them(testbed: str) -> None:
    data = yaml.safe_load(JOBS)
    many = experiment(testbed=data["testbed"] | {"name": testbed, "scale": 0.05})
    assert len(many.topologies) == 12


def test_eighty_five_jobs_and_eighty_arrivals_fit() -> None:
    more = {"flux": "page_load", "overrides": {"workers": 1}, "service_level": {"latency_ms": 70, "max_utility": 35}}
    names = [f"wave_{n}" for n in range(1, 5)]
    many = experiment(
        topologies=[{"name": "first", "count": 5, **more}, *({"name": n, "count": 20, **more} for n in names)],
        events=[{"kind": "arrival", "at": "steady", "topologies": [name]} for name in names],
        machines={"before": 10, "after": 10},
        variants=[{"name": "henge", "policy": "henge"}],
    )
    check(many)
    assert (len(many.topologies), sum(len(event.arrives) for event in many.events)) == (85, 80)
