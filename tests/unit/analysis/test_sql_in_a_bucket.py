"""`barograph sql` over series in a bucket, as the command, from a machine that has nothing of them."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.storage import transfer
from analysis.storage.bucket import Bucket
from analysis.storage.spark_s3 import open_shared
from tests.support import bundled_series as packed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
QUERY = (
    "select r.series_id, r.experiment, r.variant, count(*) windows from runs r join throughput t"
    " using (series_id, run_id) where t.scope = 'total' group by 1, 2, 3 order by 1, 3"
)


def test_series_in_a_bucket_are_asked_where_they_are(bucket: Bucket, tmp_path: Path) -> None:
    root = packed.series(tmp_path / "there")
    ids = ("20260101-000000-aa", "20260102-000000-bb")
    for number, series in enumerate(ids):
        name = f"stela/star/{series}"
        transfer.send_series(bucket, name, root)
        shared = open_shared(bucket, name, float(number))
        for table in (root / "tables").iterdir():
            shared.send_table(table.stem, table)
        shared.publish()
    environment = {
        **os.environ, "BAROGRAPH_RESULTS": str(bucket.location), "BAROGRAPH_STATE": str(tmp_path / "here"),
    }  # fmt: skip
    argv = [sys.executable, "-m", "barograph", "sql", QUERY, "--format", "csv"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["series_id", "experiment", "variant", "windows"],
        *([series, "stela/star", variant, "27"] for series in ids for variant in ("even_rebalance", "stela")),
    ]
