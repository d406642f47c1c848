"""A series in a bucket while it is analysed: Spark reads its raw lines there and writes a new generation of tables.

Nobody reads a generation before `tables.json` names it, so no table is ever seen half-written or beside one of another
analysis; the one before is kept until the next, for those who are reading it.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from analysis.errors import StorageError
from analysis.record import read_json
from analysis.sql import Stored
from analysis.storage import layout
from analysis.storage.bucket import Bucket, NotThere
from analysis.storage.sending import send_files, side_by_side


@dataclass(frozen=True)
class SharedSeries:
    """`names`: of all raw files, relative to the series; `raw_bytes`: of their lines."""

    bucket: Bucket
    series: str
    generation: str
    names: tuple[str, ...]
    raw_bytes: int

    def raw_files(self, part: str) -> list[str]:
        """URIs of the lines of one part of every run: a folder (`workers`) or a file (`events.jsonl`)."""
        wanted = (name for name in self.names if name.split("/")[2] == part and name.endswith(".jsonl"))
        return [self.bucket.location.uri(f"{self.series}/{name}") for name in wanted]

    def table(self, name: str) -> str:
        return self.bucket.location.uri(self._table(name))

    def send_table(self, name: str, folder: Path) -> None:
        """A small table that was written without Spark, for Spark to read."""
        files = {f"{self._table(name)}/{file.name}": file for file in folder.iterdir()}
        send_files(self.bucket, files, {})

    def fetch_table(self, name: str, folder: Path) -> None:
        """A small table that Spark wrote, for us to read."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        keys = [key for key in self.bucket.objects(f"{self._table(name)}/") if key.endswith(".parquet")]
        side_by_side(lambda key: self.bucket.fetch(key, folder / key.rpartition("/")[2]), keys)

    def drop_table(self, name: str) -> None:
        self.bucket.remove(list(self.bucket.objects(f"{self._table(name)}/")))

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """What the block writes is published when it ends well, and removed when it does not."""
        try:
            yield
        except BaseException:
            with suppress(StorageError):  # the next analysis removes it
                self.abandon()
            raise
        self.publish()

    def publish(self) -> None:
        """From now on these are the tables of the series."""
        before = self._published()
        body = {"v": 1, "generation": self.generation, "before": before}
        self.bucket.write(f"{self.series}/{layout.POINTER}", json.dumps(body).encode())
        self._remove_but(self.generation, before)

    def abandon(self) -> None:
        """Remove what an analysis that failed has written."""
        self.bucket.remove(list(self.bucket.objects(f"{self.series}/tables/{self.generation}/")))

    def _published(self) -> str | None:
        try:
            return str(json.loads(self.bucket.read(f"{self.series}/{layout.POINTER}")[0])["generation"])
        except NotThere:
            return None

    def _remove_but(self, *kept: str | None) -> None:
        keys = self.bucket.objects(f"{self.series}/tables/")
        self.bucket.remove([key for key in keys if key.removeprefix(f"{self.series}/").split("/")[1] not in kept])

    def _table(self, name: str) -> str:
        return f"{self.series}/tables/{self.generation}/{name}.parquet"


def open_shared(bucket: Bucket, series: str, now_s: float) -> SharedSeries:
    """The series as it lies in the bucket now: every complete run, and the last attempt at each other one."""
    held = {key.removeprefix(f"{series}/"): each for key, each in bucket.objects(f"{series}/").items()}
    folders = tuple(f"{folder}/" for folder in layout.whole_runs(held).values())
    names = tuple(name for name in sorted(held) if name.startswith(folders))
    size = sum(held[name].size for name in names if name.endswith(".jsonl"))
    stamp = f"{datetime.fromtimestamp(now_s, UTC):%Y%m%d-%H%M%S-%f}"
    return SharedSeries(bucket, series, stamp, names, size)


def published(bucket: Bucket, series: str, folder: Path) -> Stored | None:
    """The tables that count of a series that was brought to `folder`; None where none were published."""
    if not (folder / layout.POINTER).is_file():
        return None
    generation = str(read_json(folder / layout.POINTER)["generation"])
    name = f"{series}/tables/{generation}"
    held = bucket.objects(f"{name}/")
    tables = frozenset(key.split("/")[-2].removesuffix(".parquet") for key in held if key.endswith(".parquet"))
    if not tables:  # another analysis was published since
        raise StorageError(f"{bucket.location.uri(name)}: these tables are gone; ask again")
    experiment, _, series_id = series.rpartition("/")
    return Stored(experiment, series_id, bucket.location.uri(name), tables, local=False)
