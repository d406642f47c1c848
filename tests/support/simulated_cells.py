"""Cells of a campaign, simulated as commands do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from barograph.campaign.simulation import SimulationFailure, missing_runs, open_cell, simulate_cells
from barograph.campaign.sweep import SweepFolder, link_runs, open_sweep
from barograph.plan.experiment import Experiment
from barograph.plan.sweep import Sweep
from barograph.pool import cores
from barograph.run.simulated_cluster import SimulatedCluster
from tests.support import warm_pool


def failures(
    experiments: dict[Path, Experiment], new_cluster: Callable[..., SimulatedCluster] = SimulatedCluster
) -> dict[Path, Sequence[SimulationFailure]]:
    """What failed in the folder of each experiment."""
    cells = {folder: missing_runs(open_cell(folder, each, {}), new_cluster) for folder, each in experiments.items()}
    found: dict[Path, Sequence[SimulationFailure]] = {}
    with warm_pool.pool(warm_pool.DO, cores()) as pool:
        simulate_cells(pool, cells, found.__setitem__)
    return found


def sweeps(asked: Iterable[Sweep], results: Path) -> list[SweepFolder]:
    """Return the folders of these sweeps below `results`, simulated and not analysed. Every run is complete."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_RESULTS", str(results))
        folders = [open_sweep(each, each.points(), new=True) for each in asked]
    points = [(folder, point) for folder in folders for point in folder.points]
    assert not any(failures({folder.of(point): point.experiment for folder, point in points}).values())
    assert sum(map(link_runs, folders)) == sum(point.runs for _, point in points)
    return folders
