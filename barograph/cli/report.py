"""`barograph report`: analyse series again from their raw records, or write the index of all results anew."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from analysis import session
from analysis.compare.question import is_comparison
from barograph.cli import explain
from barograph.cli.arguments import add_testbed_choice
from barograph.cli.claims import show_claims
from barograph.cli.compare import show_comparison
from barograph.cli.execution import headline
from barograph.cli.signals import signals_as_interrupt
from barograph.cli.terminal import say, stdout_console
from barograph.errors import ExperimentError, worst_exit
from barograph.series.interruption import StepHung, limited
from barograph.series.results import analyse_again, one_session, results, write_index
from barograph.series.series import find_all_series


def add_arguments(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "series",
        nargs="*",
        help="a series' folder or id, an experiment for its newest, or a pattern: 'stela/*' is the newest series of"
        " each such experiment, 'stela/star/*' each of that one; one Spark session does all",
    )
    add_testbed_choice(report)
    report.add_argument("--index", action="store_true", help="write only index.html, the index of all results")


def execute(options: argparse.Namespace) -> int:
    if options.index or not options.series:
        return _index(options)
    matches = [folder for name in options.series for folder in find_all_series(name, options.testbed, say)]
    folders = list(dict.fromkeys(matches))
    if len(folders) == 1:
        with signals_as_interrupt(), limited("analyse"):
            path = analyse_again(folders[0], say)
        _show(folders[0], path)
        return 0
    return _report_all(folders)


def _report_all(folders: Sequence[Path]) -> int:
    """Report each series even if another fails. Returns the worst exit code, or that of the error that ended Spark for
    all."""
    codes = [0]
    with signals_as_interrupt(), ExitStack() as stack:
        with limited("analyse"):
            stack.enter_context(one_session(folders, say))
        for number, folder in enumerate(folders, start=1):
            say(f"{number} of {len(folders)}: {folder}")
            try:
                with limited("analyse"):
                    path = analyse_again(folder, say)
            except Exception as error:  # the next series may not fail
                if isinstance(error, StepHung) or not session.is_alive():
                    remainder = ", ".join(str(each) for each in folders[number:]) or "none"
                    say(f"ended at {folder}; not analysed: {remainder}")
                    raise
                codes.append(explain(error))
            else:
                say(f"report: {path}")
        with limited("analyse"):
            stack.close()
    return worst_exit(codes)


def _show(series_dir: Path, path: Path) -> None:
    console = stdout_console()
    show_claims(series_dir, console)
    if comparison := is_comparison(series_dir):
        show_comparison(series_dir, console)
    say(f"report: {path}")
    if not comparison and (answer := headline(series_dir)):
        say(answer)


def _index(options: argparse.Namespace) -> int:
    if options.series or not options.index:
        problem = "a series and --index" if options.index else "neither a series nor --index"
        raise ExperimentError(
            f"report has {problem}; give a series to analyse it again, or --index alone for the index"
        )
    results().require()
    with limited("report"):
        say(f"index: {write_index()}")
    return 0
