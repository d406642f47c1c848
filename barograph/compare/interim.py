"""The command `python -m barograph.compare.interim SERIES`: write a comparison's interim answer into
`.so_far/answer.json`.

On the local testbed it yields to the daemons of its machines, which wait on this box for the next block.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import pipeline
from analysis.compare.question import read_question
from analysis.record.files import SeriesPaths, write_json_atomic
from barograph.series.series import read_series
from barograph.testbeds.checks import place_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NICENESS = 19


def main(arguments: list[str]) -> int:
    from analysis.compare.evaluation import compare
    from analysis.compare.result import result_data
    from barograph.compare.difference import is_narrow_enough

    series_dir = Path(arguments[0])
    if place_of(read_series(series_dir).experiment.testbed) == "this_box":  # elsewhere its runs would wait for it
        os.nice(NICENESS)
    # A/A comparisons on record widen the last answer's floor, but do not decide whether more blocks are needed.
    result = compare(_analyse(series_dir), on_record={})
    certain, why = result.certain, result.why
    if bisecting := read_question(series_dir).bisecting:
        certain, why = is_narrow_enough(bisecting, result_data(result)["rows"])  # a search needs one metric
    answer = {"v": 1, "certain": certain, "why": why, "sentence": result.sentence}
    write_json_atomic(series_dir / pipeline.INCREMENTAL_FOLDER / "answer.json", answer)
    return 0


def _analyse(series_dir: Path) -> Path:
    """Return a folder with the comparison's tables: on this box only new runs are parsed, in a bucket all of them."""
    from analysis import session
    from barograph.series.results import Spool, analyse_results, avro_jars, results_of
    from barograph.settings import spark_master

    if not isinstance(results_of(series_dir), Spool):
        with ExitStack() as exits:

            def start(raw_bytes: int) -> SparkSession:
                jars = avro_jars(SeriesPaths(series_dir), print)
                spark = session.spark(spark_master(), raw_bytes, session.jar_settings(jars))
                exits.enter_context(session.stopped_afterwards(spark))
                return spark

            return pipeline.analyse_new_runs(series_dir, start)
    (series_dir / pipeline.INCREMENTAL_FOLDER).mkdir(exist_ok=True)
    analyse_results(series_dir, print)
    return series_dir


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
