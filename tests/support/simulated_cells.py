"""Cells of a campaign, simulated as commands do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from barograph.campaign.simulation import SimulationFailure, missing_runs, open_cell, simulate_cells, simulation_pool
from barograph.plan.experiment import Experiment
from barograph.pool import cores
from barograph.run.simulated_cluster import SimulatedCluster


def failures(
    experiments: dict[Path, Experiment], new_cluster: Callable[..., SimulatedCluster] = SimulatedCluster
) -> dict[Path, Sequence[SimulationFailure]]:
    """What failed in the folder of each experiment."""
    cells = {folder: missing_runs(open_cell(folder, each, {}), new_cluster) for folder, each in experiments.items()}
    found: dict[Path, Sequence[SimulationFailure]] = {}
    with simulation_pool(cores()) as pool:
        simulate_cells(pool, cells, found.__setitem__)
    return found
