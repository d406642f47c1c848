"""What Airflow says of a DAG is about its experiment."""

from dataclasses import replace

import pytest

from barograph.nights import suite as suites
from barograph.plan.events.faults import Crash
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import ScaleIn
from barograph.plan.experiment import load, names
from barograph.web.dag_documentation import experiment_documentation, suite_documentation


@pytest.mark.parametrize("name", names())
def test_every_experiment_says_what_it_compares(name: str) -> None:
    experiment = load(name)
    text = experiment_documentation(experiment)
    assert experiment.title in text
    assert all(f"- `{variant.name}`: policy `{variant.policy}`" in text for variant in experiment.variants)
    assert all(claim in text for claim in experiment.claims)
    assert f"{experiment.repetitions} runs of each variant" in text


def test_events_in_words() -> None:
    plan = (ScaleIn("steady", 2), RateChange(60.0, 1.5), Crash("steady", "m2", 10.0), Crash("steady", "m3"))
    text = experiment_documentation(replace(load("stela/star"), events=plan))
    assert "- `e1`: scale in by 2 machines, once throughput is steady" in text
    assert "- `e2`: the input rate becomes 1.5 times that of the submission, 60 s after the one before it" in text
    assert "m2 crashes and boots 10 s later" in text and "m3 crashes and stays down" in text
    assert "None." in experiment_documentation(replace(load("stela/star"), events=(), claims=()))


@pytest.mark.parametrize("name", suites.suite_names())
def test_every_suite_says_what_it_measures_and_when(name: str) -> None:
    suite = suites.load_suite(name)
    text = suite_documentation(suite)
    assert suite.title in text and (suite.schedule is None or suite.schedule in text)
    assert all(f"- `{choice.experiment}`: " in text for choice in suite.experiments)
