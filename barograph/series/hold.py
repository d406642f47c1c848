"""The hold of a series: one execution writes it, from its opening to its end. A file in the series' folder names who.

It counts while its holder lives and, where that one outlives its work or cannot be seen, has been heard of
(`inventory.leases.holder`): each step of a series beats. An execution that has lost it all the same ends. Behind a
bucket it stands in the spool, for executions of this box; those of others are kept away by the bucket's own hold.
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
from dataclasses import asdict, dataclass, fields
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
# Of this box: neither sent to a bucket nor bundled.
FILE, LOCK = ".holder.json", ".holder.lock"
LOSS = signal.SIGURG  # raises HoldLost; the kernel ignores one that comes after the block


@dataclass(frozen=True)
class Hold:
    """`outlives`: the holder is not who works, as `barograph ui` is not its tasks."""

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
        """Return whether it counts, and not for this execution."""
        return self.holder != holder() and self.counts(now_s)


def take(series_dir: Path, *, parent_pid: int | None = None) -> None:
    """This execution writes the series from now on, also where it does already. Raises SeriesInUse (capacity).

    `parent_pid`: of the process that opened the series and started this one to carry it out.
    """
    with _lock(series_dir):
        refuse_others(series_dir, parent_pid)
        _write(series_dir, time.time())


def refuse_others(series_dir: Path, parent_pid: int | None = None) -> None:
    """Raise SeriesInUse where another execution holds the series."""
    other, now_s = read(series_dir), time.time()
    if other is not None and other.pid != parent_pid and other.is_anothers(now_s):
        raise SeriesInUse(_in_use_message(series_dir, other, now_s))


def is_lost(series_dir: Path) -> bool:
    """Return whether another execution holds the series."""
    other = read(series_dir)
    return other is not None and other.is_anothers(time.time())


def drop(series_dir: Path) -> None:
    """Others may write it; nothing happens where another holds it, or nobody, or the folder is gone."""
    if not series_dir.is_dir():
        return
    with _lock(series_dir):
        other = read(series_dir)
        if other is not None and not other.is_anothers(time.time()):
            (series_dir / FILE).unlink(missing_ok=True)


@contextmanager
def beating(series_dir: Path) -> Iterator[None]:
    """Take the series, and say every HEARTBEAT_S of the block that its holder lives. Raises SeriesInUse, also in the
    midst of the block, where another has it."""
    take(series_dir)
    with _kept(series_dir):
        yield


@contextmanager
def held(series_dir: Path) -> Iterator[None]:
    """Nobody else writes the series during the block. Raises SeriesInUse.

    What cannot be written here, or is on a full disk, is only looked at: whether somebody else holds it.
    """
    before = read(series_dir)
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
        if before is None or before.holder != holder():
            drop(series_dir)


class HoldLost(KeyboardInterrupt):
    """Ends the block. Neither a failure nor an interruption: whoever handles those writes into the record, which is
    another's by now."""


@contextmanager
def _kept(series_dir: Path) -> Iterator[None]:
    """Beats during the block, which ends with SeriesInUse once another has taken the series."""
    lost: list[str] = []

    def beat(interrupt: Callable[[], None]) -> None:
        if not lost and (other := _beat(series_dir)) is not None:
            lost.append(_lost_message(series_dir, other))
            log.warning("%s", lost[0])
            interrupt()

    try:
        with _interruption() as interrupt, heartbeat(partial(beat, interrupt), "series hold", HEARTBEAT_S):
            yield
    except BaseException as error:
        if lost:
            raise SeriesInUse(lost[0]) from error
        raise
    if lost:
        raise SeriesInUse(lost[0])


@contextmanager
def _interruption() -> Iterator[Callable[[], None]]:
    """Yield what another thread calls to raise HoldLost in the block; it does nothing off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise HoldLost

    before = signal.signal(LOSS, end)
    try:
        yield partial(signal.pthread_kill, threading.get_ident(), LOSS)
    finally:
        signal.signal(LOSS, before)


@contextmanager
def heartbeat(beat: Callable[[], None], name: str, every_s: float, limit_s: float = float("inf")) -> Iterator[None]:
    """`beat` is called again and again during the block, for `limit_s` at the most. No failure of it ends that."""
    over, end_s = threading.Event(), time.monotonic() + limit_s

    def work() -> None:
        while not over.wait(every_s) and time.monotonic() < end_s:
            try:
                beat()
            except Exception as error:  # noqa: BLE001 - the next one may succeed; the work itself says what is wrong
                log.warning("%s failed, trying again: %s: %s", name, blame_of(error), message_of(error))

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def read(series_dir: Path) -> Hold | None:
    """None where nobody holds it. What cannot be read holds nothing: it is written as a whole."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        document = json.loads((series_dir / FILE).read_text(encoding="utf-8"))
        return Hold(**{field.name: document[field.name] for field in fields(Hold) if field.name in document})
    return None


def _beat(series_dir: Path) -> Hold | None:
    """Beat; return who else has taken the series meanwhile, if anybody has."""
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
    me, before = holder(), read(series_dir)
    works = me.pid == os.getpid() or (before is not None and before.holder == me and not before.outlives)
    facts = {"host": socket.gethostname(), "heartbeat_s": now_s, "outlives": not works}
    write_json_atomic(series_dir / FILE, {**asdict(me), **facts})


def _lost_message(series_dir: Path, other: Hold) -> str:
    return (
        f"series {series_dir.name} was taken by {other.holder} on {other.host} while nothing was heard of this"
        " execution (it was stopped, or a clock was set); it ends, and leaves the series to that one"
    )


def _in_use_message(series_dir: Path, other: Hold, now_s: float) -> str:
    who = f"{other.holder} on {other.host}"
    if other.holder.is_visible:
        return f"series {series_dir.name} is in use by {who}; wait for it, or end that process"
    return (
        f"series {series_dir.name} is in use by {who}, last heard of {heard_of(other.heartbeat_s, now_s)}; wait for it:"
        f" it is free once nothing was heard of for {HEARTBEAT_BOUND_S / 60:.0f} min"
    )
