"""The Spark session: quiet, without its UI, with a local master reachable from this machine only, or on a cluster.

For a master that is not in this process: how its workers reach us, and whether they see the results. Nothing of ours
runs on the workers: every transform is made of Spark's built-in functions (a test holds it), so they need neither our
code nor our Python.
"""

import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import java
from analysis.errors import StorageConfigurationError
from barograph.errors import InfrastructureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENDED = (
    "Spark's process ended while it worked; the kernel ends the largest one where memory is short (`dmesg` says so):"
    " free some memory, then give the same command again"
)
STANDALONE = re.compile(r"spark://(?P<host>[^:,/]+):(?P<port>\d+)(,[^:,/]+:\d+)*")
OTHER_MASTERS = ("yarn", "k8s://")
CHECKS_PER_CORE = 4  # by each core: a worker that has no task has not looked
DRIVER_HOST = "BAROGRAPH_SPARK_DRIVER_HOST"
STOP_LIMIT_S = 120.0
CANCEL_S = 0.2


def is_local(master: str) -> bool:
    return master.startswith("local")


def cluster_settings(master: str) -> dict[str, str]:
    """How a cluster's workers reach this process. Raises StorageConfigurationError for a master of no known form."""
    standalone = STANDALONE.fullmatch(master)
    if standalone is None and not master.startswith(OTHER_MASTERS):
        raise StorageConfigurationError(
            f"BAROGRAPH_SPARK_MASTER is {master!r}; give local[*], spark://host:port, yarn or k8s://https://host:port"
        )
    host = os.environ.get(DRIVER_HOST) or (standalone and _own_address(standalone["host"], int(standalone["port"])))
    return {"spark.driver.host": host, "spark.driver.bindAddress": host} if host else {}


def _own_address(host: str, port: int) -> str:
    """The address of this machine that a packet to the master leaves by; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except OSError as error:
            raise StorageConfigurationError(
                f"BAROGRAPH_SPARK_MASTER names {host}:{port}: {error}; mend the name, or set {DRIVER_HOST} to the"
                " address of this machine that the workers can reach"
            ) from error
        return str(probe.getsockname()[0])


def require_shared_folder(spark: "SparkSession", folder: Path) -> None:
    """Every core of the cluster looks for a file that was written here just now. Raises StorageConfigurationError."""
    word = os.urandom(8).hex()
    marker = folder / f"shared-{word}.txt"
    marker.write_text(word, encoding="utf-8")
    try:
        contents = _marker_contents(spark, marker)
    finally:
        marker.unlink(missing_ok=True)
    if contents != {word}:
        raise StorageConfigurationError(
            f"the workers of {spark.sparkContext.master} do not all see {folder}, a folder of this machine; set"
            " BAROGRAPH_RESULTS to s3://bucket/prefix or to a folder that every worker mounts at the same place, or"
            " leave BAROGRAPH_SPARK_MASTER away"
        )


def _marker_contents(spark: "SparkSession", marker: Path) -> set[str]:
    looks = CHECKS_PER_CORE * spark.sparkContext.defaultParallelism
    lines = spark.read.text([f"file://{marker}"] * looks, wholetext=True)
    with contextlib.suppress(Exception):  # whatever way a worker says that it has no such file
        return {row.value for row in lines.repartition(looks).distinct().collect()}
    return set()


def logging_option(file: Path) -> str:
    """As a URI, in which a space is none: Spark cuts the options at spaces, and somebody's folder may have one."""
    return f"-Dlog4j2.configurationFile={file.absolute().as_uri()}"


# On a cluster its own configuration says how much memory there is, how it is collected and how far a shuffle is spread.
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
}
LOGGING = logging_option(Path(__file__).with_name("log4j2.properties"))
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.files.openCostInBytes": "256k",
    # So many folders of files are listed one after the other, which is no job; more of them in so many tasks.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The JVM compiles no method of more bytes. Reading workers' lines has one of nearly so many; with another form of
    # its checks, of 8,661 bytes, it took half as long again. Beyond this Spark makes smaller ones.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}


# A short series is dozens of small queries: what costs is compiling them. Without the JIT's second tier and without
# re-planning between stages they take half of the CPU time (measured); a long one earns both back.
SHORT_BYTES = 200_000_000
# Code: the first tier alone would have 48 MB, which Spark's fills, and then the JVM drops code and compiles it again.
# Classes: from 20 MB on each step of their growth would be a full collection.
SHORT_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=200m"
SHORT_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Each aggregate, join and sort of each task begins with a page; of this heap Spark would make it 32 to 64 MB, and
    # such arrays are born old: a full collection every few queries (64 in three analyses, 2 in two with this).
    "spark.buffer.pageSize": "1m",
}


def jar_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Of a session that has these jars beside Spark's own."""
    return {"spark.jars": ",".join(str(jar) for jar in jars)} if jars else {}


def with_jar(settings: Mapping[str, str], jar: Path) -> dict[str, str]:
    """The settings, and one jar more."""
    jars = [each for each in settings.get("spark.jars", "").split(",") if each]
    return {**settings, "spark.jars": ",".join([*jars, str(jar)])}


@contextmanager
def stopped_afterwards(spark: "SparkSession") -> Iterator[None]:
    """Stop it after the block. Raises InfrastructureError where its process ended in it, whatever that failed first, or
    does not stop: then it is killed."""
    try:
        yield
    except Exception:
        _stop(spark)
        raise
    except BaseException:  # whoever asks for the end gets it, however Spark ends
        with contextlib.suppress(Exception):
            _stop(spark)
        raise
    else:
        _stop(spark)


def _stop(spark: "SparkSession") -> None:
    from py4j.protocol import Py4JError

    failures: list[Exception] = []

    def stop() -> None:
        try:
            spark.stop()
        except Exception as error:  # noqa: BLE001 - raised below, where somebody hears of it
            failures.append(error)

    jvm = getattr(spark.sparkContext._gateway, "proc", None)  # it may be somebody else's
    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    stopping.join(STOP_LIMIT_S)
    if stopping.is_alive():
        what = f"Spark's process did not stop within {STOP_LIMIT_S:g} s"
        if jvm is None:
            raise InfrastructureError(what)
        jvm.kill()
        raise InfrastructureError(f"{what} and was killed")
    for failure in failures:
        if isinstance(failure, OSError | Py4JError):
            raise InfrastructureError(ENDED) from failure
        raise failure


def spark(master: str = "local[*]", raw_bytes: int = 0, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """A session on `master`, tuned for about `raw_bytes` of raw lines; the caller stops it. `settings` go first.

    Raises ConfigurationError.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("barograph")
    options = {**options_of(master, raw_bytes), **(settings or {})}
    for key, value in options.items():
        builder = builder.config(key, value)
    with defer_signals(), java.named_to_spark():
        return builder.getOrCreate()


def side_by_side(spark: "SparkSession", steps: Sequence[Callable[[], None]]) -> None:
    """Do steps that need nothing of each other at once: while one plans its query, the cores compute another's.

    Raises what the first of them raised, when none is under way any more. An interrupt ends them, too.
    """
    stopping, active = threading.Event(), list[Callable[[], None]]()

    def run(step: Callable[[], None]) -> None:
        active.append(step)
        try:
            if not stopping.is_set():
                step()
        finally:
            active.remove(step)

    with ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)))) as pool:
        try:
            futures = [pool.submit(run, step) for step in steps]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            stopping.set()
            _end_steps(spark, active)
            raise


def _end_steps(spark: "SparkSession", active: Sequence[Callable[[], None]]) -> None:
    """Cancel their jobs until none is under way; a step may go on to its next query. One that nothing ends within the
    limit loses Spark's process. A second interruption makes this no shorter: what goes on would write still."""

    def cancel() -> None:
        while active:
            with contextlib.suppress(Exception):  # where Spark's process has ended, steps fail by themselves
                spark.sparkContext.cancelAllJobs()
            time.sleep(CANCEL_S)

    threading.Thread(target=cancel, daemon=True).start()
    deadline_s = time.monotonic() + STOP_LIMIT_S
    while active and time.monotonic() < deadline_s:
        with contextlib.suppress(BaseException):
            time.sleep(CANCEL_S)
    if active and (jvm := getattr(spark.sparkContext._gateway, "proc", None)) is not None:
        jvm.kill()


def is_alive() -> bool:
    """Whether there is a session whose process answers."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    try:
        current = SparkSession.getActiveSession()
        return current is not None and not current.sparkContext._jsc.sc().isStopped()
    except (OSError, Py4JError):
        return False


@contextmanager
def shared_session(
    master: str = "local[*]", raw_bytes: int = 0, settings: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """A session for the block, stopped afterwards; in a block that has one, that one: a series after the other then
    shares it. Raises InfrastructureError."""
    from pyspark.sql import SparkSession

    if (outer := SparkSession.getActiveSession()) is not None:
        yield outer
        return
    own = spark(master, raw_bytes, settings)
    with stopped_afterwards(own):
        yield own


def options_of(master: str, raw_bytes: int) -> dict[str, str]:
    """The settings of a session on `master` for about `raw_bytes` of raw lines."""
    if not is_local(master):
        # Beside the flags of the cluster's own configuration, not in their place.
        return SETTINGS | cluster_settings(master) | {"spark.driver.defaultJavaOptions": LOGGING}
    options = SETTINGS | LOCAL
    memory_mb = local_memory_mb()
    java = [LOGGING, heap_options(memory_mb)]
    if raw_bytes < SHORT_BYTES:
        options |= SHORT_SETTINGS
        java.append(SHORT_OPTIONS)
    return options | {"spark.driver.memory": f"{memory_mb}m", "spark.driver.extraJavaOptions": " ".join(java)}


MOST_MEMORY_MB, LEAST_MEMORY_MB = 3072, 1024
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def local_memory_mb(limits: Sequence[Path] = CGROUP_LIMITS) -> int:
    """For a local Spark's heap: 3 GB, or half of what this machine or its container has, but 1 GB at least."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        with contextlib.suppress(OSError, ValueError):  # another kind of cgroup, or `max`
            found.append(int(limit.read_text()))
    return max(LEAST_MEMORY_MB, min(MOST_MEMORY_MB, min(found) // 2**21))


def heap_options(memory_mb: int) -> str:
    """The sizes of this heap are those that it begins with: where nothing says so, a 64th of the machine's memory. What
    an analysis holds then no longer fits, and the JVM does nothing but collect, for hours, with most of its memory
    unused (seen in the tests' session: 502 full collections on 258 MB of 3 GB).
    """
    return f"-XX:+UseParallelGC -XX:-UseAdaptiveSizePolicy -Xms{memory_mb}m -Xmn{memory_mb // 6}m"


@contextmanager
def defer_signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP wait for the end of the block; off the main thread signals are somebody else's.

    PySpark that is interrupted while it waits for its JVM removes the folder in which the JVM is about to say where it
    listens. The JVM's main thread ends with that error before it has looked at its standard input, whose end is the
    sign to go; its server's thread runs on for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    deferred = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in deferred}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(came):
            os.kill(os.getpid(), each)
