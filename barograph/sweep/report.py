"""The report of a sweep: the tables of all points in one go of one Spark session, and the page with the curves."""

from __future__ import annotations

from pathlib import Path

from analysis.record.files import SeriesPaths
from barograph.errors import Say
from barograph.series.results import avro_jars, results, results_of
from barograph.settings import spark_master
from barograph.sweep.folder import SweepFolder, link_runs


def write(folder: SweepFolder, say: Say) -> Path | None:
    """The report's path; None where no run is complete. Where results go to a bucket, the page and its files do too;
    the points' records stay here, where they can be made again."""
    from analysis.pipeline import analyse_sweep

    if not (number := link_runs(folder)):
        say("no run is complete: there is nothing to draw")
        return None
    say(f"analysing {number} runs in one Spark session")
    page = analyse_sweep(folder.root, spark_master(), jars=avro_jars(SeriesPaths(folder.root), say))
    place = results()
    if results_of(folder.root) == place:
        for file in (page, *sorted(SeriesPaths(folder.root).figures.glob("*"))):
            place.keep(file)
    return page
