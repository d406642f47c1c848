from __future__ import annotations

from random import Random

from bench.speed.stela_decision_time import layered_topology
from scheduler_plugins.policies.stela import StelaParameters, assign_executors
from tests.support import stela_reference as reference


def test_the_graph_that_is_timed_gives_every_executor_out_and_the_papers_answer() -> None:
    shape = layered_topology(120, 0.1, Random(1))
    grown = assign_executors(shape, 12, StelaParameters())
    assert sum(count - 2 for count in grown.values()) == 12
    assert grown == reference.assign(shape, 12, StelaParameters())
