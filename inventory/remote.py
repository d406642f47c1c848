"""Commands and files on a machine, over ssh."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from inventory.errors import InfrastructureError, RemoteTimeoutError

if TYPE_CHECKING:
    import paramiko

    from inventory.testbed import Machine

CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Result:
    """What a command left: its output as text and its exit code (128 + signal if a signal ended it)."""

    stdout: str
    stderr: str
    code: int


class Remote(Protocol):
    """A machine that can be told to do something. Every failure to reach it is an InfrastructureError."""

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """Run a program (no shell); a non-zero code is a result; RemoteTimeoutError at the limit, and it is killed."""
        ...

    def put(self, source: Path, target: str) -> None:
        """Copy a local file to the machine; its mode goes with it."""
        ...

    def get(self, source: str, target: Path) -> None:
        """Copy a file from the machine; FileNotFoundError if it has none."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
