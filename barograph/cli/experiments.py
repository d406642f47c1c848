"""`barograph list`, `check` and `setup`: which experiments there are, whether they can run here and what they cost, and
every part that they need, built."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from analysis import java
from analysis.record.simulated import is_simulated_series
from barograph.airflow_environment import prepare as prepare_airflow
from barograph.cli.arguments import add_changes, changes_of
from barograph.cli.preparation import all_remarks, require_fit_box, software_parts
from barograph.cli.run import select_experiments
from barograph.cli.sql import as_table
from barograph.cli.terminal import say
from barograph.code.git import resolve_experiment
from barograph.errors import EXIT_CODES, ExperimentError, Say, blame_of, message_of
from barograph.machines import holdings
from barograph.machines.provision import cost_remarks
from barograph.plan.experiment import load, names, with_changes
from barograph.plan.keys import Key, key_tables
from barograph.series.results import results
from barograph.series.variant_code import prepare_code
from barograph.settings import airflow_home, results_root
from barograph.testbeds.checks import check, claim_notes, place_of


def add_list_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--keys", nargs="?", const="", metavar="PART",
        help="show every key of an experiment's file, or those of the parts with PART in their name, such as crash",
    )  # fmt: skip


def execute_list(options: argparse.Namespace) -> int:
    if options.keys is not None:
        say("\n".join(key_lines(options.keys)))
        return 0
    results().refresh()
    for name in names():
        experiment = load(name)
        folders = [path.parent for path in (results_root() / name).glob("*/series.json")]
        simulations = sum(map(is_simulated_series, folders))
        counts = f"{len(folders)} series here{f', {simulations} of them simulated' if simulations else ''}"
        variants = ", ".join(variant.name for variant in experiment.variants)
        say(f"{name}: {experiment.title} ({variants}; {experiment.repetitions} repetitions; {counts})")
    return 0


def key_lines(part: str) -> Iterator[str]:
    """Yield the keys of each part of an experiment's file that has `part` in its name. Raises ExperimentError."""
    tables = key_tables()
    selection = {title: table for title, table in tables.items() if part in title}
    if not selection:
        raise ExperimentError(f"no keys of {part!r}; there are {', '.join(tables)}")
    for title, (purpose, keys) in selection.items():
        yield f"{title}: {purpose}"
        yield from (f"  {line.rstrip()}" for line in as_table(Key._fields, iter(keys), widest=sys.maxsize))
        yield ""


def add_check_arguments(check: argparse.ArgumentParser) -> None:
    check.add_argument(
        "experiment", nargs="*", help="family/name or a quoted glob; without one, all that run on this machine"
    )
    add_changes(check)


def execute_check(options: argparse.Namespace) -> int:
    changes = changes_of(options)
    selected = select_experiments(options.experiment) if options.experiment else experiments_of_this_box(changes, say)
    if len(selected) == 1:
        check_one(selected[0], changes, say)
        return 0
    return max((_check_of_many(name, changes) for name in selected), default=0)


def _check_of_many(name: str, changes: Mapping[str, Any]) -> int:
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
        require_fit_box()
    java.require()
    check(experiment)
    prepare_code(experiment, say, pack=False)
    where = "here" if is_local else f"on {experiment.testbed.name}"
    say(f"{name}: can run {where} ({'; '.join(all_remarks(experiment))})")
    for note in claim_notes(experiment):
        say(f"note: {note}")
    for line in cost_remarks(holdings.estimate_cost(experiment, new=False)):
        say(line)


def add_setup_arguments(_setup: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def execute_setup(_options: argparse.Namespace) -> int:
    require_fit_box()
    whole_s = time.monotonic()
    parts = [*software_parts().items(), ("Airflow's database", lambda _: prepare_airflow(airflow_home()))]
    for name, make in parts:
        begin_s = time.monotonic()
        make(say)
        say(f"{name}: {time.monotonic() - begin_s:.1f} s")
    say(f"ready in {time.monotonic() - whole_s:.1f} s")
    return 0
