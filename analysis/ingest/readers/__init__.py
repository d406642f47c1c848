"""Other people's logs -> a series in our own format, so that tables, metrics, figures and report are the same.

A reader turns lines into *samples* (`analysis.ingest.readers.series_folder`); everything after that is common. Data
that a log lacks (queues, CPU, placement, offered rate) stays null. See docs/records.md.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import session
from analysis.ingest.readers import contract, henge, stela_statistics, storm_metrics
from analysis.ingest.readers.contract import LogFormat
from analysis.ingest.readers.series_folder import write_series
from barograph.errors import ConfigurationError, Say
from barograph.plan.blocks import stamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


READERS: dict[str, LogFormat] = {
    "storm_metrics": storm_metrics.READER, "stela_statistics": stela_statistics.READER, "henge": henge.READER,
}  # fmt: skip


def read(
    format: str,
    files: Sequence[Path],
    target: Path,
    *,
    name: str,
    options: Mapping[str, Any] | None = None,
    spark: "SparkSession | None" = None,
    say: Say = lambda _: None,
) -> Path:
    """Read logs of one format into the series `target/<name>/<date>-<time>-<digest>`; return its folder.

    `target`: the root of results. `name`: the experiment, `family/name`; claims about it are judged with these runs.
    `options`: options of all files; those in `<file>.yaml` beside a file take precedence. `spark`: used and left
    running; else a session is started and stopped. `say` gets a line a run: what was taken for spouts and sinks.
    Raises ConfigurationError before anything is written.
    """
    reader = reader_of(format)
    experiment = check_name(name)
    sources = [contract.source_with_options(reader, Path(file), options or {}) for file in files]
    contract.check_formats(format, sources, READERS)
    total = sum(source.file.stat().st_size for source in sources)
    spark_session = spark or session.spark(raw_bytes=total)
    with session.stopped_afterwards(spark_session) if spark is None else nullcontext():
        return write_series(spark_session, format, reader, sources, Path(target) / experiment, stamp(time.time()), say)


def reader_of(format: str) -> LogFormat:
    if format not in READERS:
        raise ConfigurationError(f"format is {format!r}; there are {', '.join(READERS)}")
    return READERS[format]


def check_name(name: str) -> str:
    """Check an experiment's name; it has two parts, because results are found by `results/<family>/<name>/<series>`."""
    parts = name.split("/")
    if len(parts) != 2 or not all(part.replace("_", "a").replace("-", "a").isalnum() for part in parts):
        raise ConfigurationError(f"name is {name!r}; give family/name of letters, digits, - and _, such as old/star")
    return name
