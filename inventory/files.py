"""Files that are replaced as a whole, permanent ids, and locks between processes."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from boltons.fileutils import atomic_save
from filelock import FileLock, Timeout

from barograph.errors import InfrastructureError

log = logging.getLogger(__name__)
QUICK_S = 60.0  # for a lock under which a few files are read and written
SHORT_S = 0.3  # a shorter wait is not reported


def replace_file(path: Path, text: str, mode: int | None = None) -> None:
    """Write the text to the file and to disk; a reader sees the old or the new one. `mode`: permissions of the file at
    every moment; None: as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A killed process may have left its part: the next one replaces it.
    with atomic_save(path, part_file=f".{path.name}.partial", overwrite_part=True, file_perms=mode) as file:
        file.write(text.encode())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def hold_lock(
    lock: Path, doing: str, limit_s: float = QUICK_S, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a lock between processes; the kernel ends the lock of a process that dies. Waiting ones report `doing`.

    A waiting process reports the holder to `say`, once; InfrastructureError after `limit_s`: the holder hangs. OSError
    where the folder cannot be written.
    """
    file, holder = FileLock(lock), lock.with_name(f"{lock.name}.holder")
    try:
        file.acquire(timeout=SHORT_S)  # a new holder may not have written its name yet
    except Timeout:
        (say or log.info)(f"waiting for {_holder_line(holder)}")
        try:
            file.acquire(timeout=limit_s)
        except Timeout as error:
            raise InfrastructureError(
                f"{file.lock_file} is still held after {limit_s:g} s, by {_holder_line(holder)}; "
                "if that process hangs, end it and start again"
            ) from error
    try:
        with suppress(OSError):  # a full disk: the lock holds without it
            holder.write_text(f"process {os.getpid()}, {doing} since {time.strftime('%H:%M:%S')}")
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        file.release()


def _holder_line(holder: Path) -> str:
    with suppress(OSError):
        if line := holder.read_text().strip():
            return line
    return "a process that has just begun"


def lasting_id(file: Path) -> str:
    """Return the id in the file, created if it is missing, or empty after a full disk or a kill."""
    if not (text := _text_of(file)):
        with hold_lock(file.with_name(f"{file.name}.lock"), "making an id"):
            if not (text := _text_of(file)):  # an earlier holder of the lock may have created it
                text = uuid.uuid4().hex
                replace_file(file, text)
    return text


def _text_of(file: Path) -> str:
    with suppress(FileNotFoundError):
        return file.read_text().strip()
    return ""


def users_folder(variable: str, system: Path, kind: str) -> Path:
    """Return the folder that the environment's `variable` names; else `system`, where this user may write there; else
    one of the user's own: `kind` is `state` or `cache`, as in XDG."""
    if name := os.environ.get(variable):
        return Path(name).absolute()
    if os.geteuid() == 0 or os.access(system, os.W_OK):
        return system
    default = Path.home() / {"state": ".local/state", "cache": ".cache"}[kind]
    return Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or default).absolute() / "barograph"
