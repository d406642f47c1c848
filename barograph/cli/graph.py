"""`barograph graph`: the communication graph of a run, for METIS and for `barograph partition`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from barograph.cli.arguments import add_testbed_choice, given_file, require_writable_into
from barograph.cli.signals import signals_as_interrupt
from barograph.cli.terminal import say
from barograph.errors import ExperimentError
from barograph.series.interruption import limited
from barograph.series.results import avro_jars, results_of
from barograph.series.series import find_series
from barograph.settings import spark_master

PART = re.compile(r"(e[1-9][0-9]*)\.(before|after)")


def add_arguments(graph: argparse.ArgumentParser) -> None:
    graph.add_argument("series", help="the series' folder or id, or an experiment for its newest")
    graph.add_argument("run", help="one of its runs, such as metis-r1; its topology has barograph.traffic: true")
    add_testbed_choice(graph)
    graph.add_argument("--into", type=given_file, required=True, metavar="FILE", help="the graph file to write")
    graph.add_argument(
        "--part", metavar="EVENT.SIDE", help="only the steady part of a side of an event, such as e1.before"
    )
    graph.add_argument("--topology", metavar="NAME", help="which one, where the run has several")


def execute(options: argparse.Namespace) -> int:
    from analysis.pipeline import communication_graph
    from analysis.record.files import SeriesPaths

    part = PART.fullmatch(options.part) if options.part else None
    if options.part and part is None:
        raise ExperimentError(f"--part is {options.part!r}; allowed: an event and a side of it, such as e1.before")
    _require_new(options.into)
    folder = find_series(options.series, options.testbed)
    with signals_as_interrupt(), limited("analyse"), results_of(folder).whole(folder) as series_dir:
        tasks, edges = communication_graph(
            series_dir, options.run, options.into, spark_master(), part=(part[1], part[2]) if part else None,
            topology=options.topology, jars=avro_jars(SeriesPaths(series_dir), say),
        )  # fmt: skip
    say(f"{options.into}: {tasks} tasks, {edges} edges")
    return 0


def _require_new(path: Path) -> None:
    """Raise, before Spark starts, where the file exists: nothing is overwritten."""
    require_writable_into(path)
    if path.exists():
        raise ExperimentError(f"--into is {path}, which is there already; nothing is overwritten: give another file")
