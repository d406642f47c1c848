"""What the harness ran on: the box and the versions of what did the work."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DISTRIBUTIONS = ("apache-airflow", "ansible-core", "ansible-runner", "pyspark")


def versions() -> dict[str, str]:
    from playbooks.storm_home.assemble import storm_version

    found = {"storm": storm_version(), "python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def box_facts() -> dict[str, Any]:
    """CPU, memory, kernel and the load when the run began."""
    return {
        "cpu_model": _field(Path("/proc/cpuinfo"), "model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "load_1min": os.getloadavg()[0],
    }


def _field(path: Path, key: str) -> str | None:
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)
