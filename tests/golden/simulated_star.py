"""A simulated star: the raw lines of a series, as `barograph run stela/star --testbed simulated` leaves them."""

from dataclasses import replace
from pathlib import Path

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.plan.experiment import load
from barograph.run.context import context_in_memory
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.run.simulation import SimulatedClock
from barograph.series.series import open_series
from inventory.simulated import SimulatedTestbed


def simulate(root: Path, **options: object) -> Path:
    """A series of one block; its folder."""
    star = load("stela/star")
    experiment = replace(star, testbed=replace(star.testbed, name="simulated"), repetitions=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_RESULTS", str(root / "results"))
        series = open_series(experiment, new=True)
    testbed, clock = SimulatedTestbed(options), SimulatedClock()
    cluster = SimulatedCluster(experiment, testbed, clock, root / "cluster")
    context = context_in_memory(experiment, cluster, clock, testbed.options.look_s)
    while attempt_next_run(series, context):
        continue
    return series.folder
