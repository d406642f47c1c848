"""The harness's folders on this box, and its settings: the only module that reads the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from configparser import ConfigParser, Error
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.storage.bucket import Location, parse_location
from barograph import ROOT as ROOT

if TYPE_CHECKING:
    from inventory.leases.holder import Holder


def location() -> Location | None:
    """Return the bucket that $BAROGRAPH_RESULTS names; None where it names a folder or is not set."""
    return parse_location(os.environ.get("BAROGRAPH_RESULTS") or "")


def results_root() -> Path:
    """Return $BAROGRAPH_RESULTS, or `results/` beside the code; for a bucket its spool on this box."""
    bucket = location()
    if bucket is not None:
        from inventory.leases.registry import state_dir

        return state_dir() / "spool" / bucket.bucket / (bucket.prefix or "_")
    return Path(os.environ.get("BAROGRAPH_RESULTS") or ROOT / "results").absolute()


def barograph_home() -> Path:
    """Return $BAROGRAPH_HOME, or `.barograph/` beside the code: everything in it can be created again."""
    return Path(os.environ.get("BAROGRAPH_HOME") or ROOT / ".barograph").absolute()


def airflow_home() -> Path:
    return barograph_home() / "airflow"


def cluster_dir(lease_id: str) -> Path:
    """Return the folder of Ansible's files and the token of one cluster; removed with its lease."""
    return barograph_home() / "clusters" / lease_id


HOLDER = "BAROGRAPH_HOLDER_PID"
DAG_OF_TASK, RUN_OF_TASK = "AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_DAG_RUN_ID"  # Airflow gives them to each task


def hold_by_this_process() -> None:
    """Make this process the holder of its leases, and of those of tasks that run in it."""
    os.environ[HOLDER] = str(os.getpid())


def holder() -> Holder:
    """Return the holder of this process's leases: the process that BAROGRAPH_HOLDER_PID names, for one run of a DAG; in
    a task without it, the DAG, for the task's process is short-lived and may be on any worker; else this process."""
    from inventory.leases.holder import Holder, process_holder

    dag = os.environ.get(DAG_OF_TASK)
    if dag and not os.environ.get(HOLDER):
        return Holder(0, dag, run=os.environ.get(RUN_OF_TASK, ""))
    return replace(process_holder(int(os.environ.get(HOLDER) or os.getpid())), run=dag_run())


def dag_run() -> str:
    """Return the DAG and its run whose task this process does; empty outside a task."""
    dag, run = os.environ.get(DAG_OF_TASK), os.environ.get(RUN_OF_TASK)
    return f"{dag} {run}" if dag and run else ""


WEBHOOK_VARIABLE = "BAROGRAPH_WEBHOOK"


def webhook() -> str:
    """Return the URL that gets a message after each night; empty where none is set."""
    return os.environ.get(WEBHOOK_VARIABLE, "")


def simulated_pace() -> float:
    """Return real seconds for each second of machines in memory; 0: as fast as possible."""
    return float(os.environ.get("BAROGRAPH_PACE") or 0.0)


def build_registries() -> tuple[str, ...]:
    """Return hosts beside Maven's and Gradle's own that builds of variants' code may reach over TLS."""
    return tuple(os.environ.get("BAROGRAPH_BUILD_REGISTRIES", "").lower().split())


PIP_KEYS = ("index-url", "extra-index-url")


def package_indexes() -> dict[str, str]:
    """Return the variables that name Python's package indexes, from pip's files and the environment, for builds of
    others; not one with a password in it."""
    files = (
        "/etc/pip.conf",
        "~/.pip/pip.conf",
        "~/.config/pip/pip.conf",
        os.environ.get("PIP_CONFIG_FILE", os.devnull),
    )
    parser = ConfigParser(interpolation=None, strict=False)
    with suppress(Error):  # pip itself says what is wrong with it
        parser.read(Path(file).expanduser() for file in files)
    indexes = {f"PIP_{key.upper().replace('-', '_')}": parser.get("global", key, fallback="") for key in PIP_KEYS}
    names = (*indexes, "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX")
    indexes |= {name: os.environ[name] for name in names if os.environ.get(name)}
    return {name: text for name, text in indexes.items() if text and "@" not in text}


@contextmanager
def environment_of_children(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set these variables for this process and its children in the block, where nobody has set them."""
    additions = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(additions)
    try:
        yield
    finally:
        for name in additions:
            del os.environ[name]


def process_environment() -> dict[str, str]:
    """Return all variables of this process, for programs that it starts; each caller selects from them."""
    return dict(os.environ)


def program_paths(variables: Mapping[str, str]) -> dict[str, str]:
    """Return PATH with the virtual environment's programs first (Ansible), and PYTHONPATH with our packages (for
    Spark's workers), before those of `variables`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{variables.get('PATH', os.defpath)}"
    modules = os.pathsep.join(filter(None, (str(ROOT), variables.get("PYTHONPATH"))))
    return {"PATH": path, "PYTHONPATH": modules}


def spark_master() -> str:
    return os.environ.get("BAROGRAPH_SPARK_MASTER") or "local[*]"
