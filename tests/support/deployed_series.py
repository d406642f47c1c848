"""A series on machines with Storm, without Airflow: for tests and measurements that do its runs themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barograph.campaign.steps import deploy
from barograph.code.git import resolve_experiment
from barograph.machines.provision import open_checked, provision, release
from barograph.machines.reaper import require_all_released, sweep
from barograph.plan.experiment import Experiment
from barograph.series.series import Series
from barograph.testbeds.checks import check


@contextmanager
def deployed(experiment: Experiment) -> Iterator[Series]:
    """Open a new series, acquire its machines and deploy; they are given back, whatever happens in the block."""
    require_all_released(sweep(dry_run=False, only=(experiment.testbed.name,)))
    experiment = resolve_experiment(experiment)
    check(experiment)
    series = open_checked(experiment, new=True)
    provision(series.folder)
    try:
        deploy(series.folder)
        yield series
    finally:
        release(series.folder)
