"""`barograph check`: check whether an experiment can run, and estimate its cost, without starting anything."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from analysis import java
from barograph.cli.arguments import add_changes, changes_of
from barograph.cli.preparation import all_remarks, require_fit_box
from barograph.cli.run import select_experiments
from barograph.cli.terminal import say
from barograph.code.git import resolve_experiment
from barograph.errors import EXIT_CODES, Say, blame_of, message_of
from barograph.machines import holdings
from barograph.machines.provision import cost_remarks
from barograph.plan.experiment import load, names, with_changes
from barograph.series.variant_code import prepare_code
from barograph.testbeds.checks import check, claim_notes, place_of


def add_arguments(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "experiment", nargs="*", help="family/name or a quoted glob; without one, all that run on this machine"
    )
    add_changes(check)


def execute(options: argparse.Namespace) -> int:
    changes = changes_of(options)
    selected = select_experiments(options.experiment) if options.experiment else experiments_of_this_box(changes, say)
    if len(selected) == 1:
        check_one(selected[0], changes, say)
        return 0
    return max((_check_of_many(name, changes) for name in selected), default=0)


def _check_of_many(name: str, changes: Mapping[str, Any]) -> int:
    """Check several experiments and return the exit code of one failure; the others are still checked."""
    try:
        check_one(name, changes, say)
    except Exception as error:
        blame = blame_of(error)
        if blame == "harness":
            raise
        say(f"{name}: cannot run: {blame.replace('_', ' ')}: {message_of(error)}")
        return EXIT_CODES[blame]
    return 0


def experiments_of_this_box(changes: Mapping[str, Any], say: Say) -> tuple[str, ...]:
    """Return all experiments that ship; those that rent machines only where a testbed is named, as not everybody has an
    account."""
    if changes.get("testbed"):
        return names()
    testbeds = {name: load(name).testbed for name in names()}
    for name, testbed in testbeds.items():
        if place_of(testbed) == "elsewhere":
            say(f"{name}: is for {testbed.name}; barograph check {name} asks there")
    return tuple(name for name, testbed in testbeds.items() if place_of(testbed) != "elsewhere")


def check_one(name: str, changes: Mapping[str, Any], say: Say) -> None:
    """Print remarks on the experiment. Raises the first error that prevents it from running."""
    experiment = resolve_experiment(with_changes(load(name), changes))
    is_local = place_of(experiment.testbed) == "this_box"
    if is_local:
        require_fit_box(say)
    java.require()
    check(experiment)
    prepare_code(experiment, say, pack=False)
    where = "here" if is_local else f"on {experiment.testbed.name}"
    say(f"{name}: can run {where} ({'; '.join(all_remarks(experiment))})")
    for note in claim_notes(experiment):
        say(f"note: {note}")
    for line in cost_remarks(holdings.estimate_cost(experiment, new=False)):
        say(line)
