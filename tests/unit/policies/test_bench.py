from __future__ import annotations

from random import Random

from scheduler_plugins.bench import layers
from scheduler_plugins.policies.assignment import assign
from scheduler_plugins.policies.stela import Parameters
from tests.unit.policies import stela_reference as reference


def test_the_graph_that_is_timed_gives_every_executor_out_and_the_papers_answer() -> None:
    shape = layers(120, 0.1, Random(1))
    grown = assign(shape, 12, Parameters())
    assert sum(count - 2 for count in grown.values()) == 12
    assert grown == reference.assign(shape, 12, Parameters())
