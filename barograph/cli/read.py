"""`barograph read`: turn logs from elsewhere into a series, ready for `barograph report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from barograph.cli.arguments import key_value, yaml_value
from barograph.cli.terminal import say
from barograph.series.results import finish, results
from barograph.settings import results_root


def add_arguments(read: argparse.ArgumentParser) -> None:
    read.add_argument("format", metavar="FORMAT", help="storm_metrics or stela_statistics (docs/records.md)")
    read.add_argument("files", nargs="+", metavar="FILE", help="the logs, one run or several in each")
    read.add_argument("--name", required=True, metavar="FAMILY/NAME", help="the experiment that the series is of")
    read.add_argument(
        "--option", type=key_value, action="append", default=[], metavar="KEY=VALUE", help="of the format"
    )


def execute(options: argparse.Namespace) -> int:
    from analysis.ingest.readers import read as read_logs  # needs Spark

    of_files = {key: yaml_value(value) for key, value in options.option}
    files = [Path(file) for file in options.files]
    results().require()
    series_dir = read_logs(options.format, files, results_root(), name=options.name, options=of_files)
    results().begin(series_dir)
    finish(series_dir, say)
    say(f"series: {series_dir}")
    say(f"to analyse it: barograph report {series_dir}")
    return 0
