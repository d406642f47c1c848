"""The bucket seam against moto's server: errors of ours, conditions, checksums."""

from pathlib import Path

import pytest

from analysis.errors import StorageConfigurationError, StorageError
from analysis.storage.bucket import Bucket, Location, NoSuchObject, WriteConflict, parse_location, sha256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://lab-results", Location("lab-results", "")),
        ("s3://lab-results/storm/2026/", Location("lab-results", "storm/2026")),
        ("results", None),
        ("/var/results", None),
    ],
)
def test_one_setting_is_a_folder_or_a_bucket(text: str, expected: Location | None) -> None:
    assert parse_location(text) == expected


@pytest.mark.parametrize("text", ["s3://", "s3://Lab/x", "s3a://lab/x", "https://lab/x", "s3://lab//x", "s3://lab/a b"])
def test_what_is_neither_says_what_is_allowed(text: str) -> None:
    with pytest.raises(StorageConfigurationError, match="give a folder, or s3://bucket/prefix"):
        parse_location(text)


def test_names_are_below_the_prefix(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    bucket.send(tmp_path / "a", "x/a")
    assert list(bucket.objects("x/")) == ["x/a"]
    assert bucket.location.uri("x/a") == f"s3a://{bucket.location.bucket}/lab/x/a"
    assert bucket.digest("x/a") == sha256(tmp_path / "a")
    bucket.fetch("x/a", tmp_path / "deep" / "b")
    assert (tmp_path / "deep" / "b").read_text() == "one"
    bucket.remove(["x/a"])
    assert bucket.objects() == {} and bucket.digest("x/a") is None
    with pytest.raises(NoSuchObject):
        bucket.fetch("x/a", tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "deep"]


def test_a_large_file_goes_in_parts_and_unfinished_ones_are_ended(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(range(256)) * 70_000)
    bucket.send(tmp_path / "large", "x/large")
    assert bucket.objects()["x/large"].etag.endswith("-3")
    bucket.client.create_multipart_upload(Bucket=bucket.location.bucket, Key=bucket.location.key("x/cut-short"))
    bucket.client.create_multipart_upload(Bucket=bucket.location.bucket, Key=bucket.location.key("y/not-ours"))
    assert bucket.abandon("x/") == 1
    assert bucket.abandon("") == 1


def test_a_condition_holds(bucket: Bucket) -> None:
    first = bucket.write_if("hold", b"1", None)
    with pytest.raises(WriteConflict):
        bucket.write_if("hold", b"2", None)
    second = bucket.write_if("hold", b"2", first)
    with pytest.raises(WriteConflict):
        bucket.write_if("hold", b"3", first)
    assert bucket.read("hold") == (b"2", second)


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    with pytest.raises(StorageConfigurationError, match=r"s3://nowhere-at-all/x: .*NoSuchBucket.*make the bucket"):
        Bucket(Location("nowhere-at-all", "x")).check()
    bucket.check()
    assert bucket.objects() == {}


def test_no_credentials(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(StorageConfigurationError, match="credentials come from AWS_ACCESS_KEY_ID"):
        Bucket(bucket.location).check()


def test_a_service_that_does_not_answer(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    away = Bucket(bucket.location)
    with pytest.raises(StorageError, match=r"cannot use: .*is http://127\.0\.0\.1:9 reachable") as caught:
        away.check()
    assert caught.value.blame == "infrastructure"
    (tmp_path / "a").write_text("one")
    with pytest.raises(StorageError, match="cannot send a"):
        away.send(tmp_path / "a", "x/a")
