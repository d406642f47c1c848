"""Spark on a bucket, by itself and on a standalone cluster, finds what it finds in a folder: every table, every number.

Each analysis is the command, from a machine that has nothing: its spool is empty and the records are in the bucket.
"""

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analysis.record.schemas import STORED
from analysis.storage import layout, transfer
from analysis.storage.bucket import Bucket
from analysis.storage.spark_s3 import open_shared
from tests.golden import records
from tests.golden.series import GoldenSeries
from tests.support.spark_cluster import Standalone, standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]
SERIES = "stela/star/20261121-000000-abcdef01"
UNSEEN = "even_rebalance-r4"
NOT_SENT = tuple(run.run_id for run in records.runs() if run.repetition > 1)


def report(series: str, results: str, state: Path, master: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "BAROGRAPH_RESULTS": results, "BAROGRAPH_STATE": str(state), "BAROGRAPH_SPARK_MASTER": master,
    }  # fmt: skip
    argv = [sys.executable, "-m", "barograph", "report", series]
    return subprocess.run(argv, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(golden_series: GoldenSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One block of the golden series and its broken runs, as local Spark analysed them among the others (a row depends
    on its run alone), with the run that nobody sees in a bucket: it has no run.json."""
    root = tmp_path_factory.mktemp("folder") / SERIES
    shutil.copytree(golden_series.root, root, ignore=shutil.ignore_patterns(*NOT_SENT))
    assert not (root / "runs" / UNSEEN / "run.json").exists()
    return root


def tables(found: dict[str, list[Path]], *left_out: str) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted((_row(row) for file in files for row in pq.read_table(file).to_pylist()
                          if row["run_id"] not in left_out), key=repr)
            for name, files in found.items()}  # fmt: skip


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    """Sums of parts come in any order: the last digits differ."""
    return tuple(
        float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value for value in row.values()
    )


def in_folder(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    files = {name: sorted((root / "tables" / f"{name}.parquet").glob("*.parquet")) for name in STORED}
    return tables(files, UNSEEN, *NOT_SENT)


def in_bucket(bucket: Bucket, scratch: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The published generation, large tables too."""
    generations = {key.split("/")[4] for key in bucket.objects(f"{SERIES}/tables/")}
    assert len(generations) == 1, "nothing unpublished is left"
    (generation,) = generations
    found: dict[str, list[Path]] = {name: [] for name in STORED}
    for key in bucket.objects(f"{SERIES}/tables/{generation}/"):
        table, file = key.split("/")[5:]
        assert not table.startswith("_"), f"{key} is scaffolding"
        bucket.fetch(key, scratch / table / file)
        found[table.removesuffix(".parquet")].append(scratch / table / file)
    return tables(found, UNSEEN)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Its workers know nothing of the bucket."""
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


# Shorter: a query of a bucket in test_sql_in_a_bucket.py, what is sent and published in this folder.
@pytest.mark.long
def test_local_spark_makes_the_same_tables_as_in_a_folder(folder: Path, bucket: Bucket, tmp_path: Path) -> None:
    makes_the_same_tables(folder, bucket, tmp_path, "local[2]")


# Shorter: local Spark on the same bucket.
@pytest.mark.long
def test_a_cluster_makes_the_same_tables_as_in_a_folder(
    folder: Path, bucket: Bucket, tmp_path: Path, cluster: Standalone
) -> None:
    before = set(cluster.executors())
    makes_the_same_tables(folder, bucket, tmp_path, cluster.master)
    assert {path.parent.parent.name for path in set(cluster.executors()) - before} == {"w1", "w2"}


def makes_the_same_tables(folder: Path, bucket: Bucket, tmp_path: Path, master: str) -> None:
    transfer.send_series(bucket, SERIES, folder)
    done = report(SERIES, str(bucket.location), tmp_path / "state", master)
    assert done.returncode == 0, done.stderr
    expected, found = in_folder(folder), in_bucket(bucket, tmp_path / "fetched")
    for name in STORED:
        assert found[name] == expected[name], name
    assert {f"{SERIES}/report.html", f"{SERIES}/{layout.POINTER}"} <= set(bucket.objects(f"{SERIES}/"))
    assert f"{SERIES}/{layout.HOLD}" not in bucket.objects(f"{SERIES}/")


@pytest.mark.long
def test_a_folder_that_workers_do_not_see_is_refused(
    folder: Path, cluster: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver alone sees this folder: it is a mount of its own namespace."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = f'mount -t tmpfs none {hidden} && cp -r {folder.parents[2]} {hidden}/results && exec "$@"'
    argv = [sys.executable, "-m", "barograph", "report", SERIES]
    environment = {**os.environ, "BAROGRAPH_RESULTS": f"{hidden}/results", "BAROGRAPH_SPARK_MASTER": cluster.master}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *argv], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert f"do not all see {hidden}/results/{SERIES}, a folder of this machine; set BAROGRAPH_RESULTS" in done.stderr


def test_an_analysis_that_fails_leaves_the_old_tables(folder: Path, bucket: Bucket) -> None:
    transfer.send_series(bucket, SERIES, folder)
    first = open_shared(bucket, SERIES, 1.0)
    with first.publishing():
        first.send_table("runs", folder / "tables" / "runs.parquet")
    second = open_shared(bucket, SERIES, 2.0)

    def fail() -> None:
        with second.publishing():
            second.send_table("runs", folder / "tables" / "runs.parquet")
            assert any(second.generation in key for key in bucket.objects(f"{SERIES}/tables/"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert {key.split("/")[4] for key in bucket.objects(f"{SERIES}/tables/")} == {first.generation}
