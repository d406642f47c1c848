"""`python -m dags.comparison.look SERIES`: what the comparison says so far, into `.so_far/answer.json`.

On the local testbed it gives way to the daemons of its machines, which wait on this box for the next block.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import so_far
from analysis.record import write_json_atomic
from dags.comparison import record
from dags.series import read_series

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BACKGROUND = 19


def main(arguments: list[str]) -> int:
    from analysis.comparison import compare
    from analysis.comparison.answer import as_data
    from dags.nights.judging import narrow_enough

    series_dir = Path(arguments[0])
    _give_way(series_dir)
    # A/A comparisons on record widen the floor of the last answer; whether more blocks are needed is not theirs to say.
    found = compare(_analysed(series_dir), on_record={})
    certain, why = found.certain, found.why
    if bisecting := record.read(series_dir)["bisecting"]:
        certain, why = narrow_enough(bisecting, as_data(found)["rows"])  # a search looks at one metric
    answer = {"v": 1, "certain": certain, "why": why, "sentence": found.sentence}
    write_json_atomic(series_dir / so_far.FOLDER / "answer.json", answer)
    return 0


def _give_way(series_dir: Path) -> None:
    """Only to what is measured: on a busy box it would get next to nothing for no reason, and the runs wait for it."""
    if read_series(series_dir).experiment.testbed.name == "local":
        os.nice(BACKGROUND)


def _analysed(series_dir: Path) -> Path:
    """A folder with the tables that a comparison is made of: here only new runs are parsed, in a bucket all of them."""
    from analysis import session
    from dags.places import spark_master
    from dags.results import Folder, analysed, results_of

    if isinstance(results_of(series_dir), Folder):
        with ExitStack() as opened:

            def start(raw_bytes: int) -> SparkSession:
                spark = session.spark(spark_master(), raw_bytes)
                opened.callback(spark.stop)
                return spark

            return so_far.update(series_dir, start)
    (series_dir / so_far.FOLDER).mkdir(exist_ok=True)
    analysed(series_dir, print)
    return series_dir


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
