"""Write a `.tar.gz` whose bytes depend on names and contents only: sorted, without times, owners or host name."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from barograph.errors import ConfigurationError

SUMS = "SHA256SUMS"
TIME_S = 315_532_800  # 1980: the earliest time that every format can store
LEVEL = 6


@dataclass(frozen=True)
class ArchiveEntry:
    """A file of the archive; `source` is read in pieces while it is written."""

    name: str
    source: Path | bytes
    executable: bool = False


def write(target: Path, top: str, entries: Iterable[ArchiveEntry]) -> None:
    """Write every entry below the folder `top`, then their SHA-256 sums. `target` appears whole or not at all, and an
    existing file is never overwritten."""
    sums = []
    with _new_file(target) as file, _tar_writer(file) as tar:
        for entry in sorted(entries, key=lambda entry: entry.name):
            sums.append(f"{_add(tar, top, entry)}  {entry.name}\n")
        _add(tar, top, ArchiveEntry(SUMS, "".join(sums).encode()))


@contextmanager
def _new_file(target: Path) -> Iterator[IO[bytes]]:
    scratch = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with scratch.open("wb") as file:
            yield file
        os.link(scratch, target)  # fails if there is one, even one created meanwhile
    except FileExistsError as error:
        raise ConfigurationError(
            f"{target} exists; nothing is overwritten: give --to another name, or remove it"
        ) from error
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def _tar_writer(file: IO[bytes]) -> Iterator[tarfile.TarFile]:
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        yield tar


def _add(tar: tarfile.TarFile, top: str, entry: ArchiveEntry) -> str:
    """Add the entry and return the digest of the bytes written."""
    info = tarfile.TarInfo(f"{top}/{entry.name}")
    info.mode, info.mtime = 0o755 if entry.executable else 0o644, TIME_S
    with _open_source(entry.source) as file:
        info.size = file.seek(0, io.SEEK_END)
        file.seek(0)
        reader = _HashingReader(file)
        tar.addfile(info, reader)
    return reader.digest.hexdigest()


def _open_source(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


class _HashingReader:
    """Compute the digest while a file is read, so that it is read once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.digest.update(piece)
        return piece
