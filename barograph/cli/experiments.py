"""`barograph list`: the experiments with their variants, and how many series each has here."""

from __future__ import annotations

import argparse

from analysis.record.simulated import is_simulated_series
from barograph.cli.terminal import say
from barograph.plan.experiment import load, names
from barograph.series.results import results
from barograph.settings import results_root


def add_arguments(_list: argparse.ArgumentParser) -> None:
    """None."""


def execute(_options: argparse.Namespace) -> int:
    results().refresh()
    for name in names():
        experiment = load(name)
        folders = [path.parent for path in (results_root() / name).glob("*/series.json")]
        simulated = sum(map(is_simulated_series, folders))
        here = f"{len(folders)} series here{f', {simulated} of them simulated' if simulated else ''}"
        variants = ", ".join(variant.name for variant in experiment.variants)
        say(f"{name}: {experiment.title} ({variants}; {experiment.repetitions} repetitions; {here})")
    return 0
