"""`barograph list`: the experiments with their variants and series, or the keys of an experiment's file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from analysis.record.simulated import is_simulated_series
from barograph.cli.terminal import say
from barograph.errors import ExperimentError
from barograph.plan.experiment import load, names
from barograph.series.results import results
from barograph.settings import results_root


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--keys", nargs="?", const="", metavar="PART",
        help="show every key of an experiment's file, or those of the parts with PART in their name, such as crash",
    )  # fmt: skip


def execute(options: argparse.Namespace) -> int:
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
    from barograph.cli.sql import as_table
    from barograph.plan.keys import Key, key_tables

    tables = key_tables()
    selection = {title: table for title, table in tables.items() if part in title}
    if not selection:
        raise ExperimentError(f"no keys of {part!r}; there are {', '.join(tables)}")
    for title, (purpose, keys) in selection.items():
        yield f"{title}: {purpose}"
        yield from (f"  {line.rstrip()}" for line in as_table(Key._fields, iter(keys), widest=sys.maxsize))
        yield ""
