"""page_load whose aggregators are the limit, beside its closed form: `python -m bench.simulator.page_load_by_theory`.

Five spout executors of 20 tuples/s and two filters that pass 0.8 bring 64 tuples/s to two aggregators. These let
2 / cost pass, so at the sink latency grows by 1 - out / 64 seconds a second. The topology is the catalogue's, and what
becomes of it is what becomes of an experiment's. Texts differ in length, so the simulator's answers differ by seed:
their mean has an interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from barograph.plan.simulation import simulated_topology
from bench.simulator.tuple_by_tuple import BATCHES, Interval, interval_of
from bench.tables import markdown_table
from scheduler_plugins.simulator.work import Costs
from tests.support.worlds import FREE, Totals, world_of
from topologies import catalogue
from topologies.work import mean, topology_work

EXECUTORS = {"spout": 5, "transform": 8, "filter": 8, "join": 4, "filter_2": 8, "aggregate": 2, "sink": 4}
RATE_PER_S = 100.0
AUTHORS_MS = 40.25  # of a tuple at an aggregator: a millisecond a character of what leaves the spout
BEGIN_S, SECONDS = 60.0, 300.0  # what is measured, of the seconds that are simulated


@dataclass(frozen=True)
class Answer:
    """Tuples/s at the sink, and seconds a second by which their latency grows."""

    out_per_s: float
    growth: float


def page_load(ms_per_character: float = 1.0) -> str:
    """Rendered, with so many executors, a task each."""
    parameters = {"rate_per_s": RATE_PER_S, "ms_per_character": ms_per_character}
    return catalogue.render("page_load", parameters, {"workers": 4, "tasks": EXECUTORS, "executors": EXECUTORS})


def page_load_of_authors() -> str:
    """An aggregated tuple takes as long as theirs; transform has made its text a fifth shorter by then."""
    return page_load(AUTHORS_MS / mean(topology_work(page_load()).lengths["aggregate"]))


def by_theory(cost_ms: float) -> Answer:
    """With aggregators that take so long a tuple."""
    out_per_s = EXECUTORS["aggregate"] * 1000 / cost_ms
    return Answer(out_per_s, 1 - out_per_s / (RATE_PER_S * 0.8 * 0.8))


def by_simulator(flux: str, costs: Costs, seed: int) -> Answer:
    _, work = simulated_topology(flux, "x-1")
    world, totals = world_of(work, machines=4, costs=costs, seed=seed, begin_s=0.0), Totals()
    world.advance(SECONDS, totals.take)
    kept = [each for each in totals.samples if each.end > BEGIN_S]
    ages_s = [float(each.counters.latency_s.sum() / each.counters.executed[each.layout.sinks].sum()) for each in kept]
    growth, _ = np.polyfit([each.end for each in kept], ages_s, 1)
    return Answer(totals.rate("sink", BEGIN_S, SECONDS), float(growth))


def intervals(flux: str, costs: Costs) -> tuple[Interval, Interval]:
    """Of both numbers, over seeds."""
    answers = [by_simulator(flux, costs, seed) for seed in range(BATCHES)]
    return interval_of([each.out_per_s for each in answers]), interval_of([each.growth for each in answers])


def main() -> None:
    own_ms = mean(topology_work(page_load()).lengths["aggregate"])
    storm = Costs()
    storm_ms = storm.sleep_slack_ms + storm.receive_ms + storm.local_emit_ms  # of an aggregated tuple
    cases = (
        (f"{AUTHORS_MS:g} ms, as the authors'", page_load_of_authors(), AUTHORS_MS, FREE),
        (f"{own_ms:.2f} ms: 1 ms a character of what transform leaves", page_load(), own_ms, FREE),
        (
            f"{AUTHORS_MS:g} ms and {storm_ms:g} of Storm (its default costs)",
            page_load_of_authors(),
            AUTHORS_MS + storm_ms,
            storm,
        ),
    )
    rows = []
    for name, flux, cost_ms, costs in cases:
        expected, (out, growth) = by_theory(cost_ms), intervals(flux, costs)
        is_inside = out.holds(expected.out_per_s) and growth.holds(expected.growth)
        rows.append([
            name, f"{expected.out_per_s:.1f}", f"{out.mean:.2f} ± {out.half_width:.2f}", f"{expected.growth:.3f}",
            f"{growth.mean:.4f} ± {growth.half_width:.4f}", "yes" if is_inside else "no",
        ])  # fmt: skip
    headings = ["an aggregated tuple takes", "out/s, theory", "simulator", "latency grows, s/s", "simulator", "inside"]
    title = f"page_load, 5 spouts of 20/s, 2 aggregators; {BATCHES} seeds, ± 95 %"
    print(markdown_table(title, headings, rows))


if __name__ == "__main__":
    main()
