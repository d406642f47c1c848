"""From the bucket to the spool: small files only, those that changed, and never over what is not sent yet."""

import json
from pathlib import Path, PurePosixPath

from analysis.errors import RecordError, StorageError
from analysis.record import read_json, write_json_atomic
from analysis.storage import layout
from analysis.storage.bucket import Bucket, Held
from analysis.storage.sending import side_by_side

INDEX = ".brought.json"  # path -> ETag of what it was brought from
UNSENT = ".unsent"


def series_in(keys: "dict[str, Held]") -> dict[str, dict[str, Held]]:
    """By series that can be seen (`family/name/id`): its keys, relative to it."""
    found: dict[str, dict[str, Held]] = {}
    for key, held in keys.items():
        parts = key.split("/", 3)
        if len(parts) == 4 and ".." not in key.split("/"):
            found.setdefault("/".join(parts[:3]), {})[parts[3]] = held
    return {series: inside for series, inside in found.items() if "series.json" in inside}


def bring(bucket: Bucket, root: Path, scope: str = "", *, digest: bool = False) -> list[str]:
    """Mirror every series whose name begins with `scope` (whole parts of it); their names."""
    found = series_in(bucket.objects(f"{scope}/" if scope else ""))
    for series, inside in found.items():
        bring_series(bucket, series, root / series, inside, digest=digest)
    return sorted(found)


def bring_series(bucket: Bucket, series: str, folder: Path, inside: dict[str, Held], *, digest: bool) -> None:
    """`inside`: its keys in the bucket."""
    generation = _generation(bucket, series) if layout.POINTER in inside else None
    wanted = layout.paths_of(inside, generation, digest=digest)
    index, unsent = _index(folder), (folder / UNSENT).exists()
    new = {
        key: path for key, path in wanted.items()
        if not ((folder / path).exists() and (unsent or index.get(path) == inside[key].etag))
    }  # fmt: skip
    # A run is there when its run.json is, here as there.
    for names in layout.in_order(new):
        side_by_side(lambda key: bucket.fetch(f"{series}/{key}", folder / new[key]), names)
    _forget(folder, index, set(wanted.values()), unsent=unsent, digest=digest)
    index |= {path: inside[key].etag for key, path in new.items()}
    if new:
        write_json_atomic(folder / INDEX, {path: etag for path, etag in index.items() if (folder / path).exists()})


def bring_whole(bucket: Bucket, series: str, folder: Path) -> Path:
    """Everything that is stored of a series, into a new folder as it would be on a disk; the folder."""
    inside = series_in(bucket.objects(f"{series}/")).get(series, {})
    generation = _generation(bucket, series) if layout.POINTER in inside else None
    placed = layout.everything(inside, generation)
    side_by_side(lambda key: bucket.fetch(f"{series}/{key}", folder / placed[key]), list(placed))
    return folder


def _generation(bucket: Bucket, series: str) -> str | None:
    try:
        document = json.loads(bucket.read(f"{series}/{layout.POINTER}")[0])
        return str(document["generation"])
    except (ValueError, KeyError, TypeError) as error:
        where = f"{bucket.location}/{series}/{layout.POINTER}"
        raise StorageError(f"{where} is damaged: {error!r}; analyse the series again") from error


def _index(folder: Path) -> dict[str, str]:
    try:
        return dict(read_json(folder / INDEX))
    except RecordError:
        return {}


def _forget(folder: Path, index: dict[str, str], wanted: set[str], *, unsent: bool, digest: bool) -> None:
    """What was brought and is not there any more: tables of an older analysis, an attempt that another one followed."""
    for path in sorted(set(index) - wanted):
        tables = PurePosixPath(path).parts[0] == "tables"
        if not unsent and (digest or not tables) and (tables or path.endswith(layout.RUN_JSON)):
            (folder / path).unlink(missing_ok=True)
