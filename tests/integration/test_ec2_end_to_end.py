"""star on EC2 as a user starts it: rent, ssh, Ansible, Storm, one machine more in the middle, collect to S3, give back.

The cloud is the tests' own: moto's server, and an emulated machine for each instance. The harness is told of it by
boto3's own variables; nothing else differs from a run on AWS with its results in a bucket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analysis.storage.bucket import Bucket, Location
from analysis.storage.transfer import fetch_series, visible_series
from tests.support import worker_lines
from tests.support.cloud.cloud import Cloud
from tests.support.short_folder import short_folder

pytestmark = [pytest.mark.e2e, pytest.mark.cloud, pytest.mark.long, pytest.mark.timeout(900)]

MACHINES = 4  # the master, two workers, and the one that joins
RESULTS = Location("results-of-the-lab", "storm")
LONGEST_WAIT_S = 90.0  # between asking and being started, and between being ended and knowing it


@dataclass(frozen=True)
class Ended:
    """A series that was run on the cloud: as it lies in the bucket, brought to `folder`, and what stayed here."""

    folder: Path
    names: frozenset[str]
    spool: Path
    said: str

    @property
    def run(self) -> Path:
        return self.folder / "runs" / "stela-r1"

    def document(self) -> dict[str, Any]:
        return dict(json.loads((self.run / "run.json").read_text()))

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (self.run / "events.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] in kinds]


@pytest.fixture(scope="module")
def ended(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    with short_folder() as state:
        yield _ended(cloud, state, tmp_path_factory)


def _ended(cloud: Cloud, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    options = [f"--option={name}={json.dumps(value)}" for name, value in cloud.options().items()]
    command = [sys.executable, "-m", "barograph", "run", "rented/star", "--new", *options]
    with pytest.MonkeyPatch.context() as patch:
        ours = {"BAROGRAPH_STATE": str(state), "BAROGRAPH_RESULTS": str(RESULTS)}
        for name, value in {**cloud.environment(), **ours}.items():
            patch.setenv(name, value)
        bucket = Bucket(RESULTS)
        bucket.client.create_bucket(Bucket=RESULTS.bucket)
        done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=850)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        ((series, inside),) = visible_series(bucket.objects()).items()
        folder = fetch_series(bucket, series, tmp_path_factory.mktemp("brought") / series)
    spool = state / "spool" / RESULTS.bucket / RESULTS.prefix / series
    return Ended(folder, frozenset(inside), spool, done.stdout)


def test_the_run_is_complete_and_reported(ended: Ended) -> None:
    assert ended.document()["status"] == "complete", ended.document()["failure"]
    assert not ended.events("fallback")
    assert (ended.folder / "report.html").is_file()


def test_everything_is_in_the_bucket_and_nothing_large_stays_here(ended: Ended) -> None:
    wanted = {"series.json", "money.json", "claims.json", "report.html", "analysed.json", "tables.json",
              "runs/stela-r1/run.json"}  # fmt: skip
    assert wanted <= ended.names and "hold.json" not in ended.names
    assert any(name.startswith("runs/stela-r1/workers/m1-6700-") for name in ended.names)
    assert any("/worker_lines.parquet/part-" in name for name in ended.names)
    for raw in ("workers", "machines", "logs"):
        assert not (ended.spool / "runs" / "stela-r1" / raw).exists(), raw
    assert (ended.spool / "report.html").is_file(), "the report is here too"


def test_the_third_machine_was_rented_in_the_middle_and_its_boot_is_told(ended: Ended, cloud: Cloud) -> None:
    (booted,) = ended.events("machine_booted")
    (joined,) = ended.events("machines_joined")
    (first_tuple,) = ended.events("first_tuple")
    assert booted["machine"] == "m3" and joined["machines"] == ["m3"]
    assert first_tuple["t"] < cloud.launches()[cloud.instance("m3")]["launched_s"] < booted["t"] < joined["t"]
    assert booted["boot_s"] > 0


def test_stela_uses_the_machine_that_joined(ended: Ended) -> None:
    assert any("centre 2→" in event["reason"] for event in ended.events("decision"))
    executed = [sum(line["tasks"]["executed"]) for line in worker_lines.of_run(ended.run, "m3")]
    assert sum(executed) > 0, "nothing was executed on m3"


def test_every_machine_left_its_samples_and_logs(ended: Ended) -> None:
    assert ended.document()["missing"] == []
    for machine in ("m1", "m2", "m3"):
        assert (ended.run / "machines" / f"{machine}.jsonl").stat().st_size > 0
        assert (ended.run / "logs" / machine).is_dir()


def test_nothing_is_left_on_the_cloud(ended: Ended, cloud: Cloud) -> None:
    assert not cloud.left()
    assert len(cloud.launches()) == MACHINES, "a machine was rented twice"
    print("calls of EC2's API a machine:", {name: n / MACHINES for name, n in sorted(cloud.calls().items())})


def test_the_hours_that_were_noted_are_those_of_the_cloud(ended: Ended, cloud: Cloud) -> None:
    """The harness counts from before it asks for a machine until it knows that it is gone."""
    money = json.loads((ended.folder / "money.json").read_text())
    used = sum(cloud.hours().values())
    assert used <= money["machine_hours"] <= used + MACHINES * LONGEST_WAIT_S / 3600
    assert 0 < money["used_usd"] <= money["executions"][0]["longest_usd"] <= money["budget_usd"]
