"""Whether this box can carry the local testbed at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from dags.errors import DagError

Tell = Callable[[str], None]


class BoxUnfit(DagError):
    """Something on this box has to be mended first; nothing was touched."""

    def __init__(self, message: str, blame: str) -> None:
        super().__init__(message)
        self.blame = blame


def require_fit_box(tell: Tell) -> None:
    """Raises BoxUnfit listing what is fatal; says what is only a limit."""
    from inventory import preflight

    problems = preflight.check()
    fatal = [problem for problem in problems if problem.fatal]
    missing = java_problems()
    if fatal or missing:
        said = [str(problem) for problem in fatal] + missing
        raise BoxUnfit("; ".join(said), fatal[0].blame if fatal else "configuration")
    for problem in problems:
        tell(f"note: {problem}")


def java_problems() -> list[str]:
    """What building and submitting need beside the testbed's own programs."""
    found = []
    if shutil.which("mvn") is None:
        found.append("mvn is not installed; apt-get install maven")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        found.append("Java 17 is not installed; apt-get install openjdk-17-jdk-headless")
    return found
