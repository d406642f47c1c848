"""A testbed `fake` and a Storm on it, in memory, with faults by name: the harness without machines, in no time.

`add_testbed` and `add_context` add them to the product's dicts. tests/conftest.py calls both for the tests' own
process, and `site/` for every Python that has it on PYTHONPATH, as those have that tests start.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barograph.run.context import SeriesContext
    from barograph.series.series import Series

NAME = "fake"


def add_testbed() -> None:
    import inventory
    from tests.support.fakes.testbed import FakeTestbed

    inventory.TESTBEDS[NAME] = FakeTestbed


def add_context() -> None:
    from barograph.run import context

    context.CONTEXTS[NAME] = fake_context


def fake_context(series: Series) -> SeriesContext:
    import time

    from barograph.machines import holdings
    from barograph.run.context import SeriesContext, machine_supply
    from barograph.run.monitor import steady_test
    from barograph.run.simulation import SimulatedClock
    from barograph.series.progress import ProgressFile
    from barograph.settings import simulated_pace
    from tests.support.fakes.storm import FakeStorm

    experiment = series.experiment
    clock = SimulatedClock(time.time(), pace=simulated_pace())
    topologies = tuple(each.name for each in experiment.every_topology())
    storm = FakeStorm(
        clock,
        experiment.starting(),
        experiment.workers(),
        topologies,
        experiment.testbed.joining,
        machine_supply(series),
    )
    covered = partial(holdings.require_covered, series)
    return SeriesContext(experiment, storm, storm, clock, ProgressFile(series.folder), steady_test, covered)


def modules_of_children() -> str:
    """Return a PYTHONPATH with which a Python process has the fake testbed, too."""
    repository = Path(__file__).parents[3]
    site = Path(__file__).parent / "site"
    return os.pathsep.join(filter(None, (str(site), str(repository), os.environ.get("PYTHONPATH"))))
