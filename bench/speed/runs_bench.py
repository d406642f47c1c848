"""How the analysis grows with the number of runs: time a run, and memory of the processes that do it.

    python -m bench.speed.runs_bench --runs 100,1000,10000 --cluster

A series of so many runs, all with the same small record (five minutes of a star on five machines), analysed from raw
lines to metrics in a process of its own for each number. Prints seconds a run of each part, and the most memory that
this process and Spark's had. With `--cluster` each is done twice: by this box's own Spark, and by a standalone cluster
of two workers of one core beside it, on loopback.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

from tests.golden import records
from tests.support.spark_cluster import standalone

PEAK = "VmHWM:"
OWN = "local[*]"


@dataclass(frozen=True)
class Growth:
    """Seconds of each part; `driver_mb` is this process, `spark_mb` its JVM (of a cluster the driver's), each the most
    it had."""

    master: str
    runs: int
    tables_s: float
    metrics_s: float
    driver_mb: int
    spark_mb: int

    @property
    def ms_a_run(self) -> float:
        return (self.tables_s + self.metrics_s) / self.runs * 1000


@contextmanager
def series_of(runs: int) -> Iterator[Path]:
    """One record under so many names."""
    with tempfile.TemporaryDirectory(prefix="bruns-") as scratch:
        record, series = Path(scratch) / "record", Path(scratch) / "series"
        records.write_run(record, records.Run("stela", 1), 0, "stela/star")
        (series / "runs").mkdir(parents=True)
        (series / "series.json").write_text(json.dumps({"v": 1, "experiment": "stela/star", "series_id": "bench"}))
        for number in range(runs):
            (series / "runs" / f"stela-r{number + 1}").symlink_to(record / "runs" / "stela-r1")
        yield series


def measure(runs: int, master: str = OWN) -> Growth:
    from analysis import session
    from analysis.ingest import tables
    from analysis.metrics import build
    from analysis.record.files import SeriesPaths
    from analysis.storage import maven
    from inventory.local.rootfs import cache_dir

    jars = (maven.avro_jar(cache_dir(), print),)
    with series_of(runs) as folder:
        paths = SeriesPaths(folder)
        # As for long series, whatever their number, to compare them.
        spark = session.spark(master, raw_bytes=session.SHORT_BYTES, settings=session.jar_settings(jars))
        with session.stopped_afterwards(spark):
            tables_s = _timed(lambda: tables.build_tables(spark, paths))
            metrics_s = _timed(lambda: build.build_metrics(spark, paths))
            jvm = next(each for each in psutil.Process().children(recursive=True) if each.name() == "java")
            return Growth(master, runs, tables_s, metrics_s, _peak_mb(psutil.Process().pid), _peak_mb(jvm.pid))


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _peak_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(PEAK))


def report(found: Sequence[Growth]) -> Iterator[str]:
    yield "master   runs    ms a run  to fewest  tables    metrics   this process  Spark's"
    for each in found:
        fewest = next(other for other in found if other.master == each.master)
        yield (
            f"{each.master.partition(':')[0]:<8} {each.runs:<7} {each.ms_a_run:8.1f}"
            f"  x{each.ms_a_run / fewest.ms_a_run:<8.2f} {each.tables_s:6.1f} s"
            f" {each.metrics_s:8.1f} s {each.driver_mb:8} MB {each.spark_mb:8} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="100,1000", help="numbers of runs, the fewest first")
    parser.add_argument("--cluster", action="store_true", help="also on a standalone cluster of two workers")
    options = parser.parse_args()
    sizes = [int(number) for number in options.runs.split(",")]
    with ExitStack() as stack:
        masters = [OWN]
        if options.cluster:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bcluster-")))
            masters.append(stack.enter_context(standalone(folder)).master)
        pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1))
        print("\n".join(report([pool.apply(measure, (size, master)) for size in sizes for master in masters])))


if __name__ == "__main__":
    main()
