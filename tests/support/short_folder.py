"""A folder with a short path for a test's machines and servers: Podman takes 30 characters, a socket 107."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PLACE, PREFIX = Path("/tmp"), "bt"


@contextmanager
def short_folder() -> Iterator[Path]:
    """Gone after the block, however that ends; but where a lease is still on record, its machines can be reaped yet."""
    reap_after_killed_tests()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    try:
        yield folder
    finally:
        if not has_leases(folder):
            shutil.rmtree(folder)


def has_leases(folder: Path) -> bool:
    return any(True for state in (folder, folder / "state") for _ in state.glob("leases/*.json"))


@cache
def reap_after_killed_tests() -> None:
    """Release, once a process, the machines of tests that were killed: they hold address ranges that the next need."""
    for folder in PLACE.glob(f"{PREFIX}????????"):
        if folder.is_dir() and folder.stat().st_uid == os.geteuid() and has_leases(folder):
            state = folder / "state" if (folder / "state").is_dir() else folder
            environment = {**os.environ, "BAROGRAPH_STATE": str(state)}
            command = [sys.executable, "-m", "barograph", "reap"]
            subprocess.run(command, env=environment, check=False, capture_output=True, timeout=300)
            if not has_leases(folder):
                shutil.rmtree(folder, ignore_errors=True)
