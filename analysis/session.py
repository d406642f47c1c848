"""The one way to start Spark: quiet, without its UI, reachable from this machine only."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:-UseAdaptiveSizePolicy "
    f"-Dlog4j2.configurationFile=file:{Path(__file__).parent / 'log4j2.properties'}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.files.openCostInBytes": "256k",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


# A short series is dozens of small queries: what costs is compiling them. Without the JIT's second tier and without
# re-planning between stages they take half of the CPU time (measured); a long one earns both back.
SHORT_BYTES = 200_000_000
SHORT_OPTIONS = "-XX:TieredStopAtLevel=1"
SHORT_SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


def spark(master: str = "local[*]", raw_bytes: int = 0, **settings: str) -> "SparkSession":
    """A session on `master`, tuned for about `raw_bytes` of raw lines; the caller stops it.

    Keyword settings (dots written as `__`) override ours.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("barograph")
    chosen = {**SETTINGS, **(LOCAL if master.startswith("local") else {})}
    if raw_bytes < SHORT_BYTES:
        chosen |= SHORT_SETTINGS
        chosen["spark.driver.extraJavaOptions"] += f" {SHORT_OPTIONS}"
    chosen |= {key.replace("__", "."): value for key, value in settings.items()}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
