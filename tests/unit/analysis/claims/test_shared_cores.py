"""The fluid model of components that burn CPU (`bench.simulator.shared_cores`)."""

import pytest

from analysis.claims import capacity
from barograph.plan.experiment import load
from bench.simulator.shared_cores import Running, _level, outcomes, rates, waiting_shape


@pytest.mark.parametrize(
    ("wanted", "cores", "level"),
    [([0.1, 0.1], 0.5, 1.0), ([0.4, 0.4], 0.6, 0.3), ([0.1, 0.9, 0.9], 0.7, 0.3), ([3.0], 2.0, 1.0), ([], 0.5, 1.0)],
)
def test_who_wants_less_leaves_the_rest_to_the_others(wanted: list[float], cores: float, level: float) -> None:
    assert _level(wanted, cores) == pytest.approx(level)


def test_with_cores_enough_it_is_the_closed_form() -> None:
    experiment = load("stela/processing")
    shape = waiting_shape(experiment, experiment.variants[0])
    running = [
        Running(each.name, tasks, f"{each.name}-{place}")
        for each in shape.components
        for place, tasks in enumerate([each.tasks // each.executors] * each.executors)
    ]
    found = rates(shape, running, {each.machine: 8.0 for each in running}, overhead_ms=0.0)
    closed = capacity.component_rates(shape, shape.initial)
    assert found.served == pytest.approx({name: rate.served for name, rate in closed.items()})


def test_two_executors_that_share_a_core_do_half_each() -> None:
    experiment = load("stela/star")
    shape = waiting_shape(experiment, experiment.variants[0])
    free = [Running(each.name, each.tasks, each.name) for each in shape.components if each.name != "centre"]
    alone, together = (
        rates(shape, [*free, *(Running("centre", 2, machine) for machine in machines)],
              {"a": 1.0, "b": 1.0} | {each.machine: 1.0 for each in free}, overhead_ms=0.0)
        for machines in (("a", "b"), ("a", "a"))
    )  # fmt: skip
    assert together.served["centre"] == pytest.approx(alone.served["centre"] / 2)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("cost_models/processing_busy", {"even_rebalance": -25, "stela": 29, "least_link_load": 1}),
        ("cost_models/page_load_busy", {"even_rebalance": -2, "stela": 19, "least_link_load": 0}),
        ("cost_models/page_load_scale_in_busy", {"stela": -25, "random_1": 26, "random_2": 26}),
        (
            "cost_models/linear_strategies_busy",
            {"least_link_load": -24, "most_link_load": -25, "most_link_load_mean": 3, "centrality": 2},
        ),
    ],
)
def test_the_experiments_comments_say_what_it_gives(name: str, changes: dict[str, float]) -> None:
    found = {each.variant: each.change_percent for each in outcomes(load(name), left=0.88, overhead_ms=0.15)}
    assert {variant: found[variant] for variant in changes} == pytest.approx(changes, abs=1.5)
