"""Files that are replaced as a whole, ids that are made once, and locks between processes."""

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
SHORT_S = 0.3  # nobody hears of a wait that is no longer


def replace_file(path: Path, text: str, mode: int | None = None) -> None:
    """The file has the text, and has it on disk, when this returns; a reader sees the old or the new one. `mode`: who
    may read and write it, at no moment anybody else; None: as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process that was killed may have left its part: the next one takes its place.
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
    """One process at a time; the kernel ends the lock of a process that dies. `doing` is for those who wait.

    Who waits hears from `say` for whom, once; InfrastructureError after `limit_s`: the holder hangs. OSError where the
    folder cannot be written.
    """
    file, holder = FileLock(lock), lock.with_name(f"{lock.name}.holder")
    try:
        file.acquire(timeout=SHORT_S)  # who has just taken it has yet to write who it is
    except Timeout:
        (say or log.info)(f"waiting for {_holder_line(holder)}")
        _await(file, holder, limit_s)
    try:
        with suppress(OSError):  # a full disk: the lock holds without it
            holder.write_text(f"process {os.getpid()}, {doing} since {time.strftime('%H:%M:%S')}")
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        file.release()


def _await(file: FileLock, holder: Path, limit_s: float) -> None:
    try:
        file.acquire(timeout=limit_s)
    except Timeout as error:
        raise InfrastructureError(
            f"{file.lock_file} is still held after {limit_s:g} s, by {_holder_line(holder)}; "
            "if that process hangs, end it and start again"
        ) from error


def _holder_line(holder: Path) -> str:
    with suppress(OSError):
        if line := holder.read_text().strip():
            return line
    return "a process that has just begun"


def lasting_id(file: Path) -> str:
    """The id in the file, made when it is first asked for; also where a full disk or a kill has left the file empty."""
    if not (found := _text_of(file)):
        with hold_lock(file.with_name(f"{file.name}.lock"), "making an id"):
            if not (found := _text_of(file)):  # whoever had the lock before has made it
                found = uuid.uuid4().hex
                replace_file(file, found)
    return found


def _text_of(file: Path) -> str:
    with suppress(FileNotFoundError):
        return file.read_text().strip()
    return ""


def users_folder(variable: str, system: Path, kind: str) -> Path:
    """The folder that the environment's `variable` names; else `system`, where this user may write there; else one of
    the user's own: `kind` is `state` or `cache`, as XDG has them."""
    if said := os.environ.get(variable):
        return Path(said).absolute()
    if os.geteuid() == 0 or os.access(system, os.W_OK):
        return system
    default = Path.home() / {"state": ".local/state", "cache": ".cache"}[kind]
    return Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or default).absolute() / "barograph"
