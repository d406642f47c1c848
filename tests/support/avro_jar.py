"""What Spark needs to read workers' files, as a series' analysis is given it."""

from pathlib import Path

from analysis.storage import maven
from inventory.local.rootfs import cache_dir


def jars() -> tuple[Path, ...]:
    return (maven.avro_jar(cache_dir(), print),)
