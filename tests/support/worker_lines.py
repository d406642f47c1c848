"""Lines of a run's workers, from files of either format; what is left of a line that was cut short is left out."""

from pathlib import Path
from typing import Any

from analysis.record import worker_files
from analysis.record.files import json_lines


def of_run(run: Path, machine: str = "*") -> list[dict[str, Any]]:
    """Of all its machines, or of one."""
    return [line for path in sorted((run / "workers").glob(f"{machine}-*")) for line in of_file(path)]


def of_file(path: Path) -> list[dict[str, Any]]:
    if path.suffix == worker_files.SUFFIX:
        return [line for line in worker_files.read(path) if line is not None]
    return list(json_lines(path))
