"""Whether this box can carry the local testbed at all."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping

from dags.errors import DagError
from dags.places import airflow_home
from dags.software import BRIDGE, TOPOLOGIES, build_jar, storm_home

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


def parts() -> Mapping[str, Callable[[Tell], object]]:
    """The parts in the order in which they are made; a part that is there costs only the look."""
    return {
        "root filesystem of the machines": _root_filesystem,
        "topologies (Java)": lambda tell: build_jar(TOPOLOGIES, tell),
        "scheduler bridge (Java)": lambda tell: build_jar(BRIDGE, tell),
        "Storm home": storm_home,
        "Airflow's database": _airflow,
    }


def prepare_all(tell: Tell) -> None:
    """Make every part that is not there; says what took more than a second."""
    for name, make in parts().items():
        begin_s = time.monotonic()
        make(tell)
        took_s = time.monotonic() - begin_s
        if took_s > 1:
            tell(f"{name}: ready after {took_s:.0f} s")


def _root_filesystem(tell: Tell) -> object:
    from inventory.rootfs import build, cache_dir

    return build(cache_dir(), tell)


def _airflow(tell: Tell) -> object:
    from dags.terminal.airflow_home import prepare, ready

    if not ready(airflow_home()):
        tell("Airflow: making its database")
    return prepare(airflow_home())
