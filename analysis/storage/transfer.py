"""Transfer between the spool and the bucket.

Sending: files with the same checksum are not sent again, and run.json is sent last. Mirroring: small files only, those
that changed, and never over files that are not sent yet.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeVar

from analysis.errors import StorageError
from analysis.record.files import SeriesPaths, read_json_or_none, write_json_atomic
from analysis.storage import layout
from analysis.storage.bucket import CONNECTIONS, Bucket, ObjectFacts, sha256
from analysis.storage.layout import RunState

T = TypeVar("T")


@dataclass(frozen=True)
class TransferCounts:
    files: int
    present: int  # were there already
    bytes: int


def send_series(
    bucket: Bucket, series: str, folder: Path, *, under_way: Collection[str] = (), keep_raw: bool = True
) -> TransferCounts:
    """Send a series in the spool, except for runs that are being written (`under_way`).

    `series`: its name in the bucket. `keep_raw` False: files that only Spark reads are removed from the spool once they
    are in the bucket. May be killed at any time and called again. Raises StorageError.
    """
    bucket.abandon(f"{series}/")
    keys = {f"{series}/{key}": path for key, path in bucket_files(folder, under_way).items()}
    objects = bucket.objects(f"{series}/")
    first, last = layout.sending_order(keys)
    parts = [send_files(bucket, {key: keys[key] for key in names}, objects) for names in (first, last)]
    if not keep_raw:  # these files alone: another run may have become complete, or been set aside, meanwhile
        raw_paths = [path for path in keys.values() if layout.is_raw(path.relative_to(folder).as_posix())]
        for path in raw_paths:
            path.unlink(missing_ok=True)
        for part in {folder.joinpath(*path.relative_to(folder).parts[:3]) for path in raw_paths}:
            for place, _, _ in os.walk(part, topdown=False):
                with suppress(OSError):  # not empty
                    Path(place).rmdir()
    return TransferCounts(*(sum(counts) for counts in zip(*map(astuple, parts), strict=True)))


def bucket_files(folder: Path, under_way: Collection[str] = ()) -> dict[str, Path]:
    """Return key -> file of the files that belong into the bucket."""
    runs = {run: state for run, state in run_states(folder).items() if run not in under_way}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    keys = {path: layout.bucket_key(path.relative_to(folder).as_posix(), runs) for path in paths}
    return {key: path for path, key in keys.items() if key is not None}


def run_states(folder: Path) -> dict[str, RunState]:
    """Return the state of every run with a readable run.json."""
    states = {}
    for path in SeriesPaths(folder).runs.glob(f"*/{layout.RUN_JSON}"):
        if (document := read_json_or_none(path)) is not None:
            states[path.parent.name] = RunState(document.get("status") == "complete", int(document.get("attempt") or 1))
    return states


def send_files(bucket: Bucket, files: dict[str, Path], present: dict[str, ObjectFacts]) -> TransferCounts:
    """Send files side by side; the first failure is raised once the other transfers have ended."""

    def send(key: str) -> int | None:
        path = files[key]
        try:
            size = path.stat().st_size
            if key in present and present[key].size == size and bucket.digest(key) == sha256(path):
                return None
        except OSError as error:  # set aside meanwhile, or its disk fails: the next transfer sends it
            raise StorageError(f"{path} cannot be read: {error.strerror}") from error
        bucket.send(path, key)
        return size

    sizes = in_parallel(send, list(files))
    sent_sizes = [size for size in sizes if size is not None]
    return TransferCounts(len(sent_sizes), len(sizes) - len(sent_sizes), sum(sent_sizes))


def in_parallel(do: Callable[[str], T], names: Sequence[str]) -> list[T]:
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(do, names))


INDEX_FILE = ".brought.json"  # path -> ETag of its source
UNSENT = ".unsent"


def visible_series(keys: dict[str, ObjectFacts]) -> dict[str, dict[str, ObjectFacts]]:
    """Return by visible series (`family/name/id`): its keys, relative to it."""
    series_objects: dict[str, dict[str, ObjectFacts]] = {}
    for key, names in keys.items():
        parts = key.split("/", 3)
        if len(parts) == 4 and ".." not in key.split("/"):
            series_objects.setdefault("/".join(parts[:3]), {})[parts[3]] = names
    return {series: objects for series, objects in series_objects.items() if "series.json" in objects}


def mirror(bucket: Bucket, root: Path, scope: str = "", *, digest: bool = False) -> list[str]:
    """Mirror every series whose name begins with `scope` (whole parts of it); return their names."""
    series_objects = visible_series(bucket.objects(f"{scope}/" if scope else ""))
    for series, objects in series_objects.items():
        mirror_series(bucket, series, root / series, objects, digest=digest)
    return sorted(series_objects)


def mirror_series(bucket: Bucket, series: str, folder: Path, inside: dict[str, ObjectFacts], *, digest: bool) -> None:
    """Mirror one series; `inside`: its keys in the bucket."""
    generation = _current_generation(bucket, series) if layout.POINTER in inside else None
    paths = layout.spool_paths(inside, generation, digest=digest)
    index: dict[str, str] = read_json_or_none(folder / INDEX_FILE) or {}
    unsent = (folder / UNSENT).exists()
    pairs = {
        key: path for key, path in paths.items()
        if not ((folder / path).exists() and (unsent or index.get(path) == inside[key].etag))
    }  # fmt: skip
    # A run exists once its run.json does, in the bucket and in the spool.
    for names in layout.sending_order(pairs):
        in_parallel(lambda key: bucket.fetch(f"{series}/{key}", folder / pairs[key]), names)
    # What is no longer in the bucket goes: tables of an older analysis, an attempt that another one followed.
    for path in sorted(set(index).difference(paths.values())):
        is_table = path.startswith("tables/")
        if not unsent and (digest or not is_table) and (is_table or path.endswith(layout.RUN_JSON)):
            (folder / path).unlink(missing_ok=True)
    index |= {path: inside[key].etag for key, path in pairs.items()}
    if pairs:
        write_json_atomic(folder / INDEX_FILE, {path: etag for path, etag in index.items() if (folder / path).exists()})


def fetch_series(bucket: Bucket, series: str, folder: Path) -> Path:
    """Fetch everything stored of a series into a new folder, laid out as on a disk; return the folder."""
    objects = visible_series(bucket.objects(f"{series}/")).get(series, {})
    generation = _current_generation(bucket, series) if layout.POINTER in objects else None
    paths = layout.disk_paths(objects, generation)
    in_parallel(lambda key: bucket.fetch(f"{series}/{key}", folder / paths[key]), list(paths))
    return folder


def _current_generation(bucket: Bucket, series: str) -> str | None:
    try:
        document = json.loads(bucket.read(f"{series}/{layout.POINTER}")[0])
        return str(document["generation"])
    except (ValueError, KeyError, TypeError) as error:
        pointer = f"{bucket.location}/{series}/{layout.POINTER}"
        raise StorageError(f"{pointer} is damaged: {error!r}; analyse the series again") from error
