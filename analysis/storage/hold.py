"""The hold: the right to write a series in a bucket. One object, put only where there is none, with an end of its
own."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.errors import RecordError, SeriesInUse
from analysis.record.files import read_json, write_json_atomic
from analysis.storage import layout
from analysis.storage.bucket import Bucket, NoSuchObject, WriteConflict


@dataclass(frozen=True)
class BucketHolder:
    """One execution. `harness`: of this spool; `born`: tells processes of the same number apart."""

    harness: str
    host: str
    pid: int
    born: str


def take(
    bucket: Bucket, series: str, folder: Path, me: BucketHolder, *, now_s: float, until_s: float, alive: bool
) -> None:
    """The hold, new or again, until `until_s`; kept in the spool, for later steps to prolong.

    It may be taken from one that has ended, and from our own harness once the process that took it is dead (`alive` is
    said of the holder on record, by whoever can see this box's processes). Raises SeriesTaken.
    """
    name = f"{series}/{layout.HOLD}"
    expected = None
    found = read_hold(bucket, series)
    if found is not None:
        document, expected = found
        other = BucketHolder(*(document[field] for field in ("harness", "host", "pid", "born")))
        ours = other == me or (other.harness == me.harness and not alive)
        if not ours and float(document["until_s"]) > now_s:
            raise SeriesInUse(_in_use_message(bucket, series, document))
    try:
        etag = bucket.write_if(name, _body(me, until_s), expected)
    except (WriteConflict, NoSuchObject) as error:
        raise SeriesInUse(f"series {series} was taken by another harness at this moment; try again later") from error
    write_json_atomic(folder / layout.HOLD, {"etag": etag, **asdict(me)})


def prolong(bucket: Bucket, series: str, folder: Path, until_s: float) -> None:
    """Raises SeriesTaken where somebody else has it by now."""
    own = read_json(folder / layout.HOLD)
    me = BucketHolder(*(own[field] for field in ("harness", "host", "pid", "born")))
    try:
        etag = bucket.write_if(f"{series}/{layout.HOLD}", _body(me, until_s), own["etag"])
    except (WriteConflict, NoSuchObject) as error:
        message = f"series {series} has meanwhile been taken by another harness: nothing more is written"
        raise SeriesInUse(message) from error
    write_json_atomic(folder / layout.HOLD, {"etag": etag, **asdict(me)})


def drop(bucket: Bucket, series: str, folder: Path) -> None:
    """Only our own; nothing happens where there is none."""
    try:
        own = read_json(folder / layout.HOLD)
    except RecordError:
        return
    found = read_hold(bucket, series)
    if found is not None and found[1] == own["etag"]:
        bucket.remove([f"{series}/{layout.HOLD}"])
    (folder / layout.HOLD).unlink(missing_ok=True)


def read_hold(bucket: Bucket, series: str) -> tuple[dict[str, Any], str] | None:
    """What the hold says, and its ETag."""
    try:
        body, etag = bucket.read(f"{series}/{layout.HOLD}")
    except NoSuchObject:
        return None
    return dict(json.loads(body)), etag


def _body(me: BucketHolder, until_s: float) -> bytes:
    return json.dumps({"v": 1, **asdict(me), "until_s": until_s}).encode()


def _in_use_message(bucket: Bucket, series: str, document: Mapping[str, Any]) -> str:
    until = datetime.fromtimestamp(float(document["until_s"]), UTC)
    who = f"process {document['pid']}" if document["pid"] else f"DAG {document['born']}"
    return (
        f"series {series} is being written by {who} on {document['host']}, until"
        f" {until:%Y-%m-%d %H:%M} UTC at most; wait for it, or, if that one is surely dead, remove"
        f" {bucket.location}/{series}/{layout.HOLD}"
    )
