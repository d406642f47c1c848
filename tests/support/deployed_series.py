"""A series on machines with Storm, without Airflow: for tests and measurements that do its runs themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from barograph.code.refs import resolve_experiment
from barograph.machines.provision import provision, release, require_free_testbed
from barograph.machines.reaper import require_all_released, sweep
from barograph.plan.checks import check
from barograph.plan.experiment import Experiment
from barograph.series.series import Series, open_series
from barograph.series.variant_code import prepare_code
from barograph.series_steps import deploy

log = logging.getLogger(__name__)


@contextmanager
def deployed(experiment: Experiment) -> Iterator[Series]:
    """Open a new series, acquire its machines and deploy; they are given back, whatever happens in the block."""
    require_all_released(sweep(dry_run=False, only=(experiment.testbed.name,)))
    experiment = resolve_experiment(experiment)
    check(experiment)
    require_free_testbed(experiment)
    prepare_code(experiment, log.info)
    series = open_series(experiment, new=True)
    provision(series.folder)
    try:
        deploy(series.folder)
        yield series
    finally:
        release(series.folder)
