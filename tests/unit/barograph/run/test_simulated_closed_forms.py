"""Throughput of whole layouts in the simulator beside closed forms, before and after what policies decide: components
that burn CPU and share cores (`bench.simulator.shared_cores`), and components that wait."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from barograph.plan.experiment import load
from barograph.plan.simulation import simulated_topology
from bench.simulator.shared_cores import LEFT, OVERHEAD_MS, Layout, layouts, outcomes, waiting_shape
from inventory.machines import machine_type
from scheduler_plugins.simulator.work import MachineSize
from scheduler_plugins.simulator.world import Assignment, Sample, World
from tests.support.worlds import FREE
from topologies import catalogue

BUSY = ("processing_busy", "page_load_busy", "page_load_scale_in_busy")
VARIANTS = [(f"cost_models/{name}", n) for name in BUSY for n in range(3)]
WAITING = [("stela/page_load_scale_in", n) for n in range(3)]
BEGIN_S, END_S = 60.0, 160.0  # of what is measured


@cache
def laid_out(name: str, variant: int, is_busy: bool) -> tuple[Layout, Layout]:
    """Where components wait, cores are as good as without a limit."""
    experiment = load(name)
    return layouts(experiment, experiment.variants[variant], 1.0 if is_busy else 1e3, 0.0)


def simulated(name: str, variant: int, layout: Layout) -> dict[str, float]:
    """Tuples/s that each component executes once it is at rest."""
    experiment = load(name)
    chosen = experiment.topologies_of(experiment.variants[variant])[0]
    _, work = simulated_topology(catalogue.render(chosen.name, chosen.parameters, chosen.overrides), "x-1")
    work = replace(work, components=tuple(replace(each, buffer=math.inf) for each in work.components))
    cores = machine_type(experiment.testbed.machine_type).cores * experiment.testbed.scale
    machines = {slot.machine for slot in layout.placement.values()}
    world = World([MachineSize(machine, cores) for machine in sorted(machines)], FREE, 0.0)
    world.submit("x-1", work)
    world.assign("x-1", Assignment(layout.sizes, layout.placement))
    executed: dict[str, float] = {}

    def take(sample: Sample) -> None:
        if sample.begin >= BEGIN_S:
            for row, (_, component) in enumerate(sample.layout.components):
                part = slice(int(sample.layout.begins[row]), int(sample.layout.begins[row + 1]))
                mine = float(sample.counters.executed[part].sum())
                executed[component.work.name] = executed.get(component.work.name, 0.0) + mine

    world.advance(END_S, take)
    return {name: tuples / (END_S - BEGIN_S) for name, tuples in executed.items()}


@pytest.mark.parametrize("when", [0, 1], ids=["before", "after"])
@pytest.mark.parametrize(("name", "variant"), [*VARIANTS, *WAITING])
def test_a_layout_does_what_its_closed_form_does(name: str, variant: int, when: int) -> None:
    layout = laid_out(name, variant, name.endswith("busy"))[when]
    found = simulated(name, variant, layout)
    sinks = waiting_shape(load(name), load(name).variants[variant]).sinks
    for component in (*sinks, "transform"):
        assert found[component] == pytest.approx(layout.found.served[component], rel=0.02), component


def change_percent(name: str, variant: int) -> float:
    sinks = waiting_shape(load(name), load(name).variants[variant]).sinks
    before, after = laid_out(name, variant, name.endswith("busy"))
    first, then = (sum(simulated(name, variant, each)[sink] for sink in sinks) for each in (before, after))
    return 100 * (then / first - 1)


def test_who_waits_loses_nothing_by_a_scale_in() -> None:
    """S12: 105 executors that wait, on four machines in place of eight."""
    for variant in range(3):
        assert change_percent("stela/page_load_scale_in", variant) == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("name", BUSY)
def test_what_policies_do_to_components_that_burn_cpu_is_what_was_reckoned(name: str) -> None:
    """What changes a lot does so by as much, to 5 points, and what hardly changes does not."""
    reckoned = [each.change_percent for each in outcomes(load(f"cost_models/{name}"), LEFT, OVERHEAD_MS)]
    for variant, percent in enumerate(reckoned):
        found, points = change_percent(f"cost_models/{name}", variant), 5.0 if abs(percent) > 8.0 else 2.0
        assert found == pytest.approx(percent, abs=points)
