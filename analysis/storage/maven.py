"""Jars that PySpark does not ship, fetched when they are first needed, each set into a folder of its own: with Maven, a
single one without it too."""

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
    """`arguments` of Maven that copy jars, whose checksums must be the registry's; `check` raises for what must not be
    used. The folder is there whole or not at all; of several processes one fetches it."""
    if shutil.which("mvn") is None:
        raise StorageConfigurationError(
            f"mvn is not installed; {folder.name} for Spark is fetched with it. Install it with: apt-get install maven"
        )
    _fetch_once(folder, partial(_with_maven, arguments), check)


def fetch_artifact(folder: Path, artifact: str, check: Callable[[Path], None]) -> None:
    """One jar (`group:name:version`) without what it depends on. Where there is no Maven, or no Java for it, it comes
    from Maven Central with Python's own means, which know the proxy and the certificates of the environment."""
    if shutil.which("mvn") is not None and _has_java():
        fetch(folder, [f"{PLUGIN}:copy", f"-Dartifact={artifact}"], check)
    else:
        _fetch_once(folder, partial(_from_central, artifact), check)


def _has_java() -> bool:
    """Of Maven's own choice."""
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
            content = answer.read()  # of one that is cut short it says so
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
    for left in folder.parent.glob(".jars-*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as scratch:
        out = Path(scratch) / "jars"
        get(out)
        check(out)
        out.rename(folder)
