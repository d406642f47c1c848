"""The hold: the right to write a series in a bucket. One object, created only if there is none, with an expiry time."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.errors import SeriesInUse
from analysis.record.files import read_json, read_json_or_none, write_json_atomic
from analysis.storage import layout
from analysis.storage.bucket import Bucket, NoSuchObject, WriteConflict


@dataclass(frozen=True)
class BucketHolder:
    """An execution. `harness`: of this spool; `born`: distinguishes processes with the same number."""

    harness: str
    host: str
    pid: int
    born: str
    run: str = ""  # of a DAG


def take(
    bucket: Bucket, series: str, folder: Path, me: BucketHolder, *, now_s: float, until_s: float, alive: bool
) -> None:
    """Take or renew the hold until `until_s`; it is kept in the spool, so that later steps can prolong it.

    It may be taken over after its expiry, and within our own harness once its process is dead (`alive` refers to the
    holder on record and is determined by the caller). Raises SeriesInUse.
    """
    etag_on_record = None
    if (record := read_hold(bucket, series)) is not None:
        document, etag_on_record = record
        other = holder_of(document)
        is_ours = other == me or (other.harness == me.harness and not alive)
        if not is_ours and float(document["until_s"]) > now_s:
            end = datetime.fromtimestamp(float(document["until_s"]), UTC)
            holder = f"process {document['pid']}" if document["pid"] else f"DAG {document['born']}"
            raise SeriesInUse(
                f"series {series} is being written by {holder} on {document['host']}, until"
                f" {end:%Y-%m-%d %H:%M} UTC at most; wait for it, or, if that one is surely dead, remove"
                f" {bucket.location}/{series}/{layout.HOLD}"
            )
    try:
        _write(bucket, series, folder, me, until_s, etag_on_record)
    except (WriteConflict, NoSuchObject) as error:
        raise SeriesInUse(f"series {series} was taken by another harness at this moment; try again later") from error


def prolong(bucket: Bucket, series: str, folder: Path, until_s: float) -> None:
    """Prolong the hold. Raises SeriesInUse if another process has it by now."""
    record = read_json(folder / layout.HOLD)
    try:
        _write(bucket, series, folder, holder_of(record), until_s, record["etag"])
    except (WriteConflict, NoSuchObject) as error:
        message = f"series {series} has meanwhile been taken by another harness: nothing more is written"
        raise SeriesInUse(message) from error


def drop(bucket: Bucket, series: str, folder: Path) -> None:
    """Drop the hold if it is ours; do nothing otherwise."""
    if (record := read_json_or_none(folder / layout.HOLD)) is None:
        return
    hold = read_hold(bucket, series)
    if hold is not None and holder_of(hold[0]) == holder_of(record):
        bucket.remove([f"{series}/{layout.HOLD}"])
    (folder / layout.HOLD).unlink(missing_ok=True)


def read_hold(bucket: Bucket, series: str) -> tuple[dict[str, Any], str] | None:
    """Return the hold's content and its ETag."""
    try:
        body, etag = bucket.read(f"{series}/{layout.HOLD}")
    except NoSuchObject:
        return None
    return dict(json.loads(body)), etag


def holder_of(document: Mapping[str, Any]) -> BucketHolder:
    return BucketHolder(*(document[field.name] for field in fields(BucketHolder)))


def _write(bucket: Bucket, series: str, folder: Path, me: BucketHolder, until_s: float, etag: str | None) -> None:
    """Write the hold over that `etag`, once more over an own one: S3 may have written it, and its answer been lost."""
    body = json.dumps({"v": 1, **asdict(me), "until_s": until_s}).encode()
    try:
        new_etag = bucket.write_if(f"{series}/{layout.HOLD}", body, etag)
    except WriteConflict:
        hold = read_hold(bucket, series)
        if hold is None or holder_of(hold[0]) != me:
            raise
        new_etag = bucket.write_if(f"{series}/{layout.HOLD}", body, hold[1])
    write_json_atomic(folder / layout.HOLD, {"etag": new_etag, **asdict(me)})
