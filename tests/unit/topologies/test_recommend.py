"""The topology recommend: what it costs and passes on, and what it can do in the model."""

import pytest

from barograph.plan.simulation import simulated_topology
from tests.support.worlds import Totals, world_of
from topologies import catalogue, work


def test_a_rating_costs_what_the_file_says() -> None:
    recommend = work.topology_work(catalogue.render("recommend"))
    lengths = {name: work.mean(each) for name, each in recommend.lengths.items()}
    assert lengths == pytest.approx({"ratings": 40.25, "history": 8, "similar": 8, "output": 160})
    history, similar, output = (recommend.component(name) for name in ("history", "similar", "output"))
    assert history.passes == pytest.approx(2 * 0.56 * 50)
    cost_ms = 8 * history.ms_per_character + history.passes * (
        8 * similar.ms_per_character + 160 * output.ms_per_character
    )
    assert cost_ms == pytest.approx(11.6, abs=0.05)
    assert recommend.sent_bytes("similar") == pytest.approx(160 + work.LINE_BYTES)


def test_throughput_follows_the_input_until_pairs_take_all_cpu() -> None:
    """Four machines of a core: 4000 / 11.6 = 346 ratings a second."""
    for rate, done in ((98, 98), (850, 346)):
        _, recommend = simulated_topology(
            catalogue.render("recommend", {"rate_per_s": float(rate)}, {"executors": {"ratings": 4, "output": 4}}),
            "x-1",
        )
        world, totals = world_of(recommend, machines=4, cores=1.0), Totals()
        world.advance(world.now + 120, totals.take)
        assert totals.rate("history", 1060, 1120) == pytest.approx(done, rel=0.05)
