"""Where the harness keeps things on this box, and its settings: the one place that reads the environment."""

from __future__ import annotations

import os
from pathlib import Path

from analysis.storage.bucket import Location, parse_location

ROOT = Path(__file__).resolve().parent.parent


def location() -> Location | None:
    """The bucket that $BAROGRAPH_RESULTS names; None where it names a folder or is not set."""
    return parse_location(os.environ.get("BAROGRAPH_RESULTS") or "")


def results_root() -> Path:
    """$BAROGRAPH_RESULTS, or `results/` beside the code; of a bucket its spool on this box."""
    bucket = location()
    if bucket is not None:
        from inventory.leases.registry import state_dir

        return state_dir() / "spool" / bucket.bucket / (bucket.prefix or "_")
    return Path(os.environ.get("BAROGRAPH_RESULTS") or ROOT / "results").absolute()


def barograph_home() -> Path:
    """$BAROGRAPH_HOME, or `.barograph/` beside the code: everything in it can be made again."""
    return Path(os.environ.get("BAROGRAPH_HOME") or ROOT / ".barograph").absolute()


def airflow_home() -> Path:
    return barograph_home() / "airflow"


def cluster_dir(lease_id: str) -> Path:
    """Ansible's files and the token of one cluster; goes with its lease."""
    return barograph_home() / "clusters" / lease_id


HOLDER = "BAROGRAPH_HOLDER_PID"


def holder_pid() -> int:
    """The process whose death ends the lease: under a scheduler it is not the short-lived task's."""
    return int(os.environ.get(HOLDER) or os.getpid())


WEBHOOK_VARIABLE = "BAROGRAPH_WEBHOOK"


def webhook() -> str:
    """The URL that gets a message after each night; empty where nobody asked for one."""
    return os.environ.get(WEBHOOK_VARIABLE, "")


def fake_pace() -> float:
    """Real seconds for each second of machines in memory; 0: as fast as it goes."""
    return float(os.environ.get("BAROGRAPH_FAKE_PACE") or 0.0)


def process_environment() -> dict[str, str]:
    """All variables of this process, for the programs that it starts; each caller says which of them it passes on."""
    return dict(os.environ)


def spark_master() -> str:
    return os.environ.get("BAROGRAPH_SPARK_MASTER") or "local[*]"
