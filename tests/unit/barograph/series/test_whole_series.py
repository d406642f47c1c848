"""A series of a bucket, brought whole for a bundle, and where Spark finds its tables for a query."""

import shutil
from pathlib import Path

import pytest

from analysis.errors import StorageError
from analysis.storage import layout, transfer
from analysis.storage.bucket import Bucket
from analysis.storage.spark_s3 import open_shared
from barograph import cli
from barograph.errors import ConfigurationError
from barograph.series.results import results
from tests.support import bundled_series as packed

NAME = f"stela/star/{packed.SERIES_ID}"


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = packed.series(tmp_path_factory.mktemp("analysed"))
    (root / ".unsent").unlink()
    return root


@pytest.fixture
def root(analysed: Path, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A series that was analysed, on the disk of who ran it; its copy is in the bucket, and nothing is here."""
    root = tmp_path / "there" / NAME
    shutil.copytree(analysed, root)
    transfer.send_series(bucket, NAME, root)
    shared = open_shared(bucket, NAME, 1.0)
    for table in (root / "tables").iterdir():
        shared.send_table(table.stem, table)
    shared.publish()
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(bucket.location))
    for name in ("STATE", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / "here" / name))
    return root


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_of_it_is_brought_as_it_was(root: Path, bucket: Bucket) -> None:
    place = results()
    place.refresh()
    with place.whole(place.root / NAME) as folder:
        assert folder.parts[-3:] == tuple(NAME.split("/"))
        there = {name: content for name, content in files(root).items() if name != "machines.json"}
        assert files(folder) == there
    assert not folder.exists()


def test_a_failed_run_stands_in_its_place_again() -> None:
    keys = [
        "series.json", "runs/a-r1/run.json", "runs/a-r1/workers/m1.jsonl", "attempts/b-r1.attempt-1/run.json",
        "attempts/b-r1.attempt-2/run.json", "attempts/b-r1.attempt-2/logs/m1/x.log", "tables.json", "hold.json",
        "tables/new/runs.parquet/part-0.parquet", "tables/old/runs.parquet/part-0.parquet", "figures/a.svg",
    ]  # fmt: skip
    assert layout.disk_paths(keys, "new") == {
        "series.json": "series.json", "figures/a.svg": "figures/a.svg",
        "runs/a-r1/run.json": "runs/a-r1/run.json", "runs/a-r1/workers/m1.jsonl": "runs/a-r1/workers/m1.jsonl",
        "attempts/b-r1.attempt-1/run.json": "attempts/b-r1.attempt-1/run.json",
        "attempts/b-r1.attempt-2/run.json": "runs/b-r1/run.json",
        "attempts/b-r1.attempt-2/logs/m1/x.log": "runs/b-r1/logs/m1/x.log",
        "tables/new/runs.parquet/part-0.parquet": "tables/runs.parquet/part-0.parquet",
    }  # fmt: skip


def test_it_is_bundled_from_the_bucket_as_from_a_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_bucket, of_folder = tmp_path / "a" / "x.tar.gz", tmp_path / "b" / "x.tar.gz"
    for target in (of_bucket, of_folder):
        target.parent.mkdir()
    assert cli.main(["bundle", "stela/star", "--to", str(of_bucket)]) == 0
    assert [path.name for path in of_bucket.parent.iterdir()] == ["x.tar.gz"]
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "there"))
    (root / "machines.json").unlink()  # it is never sent, so nothing is said of it
    assert cli.main(["bundle", "stela/star", "--to", str(of_folder)]) == 0
    assert of_bucket.read_bytes() == of_folder.read_bytes()


def test_what_is_not_all_sent_yet_is_no_bundle(root: Path) -> None:
    place = results()
    place.refresh()
    (place.root / NAME / ".unsent").touch()
    with (
        pytest.raises(ConfigurationError, match=r"is not all in the bucket yet; barograph report .* sends it"),
        place.whole(place.root / NAME),
    ):
        pass


def test_tables_are_those_that_were_published(root: Path, bucket: Bucket) -> None:
    place = results()
    place.refresh()
    stored = place.tables(place.root / NAME)
    assert stored is not None and not stored.local
    assert (stored.experiment, stored.series_id) == ("stela/star", packed.SERIES_ID)
    assert stored.names == {path.stem for path in (root / "tables").iterdir()}
    assert stored.table("runs").startswith(f"s3a://{bucket.location.bucket}/lab/{NAME}/tables/")
    bucket.remove(list(bucket.objects(f"{NAME}/tables/")))
    with pytest.raises(StorageError, match="these tables are gone; ask again"):
        place.tables(place.root / NAME)
    (place.root / NAME / layout.POINTER).unlink()
    assert place.tables(place.root / NAME) is None
