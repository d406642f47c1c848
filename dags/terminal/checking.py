"""`barograph check`: all that can be said of an experiment before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dags import money
from dags.checks import check, remarks
from dags.experiment import load, names
from dags.request import requested
from dags.sources.prepare import prepare as prepare_code
from dags.sources.refs import resolved
from dags.terminal.box import require_fit_box
from dags.terminal.run import money_lines


def for_this_box(changes: Mapping[str, Any], say: Callable[[str], None]) -> tuple[str, ...]:
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
    experiment = resolved(requested(load(name), changes))
    if experiment.testbed.name == "local":
        require_fit_box(say)
    check(experiment)
    prepare_code(experiment, say, pack=False)
    where = "here" if experiment.testbed.name == "local" else f"on {experiment.testbed.name}"
    say(f"{name}: can run {where} ({'; '.join(remarks(experiment))})")
    for line in money_lines(money.foreseen(experiment, new=False)):
        say(line)
