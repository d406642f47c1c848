"""A Spark master that is not in this process: how its workers reach us, and whether they see the results.

Nothing of ours runs on the workers: every transform is made of Spark's built-in functions (a test holds it), so they
need neither our code nor our Python.
"""

import contextlib
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import StorageConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STANDALONE = re.compile(r"spark://(?P<host>[^:,/]+):(?P<port>\d+)(,[^:,/]+:\d+)*")
OTHERS = ("yarn", "k8s://")
LOOKS = 4  # by each core: a worker that has no task has not looked
DRIVER_HOST = "BAROGRAPH_SPARK_DRIVER_HOST"


def is_local(master: str) -> bool:
    return master.startswith("local")


def settings(master: str) -> dict[str, str]:
    """How a cluster's workers reach this process. Raises StorageConfigurationError for a master of no known form."""
    standalone = STANDALONE.fullmatch(master)
    if standalone is None and not master.startswith(OTHERS):
        raise StorageConfigurationError(
            f"BAROGRAPH_SPARK_MASTER is {master!r}; give local[*], spark://host:port, yarn or k8s://https://host:port"
        )
    host = os.environ.get(DRIVER_HOST) or (standalone and _own_address(standalone["host"], int(standalone["port"])))
    return {"spark.driver.host": host, "spark.driver.bindAddress": host} if host else {}


def _own_address(host: str, port: int) -> str:
    """The address of this machine that a packet to the master leaves by; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except OSError as error:
            raise StorageConfigurationError(
                f"BAROGRAPH_SPARK_MASTER names {host}:{port}: {error}; mend the name, or set {DRIVER_HOST} to the"
                " address of this machine that the workers can reach"
            ) from error
        return str(probe.getsockname()[0])


def require_shared(spark: "SparkSession", folder: Path) -> None:
    """Every core of the cluster looks for a file that was written here just now. Raises StorageConfigurationError."""
    word = os.urandom(8).hex()
    marker = folder / f"shared-{word}.txt"
    marker.write_text(word, encoding="utf-8")
    try:
        seen = _seen(spark, marker)
    finally:
        marker.unlink(missing_ok=True)
    if seen != {word}:
        raise StorageConfigurationError(
            f"the workers of {spark.sparkContext.master} do not all see {folder}, a folder of this machine; set"
            " BAROGRAPH_RESULTS to s3://bucket/prefix or to a folder that every worker mounts at the same place, or"
            " leave BAROGRAPH_SPARK_MASTER away"
        )


def _seen(spark: "SparkSession", marker: Path) -> set[str]:
    looks = LOOKS * spark.sparkContext.defaultParallelism
    lines = spark.read.text([f"file://{marker}"] * looks, wholetext=True)
    with contextlib.suppress(Exception):  # whatever way a worker says that it has no such file
        return {row.value for row in lines.repartition(looks).distinct().collect()}
    return set()
