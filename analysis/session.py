"""The Spark session: quiet, without its UI, with a local master reachable from this machine only, or on a cluster.

For a master outside of this process: how its workers reach us, and whether they see the results. None of our code
runs on the workers: every transform is made of Spark's built-in functions (a test checks it), so they need neither our
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
from typing import TYPE_CHECKING, Any

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
CHECKS_PER_CORE = 4  # for each core: a worker without a task has not looked for the file
DRIVER_HOST = "BAROGRAPH_SPARK_DRIVER_HOST"
STOP_LIMIT_S = 120.0
CANCEL_S = 0.2


def is_local(master: str) -> bool:
    return master.startswith("local")


def cluster_settings(master: str) -> dict[str, str]:
    """Return settings by which a cluster's workers reach us. Raises StorageConfigurationError."""
    standalone = STANDALONE.fullmatch(master)
    if standalone is None and not master.startswith(OTHER_MASTERS):
        raise StorageConfigurationError(
            f"BAROGRAPH_SPARK_MASTER is {master!r}; give local[*], spark://host:port, yarn or k8s://https://host:port"
        )
    host = os.environ.get(DRIVER_HOST)
    if not host and standalone:  # the address of this machine from which a packet to the master leaves; none is sent
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((standalone["host"], int(standalone["port"])))
            except OSError as error:
                raise StorageConfigurationError(
                    f"BAROGRAPH_SPARK_MASTER names {standalone['host']}:{standalone['port']}: {error}; mend the name,"
                    f" or set {DRIVER_HOST} to the address of this machine that the workers can reach"
                ) from error
            host = str(probe.getsockname()[0])
    return {"spark.driver.host": host, "spark.driver.bindAddress": host} if host else {}


def require_shared_folder(spark: "SparkSession", folder: Path) -> None:
    """Let every core of the cluster look for a file that was just written here. Raises StorageConfigurationError."""
    word, looks = os.urandom(8).hex(), CHECKS_PER_CORE * spark.sparkContext.defaultParallelism
    marker, contents = folder / f"shared-{word}.txt", set[str]()
    marker.write_text(word, encoding="utf-8")
    try:
        with contextlib.suppress(Exception):  # workers report a missing file in many ways
            lines = spark.read.text([f"file://{marker}"] * looks, wholetext=True)
            contents = {row.value for row in lines.repartition(looks).distinct().collect()}
    finally:
        marker.unlink(missing_ok=True)
    if contents != {word}:
        raise StorageConfigurationError(
            f"the workers of {spark.sparkContext.master} do not all see {folder}, a folder of this machine; set"
            " BAROGRAPH_RESULTS to s3://bucket/prefix or to a folder that every worker mounts at the same place, or"
            " leave BAROGRAPH_SPARK_MASTER away"
        )


def literal_uri(path: Path) -> str:
    """Return what Spark reads this one path of this machine by: it takes some characters of a path for a pattern."""
    return "file://" + re.sub(r"[][{}*?\\]", r"\\\g<0>", str(path.absolute()))


def logging_option(file: Path) -> str:
    """Return a URI, which has no spaces: Spark splits options at spaces, and a home folder may contain one."""
    return f"-Dlog4j2.configurationFile={file.absolute().as_uri()}"


# On a cluster its own configuration sets memory, garbage collection and the number of shuffle partitions.
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
    # Up to so many folders are listed one after the other without a job; more of them in so many tasks.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The JVM does not compile larger methods. The one that reads workers' lines is nearly as large; when its checks
    # made it 8,661 bytes, it took half as long again. Beyond this limit Spark makes smaller ones.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}


# A short series is dozens of small queries, and compiling them costs most. Without the JIT's second tier and without
# re-planning between stages they take half of the CPU time (measured); for a long series both pay off.
SHORT_BYTES = 200_000_000
# Code: the first tier alone would have 48 MB, which Spark's code fills; the JVM then drops code and compiles it again.
# Classes: from 20 MB on each step of their growth would be a full collection.
SHORT_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=200m"
SHORT_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Each aggregate, join and sort of each task begins with a page; with this heap Spark would make it 32 to 64 MB, and
    # such arrays are allocated old: a full collection every few queries (64 in three analyses, 2 in two with this).
    "spark.buffer.pageSize": "1m",
}


def jar_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Return settings of a session that has these jars beside Spark's own."""
    return {"spark.jars": ",".join(str(jar) for jar in jars)} if jars else {}


def with_jar(settings: Mapping[str, str], jar: Path) -> dict[str, str]:
    """Return the settings with one more jar."""
    jars = [each for each in settings.get("spark.jars", "").split(",") if each]
    return {**settings, "spark.jars": ",".join([*jars, str(jar)])}


@contextmanager
def stopped_afterwards(spark: "SparkSession") -> Iterator[None]:
    """Stop the session after the block. Raises InfrastructureError if its process ended in the block, whatever failed
    first, or if it does not stop; then it is killed."""
    try:
        yield
    except Exception:
        _stop(spark)
        raise
    except BaseException:  # pass an interrupt on even if Spark fails to stop
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
        except Exception as error:  # noqa: BLE001 - raised below, where it is reported
            failures.append(error)

    jvm = getattr(spark.sparkContext._gateway, "proc", None)  # it may belong to another process
    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(STOP_LIMIT_S)
    if thread.is_alive():
        message = f"Spark's process did not stop within {STOP_LIMIT_S:g} s"
        if jvm is None:
            raise InfrastructureError(message)
        jvm.kill()
        raise InfrastructureError(f"{message} and was killed")
    for failure in failures:
        if isinstance(failure, OSError | Py4JError):
            raise InfrastructureError(ENDED) from failure
        raise failure


def spark(master: str = "local[*]", raw_bytes: int = 0, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Return a session on `master`, tuned for about `raw_bytes` of raw lines; the caller stops it. `settings` take
    precedence.

    Raises ConfigurationError.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local(master):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options: dict[str, Any] = {**options_of(master, raw_bytes), **(settings or {})}
    builder = SparkSession.builder.master(master).appName("barograph").config(map=options)
    with defer_signals(), java.named_to_spark():
        return builder.getOrCreate()


def side_by_side(spark: "SparkSession", steps: Sequence[Callable[[], None]]) -> None:
    """Run independent steps at once: while one plans its query, the cores compute another's.

    Raises the first error after all steps have ended. An interrupt ends them, too.
    """
    stop_event, current_steps = threading.Event(), list[Callable[[], None]]()

    def run(step: Callable[[], None]) -> None:
        current_steps.append(step)
        try:
            if not stop_event.is_set():
                step()
        finally:
            current_steps.remove(step)

    with ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)))) as pool:
        try:
            futures = [pool.submit(run, step) for step in steps]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            stop_event.set()
            _end_steps(spark, current_steps)
            raise


def _end_steps(spark: "SparkSession", active: Sequence[Callable[[], None]]) -> None:
    """Cancel the steps' jobs until all have ended; a step may go on to its next query. If one goes on beyond the limit,
    Spark's process is killed. A second interrupt does not shorten this, because running steps would still write."""

    def cancel() -> None:
        while active:
            with contextlib.suppress(Exception):  # if Spark's process has ended, steps fail by themselves
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
    """Return whether there is a session whose process answers."""
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
    """Yield the current session, or a new one that is stopped after the block. Raises InfrastructureError."""
    from pyspark.sql import SparkSession

    if (outer := SparkSession.getActiveSession()) is not None:
        yield outer
        return
    session = spark(master, raw_bytes, settings)
    with stopped_afterwards(session):
        yield session


def options_of(master: str, raw_bytes: int) -> dict[str, str]:
    """Return the settings of a session on `master` for about `raw_bytes` of raw lines."""
    if not is_local(master):
        # In addition to the flags of the cluster's own configuration.
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
    """Return a local Spark's heap: 3 GB, or half of the machine's or container's memory, at least 1 GB."""
    limits_bytes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in limits:
        with contextlib.suppress(OSError, ValueError):  # another kind of cgroup, or `max`
            limits_bytes.append(int(limit.read_text()))
    return max(LEAST_MEMORY_MB, min(MOST_MEMORY_MB, min(limits_bytes) // 2**21))


def heap_options(memory_mb: int) -> str:
    """Return options that start with the heap's full size: by default it starts with a 64th of the machine's memory,
    and if the analysis' data does not fit, the JVM only collects, for hours, with most of its memory unused (in the
    tests' session: 502 full collections on 258 MB of 3 GB).
    """
    return f"-XX:+UseParallelGC -XX:-UseAdaptiveSizePolicy -Xms{memory_mb}m -Xmn{memory_mb // 6}m"


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP until the end of the block; outside of the main thread signals are left alone.

    If PySpark is interrupted while it waits for its JVM, it removes the folder in which the JVM is about to write its
    port. The JVM's main thread ends with that error before it has read its standard input, whose end is the
    signal to exit; its server's thread then runs for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _frame: signals.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(signals):
            os.kill(os.getpid(), each)
