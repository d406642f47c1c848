"""What a session is told of a cluster and of a bucket, without starting one."""

import ast
import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from analysis import session
from analysis.errors import StorageConfigurationError, StorageError
from analysis.storage import maven, spark_s3
from barograph.settings import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_EXECUTORS = {
    "udf", "pandas_udf", "udtf", "rdd", "mapInPandas", "mapInArrow", "applyInPandas", "foreach", "foreachPartition",
    "foreachBatch", "addPyFile", "parallelize", "createDataFrame",
}  # fmt: skip
BY_ARROW = (
    "analysis/record/small_tables.py: createDataFrame"  # of a list it would be Python on an executor that unpickles it
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", session.DRIVER_HOST):
        monkeypatch.delenv(name, raising=False)


def test_a_folder_with_a_space_is_one_word_to_the_jvm() -> None:
    assert session.logging_option(Path("/my work/x")) == "-Dlog4j2.configurationFile=file:///my%20work/x"
    options = session.options_of("local[*]", 0)["spark.driver.extraJavaOptions"]
    (option,) = [word for word in options.split() if "log4j2" in word]
    assert option == session.logging_option(ROOT / "analysis" / "log4j2.properties")


def test_workers_are_told_the_address_that_the_way_to_the_master_leaves_by(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    assert session.cluster_settings("spark://127.0.0.1:7077") == expected
    assert session.cluster_settings("yarn") == session.cluster_settings("k8s://https://10.0.0.1:6443") == {}
    monkeypatch.setenv(session.DRIVER_HOST, "127.0.0.9")
    assert session.cluster_settings("k8s://https://10.0.0.1:6443")["spark.driver.host"] == "127.0.0.9"
    assert session.cluster_settings("spark://127.0.0.1:7077")["spark.driver.bindAddress"] == "127.0.0.9"


@pytest.mark.parametrize("raw_bytes", [0, 10 * session.SHORT_BYTES])
def test_a_cluster_keeps_its_own_memory_and_partitions(raw_bytes: int) -> None:
    """What is tuned for the cores and the memory of one box stays on it."""
    tuned = {"spark.driver.memory", "spark.sql.shuffle.partitions"}
    assert tuned <= session.options_of("local[*]", raw_bytes).keys()
    on_cluster = session.options_of("spark://127.0.0.1:7077", raw_bytes)
    assert not on_cluster.keys() & (tuned | session.SHORT_SETTINGS.keys())
    assert "spark.driver.extraJavaOptions" not in on_cluster
    assert on_cluster["spark.driver.defaultJavaOptions"] == session.LOGGING


@pytest.mark.parametrize(
    ("limit", "memory_mb"), [("max", 3072), (str(2**62), 3072), (str(4 * 2**30), 2048), ("9", 1024)]
)
def test_a_container_gets_a_heap_of_half_of_what_it_has(limit: str, memory_mb: int, tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    file.write_text(f"{limit}\n")
    whole = session.local_memory_mb([tmp_path / "absent"])
    assert session.local_memory_mb([tmp_path / "absent", file]) == min(whole, memory_mb)


@pytest.mark.spark
def test_the_heap_begins_as_large_as_it_may_become(spark: "SparkSession") -> None:
    """Its sizes are fixed: one that began smaller was collected for ever as soon as it was full."""
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    assert runtime.maxMemory() > 0.9e6 * session.local_memory_mb()  # without the second survivor space
    assert runtime.totalMemory() > 0.98 * runtime.maxMemory()


@pytest.mark.parametrize("master", ["spark://", "spark://host", "10.0.0.5:7077", "mesos://h:1", "Local"])
def test_a_master_of_no_known_form(master: str) -> None:
    with pytest.raises(StorageConfigurationError, match=r"give local\[\*\], spark://host:port, yarn or k8s://"):
        session.cluster_settings(master)


def test_nothing_of_ours_runs_on_executors() -> None:
    """docs/operations.md promises that workers need neither our code nor our Python."""
    used = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "analysis").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in [node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""]
        if name in ON_EXECUTORS
    }
    assert used == {BY_ARROW}


def test_another_service_is_told_as_boto3_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    jars = (Path("/cache/a.jar"), Path("/cache/b.jar"))
    assert spark_s3.s3a_settings(jars)["spark.jars"] == "/cache/a.jar,/cache/b.jar"
    assert not any("endpoint" in key for key in spark_s3.s3a_settings(jars))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    told = {key.removeprefix("spark.hadoop.fs.s3a."): value for key, value in spark_s3.s3a_settings(jars).items()}
    assert told["endpoint"] == "http://127.0.0.1:5000" and told["endpoint.region"] == "eu-north-1"
    assert (told["path.style.access"], told["connection.ssl.enabled"]) == ("true", "false")


def test_the_jars_are_of_pysparks_hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_s3.require_same_hadoop()
    other = tmp_path / "pom.xml"
    other.write_text(spark_s3.POM.read_text().replace("<hadoop.version>", "<hadoop.version>9."))
    monkeypatch.setattr(spark_s3, "POM", other)
    with pytest.raises(StorageConfigurationError, match=r"ships Hadoop \d.*set its hadoop\.version"):
        spark_s3.jars(tmp_path, pytest.fail)


@pytest.fixture
def maven_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its Maven brings a jar that is none, and adds its arguments to this file."""
    programs = tmp_path / "bin"
    programs.mkdir()
    mvn = programs / "mvn"
    mvn.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        'for last; do :; done; folder=${last#-DoutputDirectory=}; mkdir -p "$folder"\n'
        f'echo > "$folder/{maven.AVRO_NAME}.jar"\n'
    )
    mvn.chmod(0o755)
    (programs / "java").symlink_to(mvn)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path / "calls"


def test_a_jar_of_other_bytes_is_not_used(tmp_path: Path, maven_calls: Path) -> None:
    with pytest.raises(StorageError, match=f"but {maven.AVRO_SHA_256} is wanted"):
        maven.avro_jar(tmp_path / "cache", lambda _: None)
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [".jars.lock"]
    assert "--strict-checksums" in maven_calls.read_text()


def test_jars_are_fetched_once_and_what_a_killed_fetch_left_goes(tmp_path: Path, maven_calls: Path) -> None:
    left = tmp_path / "cache" / ".jars-killed"
    left.mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: maven.fetch(tmp_path / "cache" / "some", []), range(4)))
    assert len(maven_calls.read_text().splitlines()) == 1 and not left.exists()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, maven_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr(Path, "mkdir", refuse)  # root may write anywhere
    with pytest.raises(StorageConfigurationError, match=r"cache cannot be written .* BAROGRAPH_CACHE"):
        maven.fetch(tmp_path / "cache" / "some", [])


SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
<mirror><id>z</id><mirrorOf>*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
<mirror><id>a</id><mirrorOf>internal</mirrorOf><url>https://other.example.org/maven</url></mirror>
<mirror><id>b</id><mirrorOf>central</mirrorOf><url>https://ann:secret@nexus.example.org/maven</url></mirror>
<mirror><id>c</id><mirrorOf>external:*,!mine</mirrorOf><url>PLACE</url></mirror>
</mirrors></settings>"""


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served in place of Maven Central, on a box without Maven."""
    served = tmp_path / "central"
    served.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(served)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(
        shutil, "which", lambda program, which=shutil.which: None if program == "mvn" else which(program)
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(SETTINGS.replace("PLACE", f"http://127.0.0.1:{server.server_port}/"))
    monkeypatch.delenv("https_proxy", raising=False)
    yield served
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_without_maven_one_jar_comes_from_the_mirror_of_mavens_settings(
    tmp_path: Path, central: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = central / "org/apache/spark/spark-avro_2.13/4.1.1/spark-avro_2.13-4.1.1.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(content := b"a jar" * 100_000)
    with pytest.raises(StorageError, match=f"but {maven.AVRO_SHA_256} is wanted"):
        maven.avro_jar(tmp_path / "cache", lambda _: None)
    monkeypatch.setattr(maven, "AVRO_SHA_256", hashlib.sha256(content).hexdigest())
    assert maven.avro_jar(tmp_path / "cache", lambda _: None).read_bytes() == content
    jar.unlink()
    maven.avro_jar(tmp_path / "cache", pytest.fail)
    assert [*maven.mirrors().values()] == ["internal", "external:*,!mine"]  # not what is blocked, or has a password
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    assert maven.mirrors() == {}


def test_what_central_does_not_give_is_named_and_leaves_nothing(tmp_path: Path, central: Path) -> None:
    with pytest.raises(StorageError, match=r"ended with 1: .*spark-avro_2.13-4.1.1.jar.* not found"):
        maven.avro_jar(tmp_path / "cache", lambda _: None)
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [".jars.lock"]


def test_jars_that_are_there_are_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageConfigurationError, match="apt-get install maven"):
        spark_s3.jars(tmp_path, lambda _: None)
    (folder := tmp_path / f"s3a-{spark_s3.jars_digest()}").mkdir()
    (folder / "hadoop-aws.jar").touch()
    assert spark_s3.jars(tmp_path, pytest.fail) == (folder / "hadoop-aws.jar",)
    (tmp_path / maven.AVRO_NAME).mkdir()
    assert maven.avro_jar(tmp_path, pytest.fail) == tmp_path / maven.AVRO_NAME / f"{maven.AVRO_NAME}.jar"
