"""What Spark needs to read workers' files, as a series' analysis is given it."""

from pathlib import Path

from analysis.ingest import avro_jar
from inventory.local.rootfs import cache_dir


def jars() -> tuple[Path, ...]:
    return (avro_jar.jar(cache_dir(), print),)
