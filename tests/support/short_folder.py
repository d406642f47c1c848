"""A folder with a short path for a test's machines and servers: Podman takes 30 characters, a socket 107."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_folder() -> Iterator[Path]:
    """Gone after the block, however that ends; but where a lease is still on record, its machines can be reaped yet."""
    folder = Path(tempfile.mkdtemp(prefix="bt", dir="/tmp"))
    try:
        yield folder
    finally:
        if not any(True for state in (folder, folder / "state") for _ in state.glob("leases/*.json")):
            shutil.rmtree(folder)
