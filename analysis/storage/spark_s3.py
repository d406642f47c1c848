"""Spark and S3: the jars that PySpark does not ship, fetched when they are first needed, the settings of a session with
them, and a series in a bucket while it is analysed.

Spark reads the raw lines of such a series there and writes a new generation of tables. A generation is read only
after `tables.json` names it, so tables are never half-written or of different analyses; the previous one is
kept until the next, for its current readers.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from analysis.errors import StorageConfigurationError, StorageError
from analysis.record.files import RAW_SUFFIXES, bytes_as_json, read_json
from analysis.sql import SeriesTables
from analysis.storage import layout, maven
from analysis.storage.bucket import Bucket, NoSuchObject, endpoint
from analysis.storage.transfer import in_parallel, send_files

POM = Path(__file__).with_name("pom.xml")
CREDENTIAL_PROVIDERS = (
    # The environment of this process; Spark passes it on to the workers.
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    # Profile, container, service account, machine.
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)


def jars(cache: Path, tell: Callable[[str], None]) -> tuple[Path, ...]:
    """Return the jars, in a folder of `cache` named by the pom's content. Half a minute and 15 MB the first time."""
    require_same_hadoop()
    folder = cache / f"s3a-{jars_digest()}"
    if not folder.is_dir():
        tell("s3a for Spark: fetching its jars with Maven")
        maven.fetch(folder, ["-f", str(POM), f"{maven.PLUGIN}:copy-dependencies"])
    return tuple(sorted(folder.glob("*.jar")))


def jars_digest() -> str:
    return hashlib.sha256(POM.read_bytes()).hexdigest()[:16]


def require_same_hadoop() -> None:
    """Raise if the pom's Hadoop is not PySpark's: an analysis would fail half-way with a missing class."""
    import pyspark

    shipped = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    version = shipped[0].stem.removeprefix("hadoop-client-api-") if shipped else "none"
    if f"<hadoop.version>{version}</hadoop.version>" not in POM.read_text(encoding="utf-8"):
        raise StorageConfigurationError(
            f"PySpark {pyspark.__version__} ships Hadoop {version}, {POM} is for another; set its hadoop.version to"
            " that one, and awssdk.version to the AWS SDK that this hadoop-aws names"
        )


def s3a_settings(found: Sequence[Path]) -> dict[str, str]:
    """Return settings of a session that reads and writes s3a with these jars."""
    settings = {
        "spark.jars": ",".join(str(jar) for jar in found),
        "spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(CREDENTIAL_PROVIDERS),
        # Nobody reads a generation of tables before it is published, so a task's files may appear as it ends: the
        # other way copies every byte once more, for S3 has no rename.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    if other := endpoint():
        settings |= {
            "spark.hadoop.fs.s3a.endpoint": other,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(other.startswith("https:")).lower(),
        }
    return settings


@dataclass(frozen=True)
class SharedSeries:
    """A series in a bucket during its analysis. `sizes`: bytes of all raw files, by name."""

    bucket: Bucket
    series: str
    generation: str
    sizes: Mapping[str, int]

    @property
    def raw_bytes(self) -> int:
        """Return the bytes of the raw files' lines."""
        return sum(bytes_as_json(name, size) for name, size in self.sizes.items())

    def raw_files(self, part: str) -> list[str]:
        """Return URIs of the lines of one part of every run: a folder (`workers`) or a file (`events.jsonl`)."""
        names = (name for name in self.sizes if name.split("/")[2] == part and name.endswith(RAW_SUFFIXES))
        return [self.bucket.location.uri(f"{self.series}/{name}") for name in names]

    def table(self, name: str) -> str:
        return self.bucket.location.uri(self._table(name))

    def send_table(self, name: str, folder: Path) -> None:
        """Send a small table that was written without Spark, so that Spark can read it."""
        files = {f"{self._table(name)}/{file.name}": file for file in folder.iterdir()}
        send_files(self.bucket, files, {})

    def fetch_table(self, name: str, folder: Path) -> None:
        """Fetch a small table that Spark wrote, so that we can read it."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        keys = [key for key in self.bucket.objects(f"{self._table(name)}/") if key.endswith(".parquet")]
        in_parallel(lambda key: self.bucket.fetch(key, folder / key.rpartition("/")[2]), keys)

    def drop_table(self, name: str) -> None:
        self.bucket.remove(list(self.bucket.objects(f"{self._table(name)}/")))

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish the tables written in the block when it ends without an error, else remove them."""
        try:
            yield
        except BaseException:
            with suppress(StorageError):  # the next analysis removes it
                self.abandon()
            raise
        self.publish()

    def publish(self) -> None:
        """Make these the current tables of the series."""
        pointer, before = f"{self.series}/{layout.POINTER}", None
        with suppress(NoSuchObject):
            before = str(json.loads(self.bucket.read(pointer)[0])["generation"])
        body = {"v": 1, "generation": self.generation, "before": before}
        self.bucket.write(pointer, json.dumps(body).encode())
        prefix = f"{self.series}/tables/"
        names = [(key, key.removeprefix(prefix).split("/")[0]) for key in self.bucket.objects(prefix)]
        self.bucket.remove([key for key, name in names if name not in (self.generation, before)])

    def abandon(self) -> None:
        """Remove the tables of a failed analysis."""
        self.bucket.remove(list(self.bucket.objects(f"{self.series}/tables/{self.generation}/")))

    def _table(self, name: str) -> str:
        return f"{self.series}/tables/{self.generation}/{name}.parquet"


def open_shared(bucket: Bucket, series: str, now_s: float) -> SharedSeries:
    """Return the series as it is in the bucket now: every complete run, and the last attempt at each other one."""
    objects = {key.removeprefix(f"{series}/"): each for key, each in bucket.objects(f"{series}/").items()}
    folders = tuple(f"{folder}/" for folder in layout.run_folders(objects).values())
    sizes = {name: objects[name].size for name in sorted(objects) if name.startswith(folders)}
    stamp = f"{datetime.fromtimestamp(now_s, UTC):%Y%m%d-%H%M%S-%f}"
    return SharedSeries(bucket, series, stamp, sizes)


def current_tables(bucket: Bucket, series: str, folder: Path) -> SeriesTables | None:
    """Return the current tables of a series that was brought to `folder`; None if none were published."""
    if not (folder / layout.POINTER).is_file():
        return None
    generation = str(read_json(folder / layout.POINTER)["generation"])
    name = f"{series}/tables/{generation}"
    objects = bucket.objects(f"{name}/")
    tables = frozenset(key.split("/")[-2].removesuffix(".parquet") for key in objects if key.endswith(".parquet"))
    if not tables:  # another analysis was published since
        raise StorageError(f"{bucket.location.uri(name)}: these tables are gone; ask again")
    experiment, _, series_id = series.rpartition("/")
    return SeriesTables(experiment, series_id, bucket.location.uri(name), tables, local=False)
