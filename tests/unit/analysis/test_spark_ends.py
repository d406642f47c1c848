"""Spark's JVM ends with the process that started it, however and whenever that one is told to end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from analysis import session
from analysis.session import defer_signals
from barograph.settings import ROOT
from tests.golden import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANALYSIS = """
import sys
from analysis.pipeline import analyse
from barograph.series.interruption import interruptible
from tests.support.avro_jar import jars
with interruptible():
    analyse(sys.argv[1], "local[1]", jars=jars())
"""


def processes() -> dict[int, tuple[int, str]]:
    """By pid: the parent's pid and the state; those that end while we look are not there."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        found[int(path.parent.name)] = (int(parent), state)
    return found


def await_child(process: subprocess.Popen[bytes]) -> int:
    while True:
        assert process.poll() is None
        for pid, (parent, _) in processes().items():
            if parent == process.pid:
                return pid  # spark-submit, which becomes the JVM
        time.sleep(0.01)


def await_end(pid: int) -> None:
    """pytest's timeout ends what hangs; before the mend an interrupted start left a JVM for ever."""
    while processes().get(pid, (0, "Z"))[1] not in "ZX":
        time.sleep(0.1)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("number", "at_work"),
    [
        pytest.param(signal.SIGTERM, False, id="term while it starts", marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, True, id="kill at work"),
        pytest.param(signal.SIGTERM, True, id="term at work", marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, False, id="kill while it starts", marks=pytest.mark.long),
    ],
)
def test_no_jvm_is_left_behind(number: signal.Signals, at_work: bool, tmp_path: Path) -> None:
    series = tmp_path / "20261121-000000-abcdef01"
    records.write_series(series, repetitions=1)
    process = subprocess.Popen([sys.executable, "-c", ANALYSIS, str(series)], cwd=ROOT, stderr=subprocess.DEVNULL)
    jvm = await_child(process)
    try:
        while at_work and not (series / "tables" / "worker_lines.parquet").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        process.wait()
        await_end(jvm)
        assert process.returncode not in (0, None)
    finally:
        process.kill()
        process.wait()


HUNG = """
import os, signal
from analysis import session
from barograph.errors import InfrastructureError
session.STOP_LIMIT_S = 2.0
spark = session.spark("local[1]")
jvm = spark.sparkContext._gateway.proc
try:
    with session.stopped_afterwards(spark):
        os.kill(jvm.pid, signal.SIGSTOP)
except InfrastructureError as error:
    print(error, jvm.wait())
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_jvm_that_does_not_stop_is_killed() -> None:
    found = subprocess.run([sys.executable, "-c", HUNG], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == "Spark's process did not stop within 2 s and was killed -9\n"
    assert found.returncode == 0


@pytest.mark.spark
def test_a_jvm_that_the_kernel_ends_is_named(tmp_path: Path) -> None:
    series = tmp_path / "20261121-000000-abcdef01"
    records.write_series(series, repetitions=1)
    # What a killed JVM has made stays.
    folders = {"SPARK_LOCAL_DIRS": str(tmp_path), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={tmp_path}"}
    process = subprocess.Popen(
        [sys.executable, "-c", ANALYSIS, str(series)], cwd=ROOT, env={**os.environ, **folders},
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    jvm = await_child(process)
    while not (series / "tables" / "worker_lines.parquet").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(jvm, signal.SIGKILL)
    assert (
        process.communicate()[1]
        .decode()
        .rstrip()
        .splitlines()[-1]
        .startswith("barograph.errors.InfrastructureError: Spark's")
    )


def test_a_signal_waits_for_the_end_of_the_block_and_is_not_lost() -> None:
    came: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append("signal"))
    try:
        with defer_signals():
            signal.raise_signal(signal.SIGTERM)
            came.append("block")
        assert came == ["block", "signal"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.spark
def test_a_step_that_fails_ends_those_beside_it(spark: "SparkSession") -> None:
    """A query that would take for ever; pytest's timeout ends this test where it is not cancelled."""
    began, ended = threading.Event(), list[BaseException]()

    def endless() -> None:
        began.set()
        try:
            spark.range(10**15).selectExpr("max(hash(id))").collect()
        except BaseException as error:
            ended.append(error)
            raise

    def fails() -> None:
        began.wait()
        raise ValueError("no such table")

    with pytest.raises(ValueError, match="no such table"):
        session.side_by_side(spark, [endless, fails, endless])
    assert ended
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_an_interrupt_ends_every_step(spark: "SparkSession") -> None:
    """It comes to the thread that waits."""

    def interrupts_and_goes_on() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        spark.range(10**15).selectExpr("max(hash(id))").collect()

    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(InterruptedError):
            session.side_by_side(spark, [interrupts_and_goes_on])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert spark.range(3).count() == 3


def test_a_step_that_nothing_ends_loses_sparks_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for that process, and no job of it is to be cancelled."""
    monkeypatch.setattr(session, "STOP_LIMIT_S", 0.5)
    began, ended = threading.Event(), threading.Event()

    def stuck() -> None:
        began.set()
        ended.wait()

    def fails() -> None:
        began.wait()
        raise ValueError("no such table")

    jvm = SimpleNamespace(kill=ended.set)
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=jvm), cancelAllJobs=lambda: None)
    with pytest.raises(ValueError, match="no such table"):
        session.side_by_side(cast("SparkSession", SimpleNamespace(sparkContext=context)), [stuck, fails])
    assert ended.is_set()
