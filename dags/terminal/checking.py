"""`barograph check`: all that can be said of an experiment before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dags import money
from dags.checks import check, remarks
from dags.experiment import load
from dags.request import requested
from dags.terminal.box import require_fit_box
from dags.terminal.run import money_lines


def check_one(name: str, changes: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Raises what is wrong, with its blame."""
    experiment = requested(load(name), changes)
    if experiment.testbed.name == "local":
        require_fit_box(say)
    check(experiment)
    where = "here" if experiment.testbed.name == "local" else f"on {experiment.testbed.name}"
    say(f"{name}: can run {where} ({'; '.join(remarks(experiment))})")
    for line in money_lines(money.foreseen(experiment, new=False)):
        say(line)
