"""Open a series that can be run, from a form, a command or a night: checked, on a free testbed, priced and built."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from barograph.code.refs import resolve_experiment
from barograph.errors import Say
from barograph.machines import holdings
from barograph.machines.provision import release_own, require_free_testbed
from barograph.machines.reaper import health_warning
from barograph.plan.experiment import Experiment, load, with_changes
from barograph.series.series import Series, open_series, series_of_dag_run
from barograph.series.variant_code import prepare_code
from barograph.testbeds.checks import check
from barograph.testbeds.costs import Cost, cost_lines

log = logging.getLogger(__name__)


def open_requested(name: str, changes: Mapping[str, Any], *, new: bool, again: bool = False) -> Path:
    """Validate the request and open its series. Nothing is started."""
    experiment = resolve_experiment(with_changes(load(name), changes))
    check(experiment)
    return open_checked(experiment, new=new, again=again).folder


def open_checked(
    experiment: Experiment,
    *,
    new: bool,
    again: bool = False,
    rebuild: bool = False,
    before_open: Callable[[], None] = lambda: None,
    build: Callable[[], None] = lambda: None,
    say: Say = log.info,
) -> Series:
    """Open a series of an experiment that `check` accepted. No machine is touched.

    `again`: a task that has opened it is repeated. `before_open` runs once the testbed is known to be free, and before
    the remaining runs are counted and priced. `build` builds what the runs need beside the code of variants; `rebuild`:
    that code is built again, even if it failed before.
    """
    new = not (again and _release_repeated(experiment)) and new
    require_free_testbed(experiment)
    before_open()
    cost = holdings.estimate_cost(experiment, new=new)
    for line in cost_remarks(cost):
        say(line)
    build()
    prepare_code(experiment, say, rebuild=rebuild)
    return open_series(experiment, new=new, again=again, estimate=cost.as_data() if cost else None)


def _release_repeated(experiment: Experiment) -> bool:
    """Return whether this DAG run has opened a series of this request before, which has no machines any more: it would
    wait for itself.
    """
    repeated = series_of_dag_run(experiment)
    if repeated is not None:
        release_own(repeated.folder)
    return repeated is not None


def cost_remarks(cost: Cost | None) -> list[str]:
    """Return what it may cost, and whether the reaper runs; nothing where machines cost nothing."""
    if cost is None:
        return []
    warning = health_warning(time.time())
    return [*cost_lines(cost), *([warning] if warning else [])]
