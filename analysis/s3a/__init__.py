"""Spark and S3: the jars that PySpark does not ship, fetched when they are first needed, and how they are set."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from analysis.errors import StorageConfigurationError, StorageError
from analysis.storage.bucket import endpoint

POM = Path(__file__).with_name("pom.xml")
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies"
LIMIT_S = 1800
PROVIDERS = (
    # What this process has in its environment; Spark hands it on to the workers.
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    # Profile, container, service account, machine.
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)


def jars(cache: Path, tell: Callable[[str], None]) -> tuple[Path, ...]:
    """The jars, in a folder of `cache` named by what the pom says. Half a minute and 15 MB the first time."""
    require_same_hadoop()
    folder = cache / f"s3a-{fingerprint()}"
    if not folder.is_dir():
        tell("s3a for Spark: fetching its jars with Maven")
        _fetch(cache, folder)
    return tuple(sorted(folder.glob("*.jar")))


def fingerprint() -> str:
    return hashlib.sha256(POM.read_bytes()).hexdigest()[:16]


def _fetch(cache: Path, folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise StorageConfigurationError(
            "mvn is not installed; Spark's access to S3 is fetched with it. Install it with: apt-get install maven"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".s3a-", dir=cache) as scratch:
        out = Path(scratch) / "jars"
        argv = ["mvn", "-B", "-q", "-f", str(POM), GOAL, f"-DoutputDirectory={out}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            last = " ".join((done.stdout + done.stderr).split())[-600:]
            raise StorageError(f"mvn -f {POM} {GOAL} ended with {done.returncode}: {last}")
        if not folder.is_dir():  # somebody else was quicker
            out.rename(folder)


def require_same_hadoop() -> None:
    """A pom that was not changed with PySpark would fail in the middle of an analysis with a missing class."""
    import pyspark

    shipped = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    version = shipped[0].stem.removeprefix("hadoop-client-api-") if shipped else "none"
    if f"<hadoop.version>{version}</hadoop.version>" not in POM.read_text(encoding="utf-8"):
        raise StorageConfigurationError(
            f"PySpark {pyspark.__version__} ships Hadoop {version}, {POM} is for another; set its hadoop.version to"
            " that one, and awssdk.version to the AWS SDK that this hadoop-aws names"
        )


def settings(found: Sequence[Path]) -> dict[str, str]:
    """Of a session that reads and writes s3a with these jars."""
    chosen = {
        "spark.jars": ",".join(str(jar) for jar in found),
        "spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(PROVIDERS),
        # Nobody reads a generation of tables before it is published, so a task's files may appear as it ends: the
        # other way copies every byte once more, for S3 has no rename.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        chosen["spark.hadoop.fs.s3a.endpoint.region"] = region
    if other := endpoint():
        chosen |= {
            "spark.hadoop.fs.s3a.endpoint": other,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(other.startswith("https:")).lower(),
        }
    return chosen
