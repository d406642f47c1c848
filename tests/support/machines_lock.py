"""The lock by which parts of `make test` leave each other's measurements alone.

It is this process's: it ends with it, however that ends, and nothing that tests start inherits it.
"""

import fcntl
from pathlib import Path
from typing import IO

VARIABLE = "BAROGRAPH_MACHINES_LOCK"  # shared: beside other machines; exclusive: while no others are up
LOCK = Path(__file__).parents[2] / ".barograph" / "machines.lock"
KINDS = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX}
_held: list[IO[str]] = []


def take(kind: str | None, lock: Path = LOCK) -> None:
    """Wait for it; nothing where no kind is said."""
    if kind:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
        fcntl.flock(file, KINDS[kind])
        _held.append(file)
