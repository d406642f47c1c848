"""Spark's decoder of Avro, which PySpark does not ship: one jar, fetched by set-up, or when it is first needed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from analysis.errors import StorageError
from analysis.storage import maven

# The newest version; it works with the pinned PySpark (tests analyse with it).
ARTIFACT = "org.apache.spark:spark-avro_2.13:4.1.1"
NAME = "spark-avro_2.13-4.1.1"
SHA_256 = "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d"
BUNDLED = Path(__file__).parents[2] / f"{NAME}.jar"  # beside the code of a bundle, so that Maven is not needed there


def jar(cache: Path, tell: Callable[[str], None]) -> Path:
    """Return the jar, in a folder of `cache`. Some seconds and 90 kB the first time."""
    folder = cache / NAME
    if not folder.is_dir():
        tell("Avro for Spark: fetching its jar")
        maven.fetch_artifact(folder, ARTIFACT, _check)
    return folder / f"{NAME}.jar"


def _check(folder: Path) -> None:
    digest = hashlib.sha256((folder / f"{NAME}.jar").read_bytes()).hexdigest()
    if digest != SHA_256:
        raise StorageError(
            f"{ARTIFACT} came with the SHA-256 {digest}, but {SHA_256} is wanted, and it is"
            " not used; if Maven fetched it, remove it from ~/.m2/repository/org/apache/spark, then try again"
        )
