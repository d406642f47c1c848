"""The hold of a series: one execution writes it, from its opening to its end. A file in the series' folder names that
one.

A hold counts while its holder lives and, where the holder outlives its work or is not visible, while its heartbeats
continue (`inventory.leases.holder`): each step of a series sends them. An execution that has lost the hold ends. With a
bucket the hold lies in the spool, for executions of this box; those of others are refused by the bucket's own hold.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from analysis.errors import SeriesInUse
from analysis.record.files import write_json_atomic
from barograph.errors import blame_of, message_of
from barograph.settings import holder
from inventory.files import hold_lock
from inventory.leases.holder import HEARTBEAT_BOUND_S, HEARTBEAT_S, Holder, is_recent
from inventory.leases.registry import heard_of

log = logging.getLogger(__name__)
UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT})
# A file of this box: neither sent to a bucket nor bundled.
FILE, LOCK = ".holder.json", ".holder.lock"
LOSS = signal.SIGURG  # raises HoldLost; the kernel ignores a signal after the block


@dataclass(frozen=True)
class SeriesLock:
    """A hold. `outlives`: the holder is not the process that works, as `barograph ui` is not its tasks."""

    pid: int
    born: str
    system: str
    host: str
    heartbeat_s: float
    run: str = ""
    outlives: bool = True

    @property
    def holder(self) -> Holder:
        return Holder(self.pid, self.born, self.system, self.run)

    def counts(self, now_s: float) -> bool:
        """Return whether it holds. A holder that works itself need only live: it may be stopped (Ctrl-Z), or the clock
        be set."""
        works = self.holder.is_visible and not self.outlives
        return self.holder.is_alive(self.heartbeat_s, now_s) and (works or is_recent(self.heartbeat_s, now_s))

    def is_anothers(self, now_s: float) -> bool:
        """Return whether it counts and belongs to another execution."""
        return self.holder != holder() and self.counts(now_s)


def take(series_dir: Path, *, parent_pid: int | None = None) -> None:
    """Take the series for this execution, even if it has it already. Raises SeriesInUse (capacity). `parent_pid`: the
    process that opened the series and started this one to carry it out."""
    with _lock(series_dir):
        refuse_others(series_dir, parent_pid)
        _write(series_dir, time.time())


def refuse_others(series_dir: Path, parent_pid: int | None = None) -> None:
    """Raise SeriesInUse where another execution holds the series."""
    current, now_s = read(series_dir), time.time()
    if current is not None and current.pid != parent_pid and current.is_anothers(now_s):
        raise SeriesInUse(_in_use_message(series_dir, current, now_s))


def is_lost(series_dir: Path) -> bool:
    """Return whether another execution holds the series."""
    current = read(series_dir)
    return current is not None and current.is_anothers(time.time())


def drop(series_dir: Path) -> None:
    """Release the series; do nothing where another execution or nobody holds it, or the folder is gone."""
    if not series_dir.is_dir():
        return
    with _lock(series_dir):
        current = read(series_dir)
        if current is not None and not current.is_anothers(time.time()):
            (series_dir / FILE).unlink(missing_ok=True)


@contextmanager
def beating(series_dir: Path) -> Iterator[None]:
    """Take the series and send a heartbeat every HEARTBEAT_S during the block. Raises SeriesInUse, also within the
    block, where another execution has it."""
    take(series_dir)
    with _kept(series_dir):
        yield


@contextmanager
def held(series_dir: Path) -> Iterator[None]:
    """Hold the series during the block, against other writers. Raises SeriesInUse. If the folder cannot be written, or
    its disk is full, only check that no other execution holds it."""
    current = read(series_dir)
    try:
        take(series_dir)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        refuse_others(series_dir)
        log.warning("%s is read, and not held: %s", series_dir, error.strerror)
        yield
        return
    try:
        with _kept(series_dir):
            yield
    finally:
        if current is None or current.holder != holder():
            drop(series_dir)


class HoldLost(KeyboardInterrupt):
    """The hold is lost, which ends the block. Handlers of failures or interruptions must not catch it: they would write
    into a record that now belongs to another execution."""


@contextmanager
def _kept(series_dir: Path) -> Iterator[None]:
    """Send heartbeats during the block, which ends with SeriesInUse once another execution has taken the series."""
    messages: list[str] = []

    def beat(interrupt: Callable[[], None]) -> None:
        if not messages and (other := _beat(series_dir)) is not None:
            messages.append(
                f"series {series_dir.name} was taken by {other.holder} on {other.host} while nothing was heard of"
                " this execution (it was stopped, or a clock was set); it ends, and leaves the series to that one"
            )
            log.warning("%s", messages[0])
            interrupt()

    try:
        with _interruption() as interrupt, heartbeat(partial(beat, interrupt), "series hold", HEARTBEAT_S):
            yield
    except BaseException as error:
        if messages:
            raise SeriesInUse(messages[0]) from error
        raise
    if messages:
        raise SeriesInUse(messages[0])


@contextmanager
def _interruption() -> Iterator[Callable[[], None]]:
    """Yield a function that raises HoldLost in the block from another thread; it does nothing off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise HoldLost

    handler = signal.signal(LOSS, end)
    try:
        yield partial(signal.pthread_kill, threading.get_ident(), LOSS)
    finally:
        signal.signal(LOSS, handler)


@contextmanager
def heartbeat(beat: Callable[[], None], name: str, every_s: float, limit_s: float = float("inf")) -> Iterator[None]:
    """Call `beat` again and again during the block, for `limit_s` at most, even if it fails."""
    stop, end_s = threading.Event(), time.monotonic() + limit_s

    def work() -> None:
        while not stop.wait(every_s) and time.monotonic() < end_s:
            try:
                beat()
            except Exception as error:  # noqa: BLE001 - the next one may succeed; the work itself reports errors
                log.warning("%s failed, trying again: %s: %s", name, blame_of(error), message_of(error))

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def read(series_dir: Path) -> SeriesLock | None:
    """Return the hold, None if nobody has it. An unreadable file holds nothing: it is written atomically."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return SeriesLock(**json.loads((series_dir / FILE).read_text(encoding="utf-8")))
    return None


def _beat(series_dir: Path) -> SeriesLock | None:
    """Send a heartbeat; return the hold of another execution that has taken the series meanwhile, if any."""
    if read(series_dir) is None:  # ended meanwhile, or the folder is gone
        return None
    with _lock(series_dir):
        current, me = read(series_dir), holder()
        if current is not None and current.holder == me:
            _write(series_dir, time.time())
            return None
    return current if me.born else None  # else the holder has died, as a killed `barograph ui`: its tasks are ended


def _lock(series_dir: Path) -> AbstractContextManager[None]:
    return hold_lock(series_dir / LOCK, "noting who writes the series")


def _write(series_dir: Path, now_s: float) -> None:
    me, current = holder(), read(series_dir)
    works = me.pid == os.getpid() or (current is not None and current.holder == me and not current.outlives)
    facts = {"host": socket.gethostname(), "heartbeat_s": now_s, "outlives": not works}
    write_json_atomic(series_dir / FILE, {**asdict(me), **facts})


def _in_use_message(series_dir: Path, other: SeriesLock, now_s: float) -> str:
    who = f"{other.holder} on {other.host}"
    if other.holder.is_visible:
        return f"series {series_dir.name} is in use by {who}; wait for it, or end that process"
    return (
        f"series {series_dir.name} is in use by {who}, last heard of {heard_of(other.heartbeat_s, now_s)}; wait for it:"
        f" it is free once nothing was heard of for {HEARTBEAT_BOUND_S / 60:.0f} min"
    )
