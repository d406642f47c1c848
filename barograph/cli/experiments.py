"""`barograph list`: the experiments with their variants, and how many series each has here."""

from __future__ import annotations

import argparse

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
        count = len(list((results_root() / name).glob("*/series.json")))
        variants = ", ".join(variant.name for variant in experiment.variants)
        say(f"{name}: {experiment.title} ({variants}; {experiment.repetitions} repetitions; {count} series here)")
    return 0
