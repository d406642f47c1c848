"""`barograph report`: analyse series again from their raw records, or write the index of all results anew;
`barograph read`: turn logs from elsewhere into a series for it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from analysis import session
from analysis.compare.question import is_comparison
from barograph.cli import explain
from barograph.cli.arguments import add_testbed_choice, key_value, yaml_value
from barograph.cli.claims import show_claims
from barograph.cli.compare import show_comparison
from barograph.cli.execution import headline
from barograph.cli.terminal import say, signals_as_interrupt, stdout_console
from barograph.errors import ExperimentError, worst_exit
from barograph.series.interruption import StepHung, limited
from barograph.series.results import analyse_again, finish, one_session, results, write_index
from barograph.series.series import find_all_series
from barograph.settings import results_root


def add_report_arguments(report: argparse.ArgumentParser) -> None:
    add = report.add_argument
    add("series", nargs="*",
        help="a series' folder or id, an experiment for its newest, or a pattern: 'stela/*' is the newest"
        " series of each such experiment, 'stela/star/*' each of that one; one Spark session does all")  # fmt: skip
    add_testbed_choice(report)
    add("--index", action="store_true", help="write only index.html, the index of all results")


def execute_report(options: argparse.Namespace) -> int:
    if options.index or not options.series:
        if options.series or not options.index:
            problem = "a series and --index" if options.index else "neither a series nor --index"
            raise ExperimentError(
                f"report has {problem}; give a series to analyse it again, or --index alone for the index"
            )
        results().require()
        with limited("report"):
            say(f"index: {write_index()}")
        return 0
    matches = [folder for name in options.series for folder in find_all_series(name, options.testbed, say)]
    folders = list(dict.fromkeys(matches))
    if len(folders) == 1:
        with signals_as_interrupt(), limited("analyse"):
            path = analyse_again(folders[0], say)
        console = stdout_console()
        show_claims(folders[0], console)
        if comparison := is_comparison(folders[0]):
            show_comparison(folders[0], console)
        say(f"report: {path}")
        if not comparison and (answer := headline(folders[0])):
            say(answer)
        return 0
    return report_all(folders)


def report_all(folders: Sequence[Path]) -> int:
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


def add_read_arguments(read: argparse.ArgumentParser) -> None:
    add = read.add_argument
    add("format", metavar="FORMAT", help="storm_metrics, stela_statistics or henge (docs/records.md)")
    add("files", nargs="+", metavar="FILE", help="the logs, one run or several in each")
    add("--name", required=True, metavar="FAMILY/NAME", help="the experiment that the series is of")
    add("--option", type=key_value, action="append", default=[], metavar="KEY=VALUE", help="of the format")


def execute_read(options: argparse.Namespace) -> int:
    from analysis.ingest.readers import read as read_logs  # needs Spark

    of_files = {key: yaml_value(value) for key, value in options.option}
    files = [Path(file) for file in options.files]
    results().require()
    series_dir = read_logs(options.format, files, results_root(), name=options.name, options=of_files, say=say)
    results().begin(series_dir)
    finish(series_dir, say)
    say(f"series: {series_dir}")
    say(f"to analyse it: barograph report {series_dir}")
    return 0
