"""Fetch jars that PySpark does not ship when they are first needed, each set into a new folder: with Maven, a
single one also without it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from filelock import FileLock, Timeout

from analysis.errors import StorageConfigurationError, StorageError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0"
CENTRAL = "https://repo1.maven.org/maven2"
# Seconds.
LIMIT_S = 1800
SILENCE_S = 60.0  # of a server, between two parts of a small jar


def fetch(folder: Path, arguments: Sequence[str], check: Callable[[Path], None] = lambda _: None) -> None:
    """Fetch jars. `arguments` make Maven copy them with the registry's checksums; `check` raises for unusable ones. The
    folder appears whole or not at all; only one of several processes fetches it."""
    if shutil.which("mvn") is None:
        raise StorageConfigurationError(
            f"mvn is not installed; {folder.name} for Spark is fetched with it. Install it with: apt-get install maven"
        )
    _fetch_once(folder, partial(_with_maven, arguments), check)


def fetch_artifact(folder: Path, artifact: str, check: Callable[[Path], None]) -> None:
    """Fetch one jar (`group:name:version`) without its dependencies. Without Maven, or without Java for it, it comes
    from Maven Central through Python's own client, with the proxy and the certificates of the environment."""
    if shutil.which("mvn") is not None and _has_java():
        fetch(folder, [f"{PLUGIN}:copy", f"-Dartifact={artifact}"], check)
    else:
        _fetch_once(folder, partial(_from_central, artifact), check)


def _has_java() -> bool:
    """Return whether Maven finds a Java."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None


def _with_maven(arguments: Sequence[str], out: Path) -> None:
    argv = ["mvn", "-B", "-q", "--strict-checksums", *arguments, f"-DoutputDirectory={out}"]
    try:
        process = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise StorageError(f"{' '.join(argv)} did not end within {LIMIT_S} s; is Maven Central reachable?") from error
    last = " ".join((process.stdout + process.stderr).split())[-600:]
    if process.returncode != 0:
        raise StorageError(f"{' '.join(argv)} ended with {process.returncode}: {last}")
    if not any(out.glob("*.jar")):
        raise StorageError(f"{' '.join(argv)} has fetched nothing: {last}")


def _from_central(artifact: str, out: Path) -> None:
    group, name, version = artifact.split(":")
    file = f"{name}-{version}.jar"
    url = f"{CENTRAL}/{group.replace('.', '/')}/{name}/{version}/{file}"
    out.mkdir()
    try:
        with urlopen(url, timeout=SILENCE_S) as answer:
            content = answer.read()  # raises if the answer is cut short
    except (OSError, HTTPException) as error:
        raise StorageError(f"{url}: {error}; is Maven Central reachable?") from error
    (out / file).write_bytes(content)


def _fetch_once(folder: Path, get: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    with _alone(folder):
        if not folder.is_dir():
            _fetch(folder, get, check)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = FileLock(folder.parent / ".jars.lock")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=LIMIT_S)
    except Timeout as error:
        raise StorageError(f"another process has been fetching jars into {folder.parent} for {LIMIT_S} s") from error
    except OSError as error:
        raise StorageConfigurationError(
            f"{folder.parent} cannot be written ({error.strerror}); {folder.name} for Spark is kept there. Set"
            " BAROGRAPH_CACHE to a folder of yours, or run make setup as root"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _fetch(folder: Path, get: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    for leftover in folder.parent.glob(".jars-*"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as scratch:
        target = Path(scratch) / "jars"
        get(target)
        check(target)
        target.rename(folder)
