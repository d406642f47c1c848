"""From the spool to the bucket: what is there with the same checksum is not sent again, and run.json comes last."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from analysis.errors import RecordError
from analysis.record import SeriesPaths, is_complete, read_json
from analysis.storage import layout
from analysis.storage.bucket import AT_ONCE, Bucket, Held, sha256
from analysis.storage.layout import RunState

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    files: int
    there: int  # were there already
    bytes: int


def send_series(bucket: Bucket, series: str, folder: Path, *, under_way: str | None = None) -> Sent:
    """Everything of a series in the spool, `under_way` (a run that is being written) excepted.

    `series`: its name in the bucket. May be killed at any time and called again. Raises StorageError.
    """
    bucket.abandon(f"{series}/")
    keys = {f"{series}/{key}": path for key, path in files_of(folder, under_way).items()}
    there = bucket.objects(f"{series}/")
    first, last = layout.in_order(keys)
    parts = [send_files(bucket, {key: keys[key] for key in names}, there) for names in (first, last)]
    return Sent(*(sum(getattr(part, name) for part in parts) for name in ("files", "there", "bytes")))


def files_of(folder: Path, under_way: str | None = None) -> dict[str, Path]:
    """Key -> file, of what belongs into the bucket."""
    runs = {run: state for run, state in run_states(folder).items() if run != under_way}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    named = {path: layout.key_of(path.relative_to(folder).as_posix(), runs) for path in paths}
    return {key: path for path, key in named.items() if key is not None}


def run_states(folder: Path) -> dict[str, RunState]:
    """Of every run that says what became of it."""
    found = {}
    for path in SeriesPaths(folder).runs.glob(f"*/{layout.RUN_JSON}"):
        try:
            document = read_json(path)
        except RecordError:
            continue
        found[path.parent.name] = RunState(is_complete(path.parent), int(document.get("attempt") or 1))
    return found


def send_files(bucket: Bucket, files: dict[str, Path], there: dict[str, Held]) -> Sent:
    """Side by side; the first failure is raised once the others under way have ended."""

    def send(key: str) -> int | None:
        path = files[key]
        size = path.stat().st_size
        if key in there and there[key].size == size and bucket.digest(key) == sha256(path):
            return None
        bucket.send(path, key)
        return size

    sizes = side_by_side(send, list(files))
    new = [size for size in sizes if size is not None]
    return Sent(len(new), len(sizes) - len(new), sum(new))


def side_by_side(do: Callable[[str], T], names: Sequence[str]) -> list[T]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(do, names))


def drop_raw(folder: Path, runs: Iterable[str]) -> None:
    """Once it is in the bucket, what only Spark reads takes no room in the spool; `runs`: those that were sent."""
    for run in (*(SeriesPaths(folder).run(name).root for name in runs), *folder.glob("attempts/*")):
        for part in layout.RAW:
            shutil.rmtree(run / part, ignore_errors=True)
