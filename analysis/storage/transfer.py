"""Transfer between the spool and the bucket.

Sending: what is there with the same checksum is not sent again, and run.json comes last. Mirroring: small files only,
those that changed, and never over what is not sent yet.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from analysis.errors import RecordError, StorageError
from analysis.record.files import SeriesPaths, is_complete, read_json, write_json_atomic
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
    """Everything of a series in the spool, runs that are being written (`under_way`) excepted.

    `series`: its name in the bucket. `keep_raw` False: what only Spark reads takes no room in the spool once it is in
    the bucket. May be killed at any time and called again. Raises StorageError.
    """
    bucket.abandon(f"{series}/")
    keys = {f"{series}/{key}": path for key, path in bucket_files(folder, under_way).items()}
    present = bucket.objects(f"{series}/")
    first, last = layout.sending_order(keys)
    parts = [send_files(bucket, {key: keys[key] for key in names}, present) for names in (first, last)]
    if not keep_raw:
        _drop_raw(folder, keys.values())
    return TransferCounts(*(sum(counts) for counts in zip(*map(astuple, parts), strict=True)))


def bucket_files(folder: Path, under_way: Collection[str] = ()) -> dict[str, Path]:
    """Key -> file, of what belongs into the bucket."""
    runs = {run: state for run, state in run_states(folder).items() if run not in under_way}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    keys = {path: layout.bucket_key(path.relative_to(folder).as_posix(), runs) for path in paths}
    return {key: path for path, key in keys.items() if key is not None}


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


def send_files(bucket: Bucket, files: dict[str, Path], present: dict[str, ObjectFacts]) -> TransferCounts:
    """Side by side; the first failure is raised once the others under way have ended."""

    def send(key: str) -> int | None:
        path = files[key]
        size = path.stat().st_size
        if key in present and present[key].size == size and bucket.digest(key) == sha256(path):
            return None
        bucket.send(path, key)
        return size

    sizes = in_parallel(send, list(files))
    new = [size for size in sizes if size is not None]
    return TransferCounts(len(new), len(sizes) - len(new), sum(new))


def in_parallel(do: Callable[[str], T], names: Sequence[str]) -> list[T]:
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(do, names))


def _drop_raw(folder: Path, sent: Iterable[Path]) -> None:
    """These files alone: another run may have become complete, or been set aside, while they were sent."""
    raw = [path for path in sent if layout.is_raw(path.relative_to(folder).as_posix())]
    for path in raw:
        path.unlink(missing_ok=True)
    for part in {folder.joinpath(*path.relative_to(folder).parts[:3]) for path in raw}:
        for place, _, _ in os.walk(part, topdown=False):
            with suppress(OSError):  # not empty
                Path(place).rmdir()


INDEX_FILE = ".brought.json"  # path -> ETag of what it was brought from
UNSENT = ".unsent"


def visible_series(keys: dict[str, ObjectFacts]) -> dict[str, dict[str, ObjectFacts]]:
    """By series that can be seen (`family/name/id`): its keys, relative to it."""
    found: dict[str, dict[str, ObjectFacts]] = {}
    for key, names in keys.items():
        parts = key.split("/", 3)
        if len(parts) == 4 and ".." not in key.split("/"):
            found.setdefault("/".join(parts[:3]), {})[parts[3]] = names
    return {series: inside for series, inside in found.items() if "series.json" in inside}


def mirror(bucket: Bucket, root: Path, scope: str = "", *, digest: bool = False) -> list[str]:
    """Mirror every series whose name begins with `scope` (whole parts of it); their names."""
    found = visible_series(bucket.objects(f"{scope}/" if scope else ""))
    for series, inside in found.items():
        mirror_series(bucket, series, root / series, inside, digest=digest)
    return sorted(found)


def mirror_series(bucket: Bucket, series: str, folder: Path, inside: dict[str, ObjectFacts], *, digest: bool) -> None:
    """`inside`: its keys in the bucket."""
    generation = _current_generation(bucket, series) if layout.POINTER in inside else None
    paths = layout.spool_paths(inside, generation, digest=digest)
    index, unsent = _mirror_index(folder), (folder / UNSENT).exists()
    new = {
        key: path for key, path in paths.items()
        if not ((folder / path).exists() and (unsent or index.get(path) == inside[key].etag))
    }  # fmt: skip
    # A run is there when its run.json is, here as there.
    for names in layout.sending_order(new):
        in_parallel(lambda key: bucket.fetch(f"{series}/{key}", folder / new[key]), names)
    _remove_stale(folder, index, set(paths.values()), unsent=unsent, digest=digest)
    index |= {path: inside[key].etag for key, path in new.items()}
    if new:
        write_json_atomic(folder / INDEX_FILE, {path: etag for path, etag in index.items() if (folder / path).exists()})


def fetch_series(bucket: Bucket, series: str, folder: Path) -> Path:
    """Everything that is stored of a series, into a new folder as it would be on a disk; the folder."""
    inside = visible_series(bucket.objects(f"{series}/")).get(series, {})
    generation = _current_generation(bucket, series) if layout.POINTER in inside else None
    paths = layout.disk_paths(inside, generation)
    in_parallel(lambda key: bucket.fetch(f"{series}/{key}", folder / paths[key]), list(paths))
    return folder


def _current_generation(bucket: Bucket, series: str) -> str | None:
    try:
        document = json.loads(bucket.read(f"{series}/{layout.POINTER}")[0])
        return str(document["generation"])
    except (ValueError, KeyError, TypeError) as error:
        where = f"{bucket.location}/{series}/{layout.POINTER}"
        raise StorageError(f"{where} is damaged: {error!r}; analyse the series again") from error


def _mirror_index(folder: Path) -> dict[str, str]:
    try:
        return dict(read_json(folder / INDEX_FILE))
    except RecordError:
        return {}


def _remove_stale(folder: Path, index: dict[str, str], current: set[str], *, unsent: bool, digest: bool) -> None:
    """What was brought and is not there any more: tables of an older analysis, an attempt that another one followed."""
    for path in sorted(set(index) - current):
        tables = PurePosixPath(path).parts[0] == "tables"
        if not unsent and (digest or not tables) and (tables or path.endswith(layout.RUN_JSON)):
            (folder / path).unlink(missing_ok=True)
