"""`barograph calibrate`: fit the simulator's costs to real series, or take them as options, and print the error of
simulated runs of other series."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from analysis import java
from barograph.cli.terminal import line_printer, result_table, signals_as_interrupt, stdout_console
from barograph.errors import INTERRUPTED_EXIT, ExperimentError
from barograph.plan.blocks import stamp
from barograph.series import hold
from barograph.series.results import results
from barograph.series.series import find_all_series
from barograph.settings import results_root
from barograph.yaml_files import read_yaml
from scheduler_plugins.simulator.work import Costs, SimulationError

if TYPE_CHECKING:
    from barograph.calibration import Calibration

UNFINISHED = ".unfinished"  # a file in the folder of a calibration that is not complete
HOLD_FILES = (hold.FILE, hold.LOCK)
DEFAULT = "default"
SERIES = "a series' folder or id, an experiment for its newest, or a pattern such as 'stela/*'"


def add_calibrate_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("series", nargs="*", metavar="SERIES", help=f"to fit the costs to: {SERIES}")
    add(
        "--costs", metavar="FILE",
        help=f"judge the costs of this file and fit none; `{DEFAULT}`: those of a run without the option costs",
    )  # fmt: skip
    add("--on", nargs="+", default=[], metavar="OTHER", help="series that the costs are judged on, by simulating them")
    add("--seeds", type=int, default=5, metavar="N",
        help="how often each run of OTHER is simulated, with another seed each time (default 5)")  # fmt: skip
    add("--into", type=Path, metavar="FOLDER", help="where the costs and the page go; default: a new one below results")


def execute_calibrate(options: argparse.Namespace) -> int:
    from barograph import calibration

    if options.seeds < 1:
        raise ExperimentError(f"--seeds is {options.seeds}; allowed is a whole number of 1 or more")
    costs = _given(options)
    fitted_series, other_series = (
        list(dict.fromkeys(folder for name in names for folder in find_all_series(name)))
        for names in (options.series, options.on)
    )
    calibration.require_usable(fitted_series, other_series)
    java.require()
    now = datetime.now(UTC)
    from analysis.calibration.validation import FOLDER

    folder = options.into.absolute() if options.into else results_root() / FOLDER / stamp(now.timestamp())
    console = stdout_console()
    say = line_printer(console)
    with signals_as_interrupt(), _held(folder), calibration.spark_for([*fitted_series, *other_series], say) as spark:
        from analysis.calibration.fit import fit_costs, given_costs

        runs = [run for each in fitted_series for run in calibration.sums_of(spark, each)]
        estimates = fit_costs(runs) if costs is None else given_costs(costs)
        try:
            from barograph.calibration import SIMULATED

            (folder / UNFINISHED).touch()
            shutil.rmtree(folder / SIMULATED, ignore_errors=True)
            result = calibration.calibrate(
                spark, estimates, fitted_series, other_series, folder, now.date(), say, options.seeds
            )
            (folder / UNFINISHED).unlink()
        except KeyboardInterrupt:
            say(f"interrupted: {folder} may have the costs, and not how far they are off; the same command begins anew")
            return INTERRUPTED_EXIT
        show(result, console)  # before Spark stops, which takes seconds: an interruption then costs nothing
        _keep(result)
    return 0


def _given(options: argparse.Namespace) -> Costs | None:
    """Return the costs of `--costs`, None where they are to be fitted. Raises ExperimentError."""
    if options.costs is None:
        if not options.series:
            raise ExperimentError("no series to fit the costs to; give one, or --costs with a file or `default`")
        return None
    if options.series or not options.on:
        problem = f"SERIES is {', '.join(options.series)}" if options.series else "--on is not given"
        raise ExperimentError(f"{problem}; with --costs nothing is fitted: give the series to judge them on after --on")
    try:
        costs = {} if options.costs == DEFAULT else read_yaml(Path(options.costs))
    except OSError as error:
        raise ExperimentError(f"--costs is {options.costs}: {error.strerror}; give a file, or `{DEFAULT}`") from error
    if not isinstance(costs, dict):
        raise ExperimentError(
            f"{options.costs} has no mapping of costs; give costs.yaml of a calibration, or `default`"
        )
    maximum = sys.float_info.max
    if overflows := [name for name, value in costs.items() if isinstance(value, int) and abs(value) > maximum]:
        raise ExperimentError(
            f"{options.costs}: costs: {overflows[0]} is a whole number of more digits than allowed: up to {maximum:.1e}"
        )
    try:
        return Costs.of(costs)
    except SimulationError as error:
        raise ExperimentError(f"{options.costs}: {error}") from error


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the folder during the block. Raises ExperimentError for a folder with other files, and SeriesInUse while
    another calibration writes it."""
    _require_free(folder)  # nothing is written beside other files
    folder.mkdir(parents=True, exist_ok=True)
    with hold.held(folder):
        _require_free(folder)  # another calibration may be complete by now
        yield


def _require_free(folder: Path) -> None:
    """Raise ExperimentError where the folder has files, other than those of a calibration that was cut short."""
    if not folder.exists() or (folder / UNFINISHED).is_file():
        return
    if not folder.is_dir() or any(not path.name.startswith(HOLD_FILES) for path in folder.iterdir()):
        what = "is not empty" if folder.is_dir() else "is a file"
        raise ExperimentError(f"--into is {folder}, which {what}; give a folder that is new or empty")


def _keep(found: Calibration) -> None:
    """Store in the bucket too, if there is one, what reports and other calibrations read."""
    from analysis.calibration.validation import COSTS_FILE, ERRORS_FILE
    from analysis.report.calibration_page import PAGE

    if found.folder.is_relative_to(results_root()):
        for name in (COSTS_FILE, ERRORS_FILE, PAGE):
            results().keep(found.folder / name)


def show(found: Calibration, console: Console) -> None:
    """Print the tables of the page, the rankings, and the paths of the files."""
    from analysis.calibration.validation import COSTS_FILE, ERRORS_FILE
    from analysis.report.calibration_page import PAGE, cells_table, costs_table, errors_table, losses, ranking_sentence

    say = line_printer(console)
    console.print(result_table(costs_table(found.validation)))
    for judgement in found.judgements:
        say(f"{judgement.experiment} ({judgement.series_id}), {judgement.runs} runs")
        for line in losses(judgement):
            say(line)
        # A value that all rows share needs no column.
        several = len({cell.topology for cell in judgement.cells}) > 1
        console.print(result_table(cells_table(judgement.cells, topology=several)))
        for ranking in judgement.rankings:
            say(ranking_sentence(ranking))
    if found.validation.errors:
        console.print(result_table(errors_table(found.validation)))
    for name, what in ((COSTS_FILE, "costs"), (ERRORS_FILE, "errors"), (PAGE, "page")):
        say(f"{what}: {found.folder / name}")
