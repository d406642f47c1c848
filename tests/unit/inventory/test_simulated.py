"""The simulated testbed's options: what is wrong is said by field, value and what is allowed."""

import pytest

from analysis.metrics.steadiness import WINDOW_S
from barograph.errors import ConfigurationError
from inventory import TESTBEDS
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.service.samples import SAMPLE_LENGTHS_S
from scheduler_plugins.simulator.work import Costs


def test_costs_are_laid_over_those_that_were_fitted() -> None:
    testbed = SimulatedTestbed({"seed": 3, "costs": {"hop_ms": 2.5, "noise": 0}})
    assert testbed.options.seed == 3
    assert (testbed.costs.hop_ms, testbed.costs.noise, testbed.costs.receive_ms) == (2.5, 0, Costs().receive_ms)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"costs": {"hops": 1.0}}, "testbed.options.simulated.costs: 'hops' is unknown; known are fetch_s"),
        (
            {"costs": {"hop_ms": -1.0}},
            "testbed.options.simulated.costs: hop_ms is -1.0; allowed is a number, 0 or above",
        ),
        ({"seed": -1}, "testbed.options.simulated.seed is -1: Input should be greater than or equal to 0"),
        ({"sample_s": 30}, "testbed.options.simulated.sample_s is 30: Input should be 1, 2, 5 or 10"),
        (
            {"step": 1},
            "testbed.options.simulated.step is not known; known are seed, step_s, sample_s, look_s, round_s, boot_s",
        ),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SimulatedTestbed(options)
    assert str(refused.value).startswith(said)


def test_a_line_is_a_whole_part_of_a_window() -> None:
    assert [SimulatedTestbed({"sample_s": each}).options.sample_s for each in SAMPLE_LENGTHS_S] == [*SAMPLE_LENGTHS_S]
    assert all(WINDOW_S % each == 0 for each in SAMPLE_LENGTHS_S)


@pytest.mark.parametrize("name", ["local", "ec2"])
def test_machines_write_once_a_second_whatever_is_asked_for(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}.* workers and probes on machines write"):
        TESTBEDS[name](options={"sample_s": 10})
