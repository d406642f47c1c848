"""To the bucket and back: kill -9 between any two objects, a second machine with nothing, attempts, holds."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.errors import SeriesInUse, StorageError
from analysis.storage import hold, layout, transfer
from analysis.storage.bucket import Bucket
from analysis.storage.hold import BucketHolder
from analysis.storage.transfer import UNSENT, mirror
from barograph.settings import ROOT
from tests.conftest import AT_NIGHT
from tests.golden import records

SERIES = "stela/star/20261121-000000-abcdef01"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A spool with two complete runs, and one that failed at its second attempt."""
    folder = tmp_path / "here" / SERIES
    records.write_series(folder, repetitions=1)
    add_attempt(folder / "runs" / "stela-r2", 2, "failed")
    add_attempt(folder / "attempts" / "stela-r2.attempt-1", 1, "incomplete")
    (folder / "machines.json").write_text("{}")
    (folder / "tables" / "runs.parquet").mkdir(parents=True)
    (folder / "tables" / "runs.parquet" / "part-0.parquet").write_text("no part of what is sent")
    return folder


def add_attempt(run: Path, number: int, status: str) -> None:
    (run / "workers").mkdir(parents=True)
    (run / "workers" / "m1-6700.jsonl").write_text("{}\n")
    (run / "events.jsonl").write_text('{"t": 1.0, "kind": "run_started"}\n')
    (run / "run.json").write_text(json.dumps({"run_id": "stela-r2", "attempt": number, "status": status}))


def names(bucket: Bucket) -> set[str]:
    return {key.removeprefix(f"{SERIES}/") for key in bucket.objects()}


def test_everything_arrives_and_nothing_is_sent_twice(bucket: Bucket, here: Path) -> None:
    first = transfer.send_series(bucket, SERIES, here)
    there = names(bucket)
    assert first.files == len(there) and first.present == 0
    workers = {path.relative_to(here).as_posix() for path in here.glob("runs/stela-r1/workers/*.avro")}
    assert workers and {"series.json", "runs/stela-r1/run.json", *workers} <= there
    assert {"attempts/stela-r2.attempt-1/run.json", "attempts/stela-r2.attempt-2/workers/m1-6700.jsonl"} <= there
    assert not any(name.startswith(("runs/stela-r2", "tables", "machines.json")) for name in there)
    again = transfer.send_series(bucket, SERIES, here)
    assert (again.files, again.present) == (0, first.files)
    (here / "series.json").write_text((here / "series.json").read_text() + " ")
    assert transfer.send_series(bucket, SERIES, here).files == 1


KILLED = """
import os, sys
from pathlib import Path
from analysis.storage import transfer
from analysis.storage.bucket import Bucket, parse_location
left = [int(sys.argv[3])]
real = Bucket.send
def send(self, path, name):
    if left[0] == 0:
        os.kill(os.getpid(), 9)
    left[0] -= 1
    real(self, path, name)
Bucket.send = send
transfer.CONNECTIONS = 1
transfer.send_series(Bucket(parse_location(sys.argv[1])), "/".join(Path(sys.argv[2]).parts[-3:]), Path(sys.argv[2]))
"""


def test_killed_after_any_number_of_objects_it_goes_on_and_nothing_half_is_seen(bucket: Bucket, here: Path) -> None:
    total = len(transfer.bucket_files(here))
    for number in (0, 3, total - 3, total - 1) if AT_NIGHT else (3,):
        bucket.remove(list(bucket.objects()))
        argv = [sys.executable, "-c", KILLED, str(bucket.location), str(here), str(number)]
        assert subprocess.run(argv, cwd=ROOT, env=dict(os.environ)).returncode == -9
        sent = names(bucket)
        assert len(sent) == number
        for run in layout.run_folders(sent).values():
            whole = {name for name in transfer.bucket_files(here) if name.startswith(f"{run}/")}
            assert whole <= sent, run
        rest = transfer.send_series(bucket, SERIES, here)
        assert (rest.files, rest.present) == (total - number, number)


def test_another_machine_sees_what_is_small(bucket: Bucket, here: Path, tmp_path: Path) -> None:
    transfer.send_series(bucket, SERIES, here)
    there = tmp_path / "there"
    assert mirror(bucket, there, "stela/star") == [SERIES]
    folder = there / SERIES
    assert json.loads((folder / "runs/stela-r2/run.json").read_text())["attempt"] == 2
    assert (folder / "attempts/stela-r2.attempt-1/run.json").is_file()
    assert not (folder / "runs/stela-r1/events.jsonl").exists()
    mirror(bucket, there, digest=True)
    original = (here / "runs/stela-r1/decisions.jsonl").read_text()
    assert (folder / "runs/stela-r1/decisions.jsonl").read_text() == original
    assert not (folder / "runs/stela-r1/workers").exists()
    assert mirror(bucket, there, "stela/st") == []


def test_what_did_not_change_is_not_fetched_again(
    bucket: Bucket, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer.send_series(bucket, SERIES, here)
    mirror(bucket, tmp_path / "there", digest=True)
    fetched: list[str] = []
    fetch = Bucket.fetch
    monkeypatch.setattr(Bucket, "fetch", lambda self, name, path: (fetched.append(name), fetch(self, name, path))[1])
    mirror(bucket, tmp_path / "there", digest=True)
    assert fetched == []
    (here / "series.json").write_text('{"changed": true}')
    transfer.send_series(bucket, SERIES, here)
    mirror(bucket, tmp_path / "there", digest=True)
    assert fetched == [f"{SERIES}/series.json"]
    assert json.loads((tmp_path / "there" / SERIES / "series.json").read_text()) == {"changed": True}


def test_what_is_not_sent_yet_is_never_overwritten(bucket: Bucket, here: Path) -> None:
    transfer.send_series(bucket, SERIES, here)
    (here / "series.json").write_text('{"newer": true}')
    (here / UNSENT).touch()
    mirror(bucket, here.parents[2], digest=True)
    assert json.loads((here / "series.json").read_text()) == {"newer": True}


def test_a_run_that_another_machine_completed_takes_the_place_of_the_attempt(
    bucket: Bucket, here: Path, tmp_path: Path
) -> None:
    transfer.send_series(bucket, SERIES, here)
    mirror(bucket, tmp_path / "there")
    (here / "runs/stela-r2").rename(here / "attempts/stela-r2.attempt-2")
    add_attempt(here / "runs/stela-r2", 3, "complete")
    transfer.send_series(bucket, SERIES, here)
    mirror(bucket, tmp_path / "there")
    folder = tmp_path / "there" / SERIES
    assert json.loads((folder / "runs/stela-r2/run.json").read_text())["attempt"] == 3
    assert (folder / "attempts/stela-r2.attempt-2/run.json").is_file()


def test_only_the_published_tables_are_brought_and_older_ones_go(bucket: Bucket, here: Path, tmp_path: Path) -> None:
    from analysis.storage.spark_s3 import open_shared

    transfer.send_series(bucket, SERIES, here)
    made = [open_shared(bucket, SERIES, now_s) for now_s in (1.0, 2.0, 3.0)]
    tables = tmp_path / "there" / SERIES / "tables"
    for number, shared in enumerate(made):
        folder = tmp_path / f"table-{number}"
        folder.mkdir()
        (folder / f"part-{number}.parquet").write_text(str(number))
        for name in ("runs", "worker_lines"):
            shared.send_table(name, folder)
        mirror(bucket, tmp_path / "there", digest=True)
        seen = sorted(path.name for path in tables.glob("*/*")) if tables.exists() else []
        assert seen == ([f"part-{number - 1}.parquet"] if number else []), "not published yet"
        shared.publish()
        mirror(bucket, tmp_path / "there", digest=True)
        assert [path.relative_to(tables).as_posix() for path in tables.glob("*/*")] == [
            f"runs.parquet/part-{number}.parquet"
        ]
    left = {key.split("/")[4] for key in bucket.objects(f"{SERIES}/tables/")}
    assert left == {shared.generation for shared in made[1:]}


def test_spark_reads_complete_runs_and_last_attempts(bucket: Bucket, here: Path) -> None:
    from analysis.storage.spark_s3 import open_shared

    transfer.send_series(bucket, SERIES, here)
    shared = open_shared(bucket, SERIES, 1.0)
    uris = shared.raw_files("workers")
    assert f"{bucket.location.uri(SERIES)}/attempts/stela-r2.attempt-2/workers/m1-6700.jsonl" in uris
    assert not any("attempt-1/" in uri for uri in uris)
    files = [path for path in here.glob("runs/**/*") if path.suffix in (".jsonl", ".avro")]
    assert len(uris) == len([path for path in files if path.parent.name == "workers"])
    assert shared.raw_bytes == sum((1 + (path.suffix == ".avro")) * path.stat().st_size for path in files)


ME = BucketHolder("this harness", "box", 10, "boot 1")


def test_two_harnesses_do_not_write_one_series(bucket: Bucket, tmp_path: Path) -> None:
    other = replace(ME, harness="another")
    hold.take(bucket, SERIES, tmp_path / "a", ME, now_s=100.0, until_s=200.0, alive=True)
    with pytest.raises(SeriesInUse, match=r"process 10 on box, until 1970-01-01 00:03 UTC") as caught:
        hold.take(bucket, SERIES, tmp_path / "b", other, now_s=150.0, until_s=300.0, alive=False)
    assert caught.value.blame == "capacity"
    hold.prolong(bucket, SERIES, tmp_path / "a", 400.0)
    with pytest.raises(SeriesInUse):
        hold.take(bucket, SERIES, tmp_path / "b", other, now_s=350.0, until_s=500.0, alive=False)
    hold.take(bucket, SERIES, tmp_path / "b", other, now_s=401.0, until_s=500.0, alive=False)
    with pytest.raises(SeriesInUse, match="nothing more is written"):
        hold.prolong(bucket, SERIES, tmp_path / "a", 600.0)
    hold.drop(bucket, SERIES, tmp_path / "a")
    assert hold.read_hold(bucket, SERIES) is not None, "not its own any more"
    hold.drop(bucket, SERIES, tmp_path / "b")
    assert hold.read_hold(bucket, SERIES) is None


def test_a_lost_answer_of_s3_loses_no_hold(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 writes, its answer is lost, boto repeats the request, and S3 refuses the old ETag."""
    write_if = Bucket.write_if

    def lost(self: Bucket, name: str, body: bytes, expected: str | None) -> str:
        monkeypatch.setattr(Bucket, "write_if", write_if)
        self.write_if(name, body, expected)
        return self.write_if(name, body, expected)

    monkeypatch.setattr(Bucket, "write_if", lost)
    hold.take(bucket, SERIES, tmp_path, ME, now_s=100.0, until_s=200.0, alive=True)
    for until_s in (300.0, 400.0):
        monkeypatch.setattr(Bucket, "write_if", lost)
        hold.prolong(bucket, SERIES, tmp_path, until_s)
        found = hold.read_hold(bucket, SERIES)
        assert found is not None and found[0]["until_s"] == until_s
    hold.drop(bucket, SERIES, tmp_path)
    assert hold.read_hold(bucket, SERIES) is None


def test_a_file_that_is_set_aside_meanwhile_waits_for_the_next_transfer(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone\.jsonl cannot be read"):
        transfer.send_files(bucket, {"gone.jsonl": tmp_path / "gone.jsonl"}, {})


def test_a_dead_process_of_the_same_harness_holds_nothing(bucket: Bucket, tmp_path: Path) -> None:
    hold.take(bucket, SERIES, tmp_path, ME, now_s=100.0, until_s=200.0, alive=True)
    next_one = replace(ME, pid=11)
    with pytest.raises(SeriesInUse):
        hold.take(bucket, SERIES, tmp_path, next_one, now_s=110.0, until_s=200.0, alive=True)
    hold.take(bucket, SERIES, tmp_path, next_one, now_s=110.0, until_s=200.0, alive=False)
    hold.prolong(bucket, SERIES, tmp_path, 300.0)
    found = hold.read_hold(bucket, SERIES)
    assert found is not None and (found[0]["pid"], found[0]["until_s"]) == (11, 300.0)


def test_raw_lines_that_arrived_take_no_room(bucket: Bucket, here: Path) -> None:
    transfer.send_series(bucket, SERIES, here, keep_raw=False)
    assert not list(here.glob("runs/*/workers")) and (here / "runs/stela-r1/events.jsonl").is_file()
    before = names(bucket)
    transfer.send_series(bucket, SERIES, here)
    assert names(bucket) == before


def test_raw_lines_that_came_during_the_upload_stay(
    bucket: Bucket, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs are side by side: another one collects its lines and becomes complete, or is set aside and done again."""
    shutil.rmtree(here / "runs/stela-r2")
    add_attempt(here / "runs/stela-r2", 2, "incomplete")
    shutil.rmtree(here / "runs/stela-r2/workers")
    send, lines = Bucket.send, here / "runs/stela-r2/workers/m1-6700.jsonl"

    def meanwhile(self: Bucket, path: Path, name: str) -> None:
        if path.name == "series.json":
            shutil.copytree(here / "runs/stela-r1/workers", here / "attempts/stela-r3.attempt-1/workers")
            shutil.rmtree(here / "runs/stela-r2")
            add_attempt(here / "runs/stela-r2", 2, "complete")
        send(self, path, name)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "send", meanwhile)
        transfer.send_series(bucket, SERIES, here, under_way={"stela-r2"}, keep_raw=False)
    assert lines.is_file() and list(here.glob("attempts/stela-r3.attempt-1/workers/*.avro"))
    assert not (here / "runs/stela-r1/workers").exists() and not (here / "attempts/stela-r2.attempt-1/workers").exists()
    assert not any("stela-r2.attempt-2" in name for name in names(bucket)), "it was no attempt"
    transfer.send_series(bucket, SERIES, here, keep_raw=False)
    assert "runs/stela-r2/workers/m1-6700.jsonl" in names(bucket) and not lines.exists()


def test_a_name_that_leads_out_of_the_spool_is_no_series(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("series.json", "claims.json"):
        bucket.write(f"../../out/{name}", b"{}")
    assert transfer.visible_series(bucket.objects()) == {}


def test_bringing_is_by_whole_names(bucket: Bucket, here: Path, tmp_path: Path) -> None:
    (here / "series.json").unlink()
    transfer.send_series(bucket, SERIES, here)
    assert transfer.mirror(bucket, tmp_path / "there") == [], "without series.json there is no series yet"
