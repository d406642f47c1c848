"""`barograph check`: everything that can be said of an experiment before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barograph.cli.run import all_remarks, cost_remarks, require_fit_box
from barograph.code.refs import resolve_experiment
from barograph.machines import holdings
from barograph.plan.checks import check
from barograph.plan.experiment import load, names, with_changes
from barograph.series.variant_code import prepare_code


def experiments_of_this_box(changes: Mapping[str, Any], say: Callable[[str], None]) -> tuple[str, ...]:
    """All that ship; those that would rent machines only where a testbed is named: not everybody has an account."""
    if changes.get("testbed"):
        return names()
    testbeds = {name: load(name).testbed.name for name in names()}
    for name, testbed in testbeds.items():
        if testbed != "local":
            say(f"{name}: is for {testbed}; barograph check {name} asks there")
    return tuple(name for name, testbed in testbeds.items() if testbed == "local")


def check_one(name: str, changes: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Raises what is wrong, with its blame."""
    experiment = resolve_experiment(with_changes(load(name), changes))
    if experiment.testbed.name == "local":
        require_fit_box(say)
    check(experiment)
    prepare_code(experiment, say, pack=False)
    where = "here" if experiment.testbed.name == "local" else f"on {experiment.testbed.name}"
    say(f"{name}: can run {where} ({'; '.join(all_remarks(experiment))})")
    for line in cost_remarks(holdings.estimate_cost(experiment, new=False)):
        say(line)
