"""Jars that PySpark does not ship, fetched with Maven when they are first needed, each set into a folder of its own."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from analysis.errors import StorageConfigurationError, StorageError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0"
LIMIT_S = 1800


def fetch(folder: Path, arguments: Sequence[str], check: Callable[[Path], None] = lambda _: None) -> None:
    """`arguments` of Maven that copy jars; `check` raises for what must not be used. The folder is there whole or not
    at all."""
    if shutil.which("mvn") is None:
        raise StorageConfigurationError(
            f"mvn is not installed; {folder.name} for Spark is fetched with it. Install it with: apt-get install maven"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as scratch:
        out = Path(scratch) / "jars"
        argv = ["mvn", "-B", "-q", *arguments, f"-DoutputDirectory={out}"]
        process = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        if process.returncode != 0:
            last = " ".join((process.stdout + process.stderr).split())[-600:]
            raise StorageError(f"{' '.join(argv)} ended with {process.returncode}: {last}")
        check(out)
        if not folder.is_dir():  # somebody else was quicker
            out.rename(folder)
