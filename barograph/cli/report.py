"""`barograph report`: analyse a series again from its raw records, or write the index of all results anew."""

from __future__ import annotations

import argparse

from barograph.cli.claims import show_claims
from barograph.cli.compare import show_comparison
from barograph.cli.dag_process import limited, signals_as_interrupt
from barograph.cli.execution import headline
from barograph.cli.terminal import say, stdout_console
from barograph.compare.record import is_comparison
from barograph.errors import ExperimentError
from barograph.series.results import analyse_again, results, write_index
from barograph.series.series import find_series


def add_arguments(report: argparse.ArgumentParser) -> None:
    report.add_argument("series", nargs="?", help="the series' folder or id, or an experiment for its newest")
    report.add_argument("--index", action="store_true", help="write only index.html, the index of all results")


def execute(options: argparse.Namespace) -> int:
    if options.index or options.series is None:
        return _index(options)
    series_dir = find_series(options.series)
    with signals_as_interrupt(), limited("analyse"):
        path = analyse_again(series_dir, say)
    console = stdout_console()
    show_claims(series_dir, console)
    if comparison := is_comparison(series_dir):
        show_comparison(series_dir, console)
    say(f"report: {path}")
    if not comparison and (answer := headline(series_dir)):
        say(answer)
    return 0


def _index(options: argparse.Namespace) -> int:
    if options.series is not None or not options.index:
        problem = "a series and --index" if options.index else "neither a series nor --index"
        raise ExperimentError(
            f"report has {problem}; give a series to analyse it again, or --index alone for the index"
        )
    results().require()
    with limited("report"):
        say(f"index: {write_index()}")
    return 0
