"""Results in a bucket, `s3://bucket/prefix`, and access to S3: names are relative to its prefix, errors are ours.

A local folder, the spool, mirrors small files and keeps files that are not sent yet. In this package: `bucket` is S3
alone, `layout` knows where each file is (pure), `transfer` sends and mirrors, `hold` lets one harness write a
series, `spark_s3` is for Spark's reading and writing there. docs/decisions/storage_and_analysis.md gives the reasons.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import StorageConfigurationError, StorageError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client


SCHEME = "s3://"
BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX_NAME = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


@dataclass(frozen=True)
class Location:
    """A bucket and a prefix, which has no slash at its ends and may be empty."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def key(self, name: str) -> str:
        """Return the key of a name below the prefix."""
        return f"{self.prefix}/{name}" if self.prefix else name

    def name(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    def uri(self, name: str) -> str:
        """Return the URI for Spark's file system."""
        return f"s3a://{self.bucket}/{self.key(name)}"


def parse_location(text: str) -> Location | None:
    """Return None for a folder. Raises StorageConfigurationError for a malformed URI."""
    if "://" not in text:
        return None
    bucket, _, rest = text.removeprefix(SCHEME).partition("/")
    prefix = rest.rstrip("/")
    is_prefix = not prefix or PREFIX_NAME.fullmatch(prefix)
    if not (text.startswith(SCHEME) and BUCKET_NAME.fullmatch(bucket) and is_prefix):
        raise StorageConfigurationError(
            f"BAROGRAPH_RESULTS is {text!r}; give a folder, or s3://bucket/prefix: a bucket of 3 to 63 lower-case"
            " letters, digits, dots and hyphens, a prefix of letters, digits and . _ = - /"
        )
    return Location(bucket, prefix)


DIGEST = "barograph-sha256"
CONNECTIONS = 8  # connections; files that are sent or fetched side by side
ACCESS_CODES = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "403")
NO_BUCKET_CODES = ("NoSuchBucket",)
NO_OBJECT_CODES = ("NoSuchKey", "404", "NotFound")
CONFLICT_CODES = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
DELETE_LIMIT = 1000  # S3's own limit


class WriteConflict(StorageError):
    """Another process wrote the object first."""


class NoSuchObject(StorageError):
    """The object does not exist."""


@dataclass(frozen=True)
class ObjectFacts:
    size: int
    etag: str


@dataclass(frozen=True)
class Bucket:
    """A bucket, safe to use from several threads. Every error is one of ours."""

    location: Location

    @cached_property
    def client(self) -> "S3Client":
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=5, read_timeout=60, max_pool_connections=2 * CONNECTIONS,
            retries={"max_attempts": 4, "mode": "standard"}, s3={"addressing_style": "path" if endpoint() else "auto"},
        )  # fmt: skip
        with self._storage_errors("reach"):
            # A new session, because boto3's default one keeps the credentials of its first use.
            return boto3.session.Session().client("s3", config=config)

    def check(self) -> None:
        """Raise unless objects can be listed, put and removed."""
        with self._storage_errors("use"):
            self.client.list_objects_v2(Bucket=self.location.bucket, Prefix=self.location.key(""), MaxKeys=1)
            probe = self.location.key(f".write-test-{os.urandom(6).hex()}")
            self.client.put_object(Bucket=self.location.bucket, Key=probe, Body=b"")
            self.client.delete_object(Bucket=self.location.bucket, Key=probe)

    def objects(self, prefix: str = "") -> dict[str, ObjectFacts]:
        """Return every object whose name begins with `prefix`."""
        with self._storage_errors("list"):
            paginator = self.client.get_paginator("list_objects_v2")
            pages = paginator.paginate(Bucket=self.location.bucket, Prefix=self.location.key(prefix))
            return {
                self.location.name(each["Key"]): ObjectFacts(each["Size"], each["ETag"].strip('"'))
                for page in pages for each in page.get("Contents", [])
            }  # fmt: skip

    def send(self, path: Path, name: str) -> None:
        """Send a file; a large one in parts side by side."""
        extra = {"Metadata": {DIGEST: sha256(path)}}
        with self._storage_errors(f"send {path.name}"):
            self.client.upload_file(str(path), self.location.bucket, self.location.key(name), ExtraArgs=extra)

    def fetch(self, name: str, path: Path) -> None:
        """Fetch into a file that appears whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with self._storage_errors(f"fetch {name}"):
                self.client.download_file(self.location.bucket, self.location.key(name), str(scratch))
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 that an object was sent with; None if we did not send it, or if it does not exist."""
        try:
            with self._storage_errors(f"look at {name}"):
                head = self.client.head_object(Bucket=self.location.bucket, Key=self.location.key(name))
        except NoSuchObject:
            return None
        return head["Metadata"].get(DIGEST)

    def read(self, name: str) -> tuple[bytes, str]:
        """Return an object's content and its ETag."""
        with self._storage_errors(f"read {name}"):
            answer = self.client.get_object(Bucket=self.location.bucket, Key=self.location.key(name))
            return answer["Body"].read(), answer["ETag"].strip('"')

    def write(self, name: str, body: bytes) -> None:
        with self._storage_errors(f"write {name}"):
            self.client.put_object(Bucket=self.location.bucket, Key=self.location.key(name), Body=body)

    def write_if(self, name: str, body: bytes, expected: str | None) -> str:
        """Write over the object with that ETag, or (None) none; return its new ETag. Raises WriteConflict."""
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}
        with self._storage_errors(f"write {name}"):
            place = {"Bucket": self.location.bucket, "Key": self.location.key(name)}
            answer = self.client.put_object(Body=body, **place, **condition)  # type: ignore[arg-type] # one condition
            return answer["ETag"].strip('"')

    def remove(self, names: list[str]) -> None:
        with self._storage_errors("remove"):
            for start in range(0, len(names), DELETE_LIMIT):
                keys = [{"Key": self.location.key(name)} for name in names[start : start + DELETE_LIMIT]]
                self.client.delete_objects(Bucket=self.location.bucket, Delete={"Objects": keys})  # type: ignore[typeddict-item] # built above

    def abandon(self, prefix: str) -> int:
        """End abandoned multipart uploads, whose invisible parts cost money; return their number."""
        with self._storage_errors("look for unfinished uploads"):
            paginator, name = self.client.get_paginator("list_multipart_uploads"), self.location.bucket
            pages = paginator.paginate(Bucket=name, Prefix=self.location.key(prefix))
            uploads = [each for page in pages for each in page.get("Uploads", [])]
            for each in uploads:
                self.client.abort_multipart_upload(Bucket=name, Key=each["Key"], UploadId=each["UploadId"])
        return len(uploads)

    @contextmanager
    def _storage_errors(self, what: str) -> Iterator[None]:
        from boto3.exceptions import Boto3Error
        from botocore import exceptions

        configuration_errors = (
            exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound,
            exceptions.NoRegionError, exceptions.InvalidRegionError,
        )  # fmt: skip
        try:
            yield
        except configuration_errors as error:
            raise StorageConfigurationError(f"{self.location}: {error}; {CREDENTIALS}") from error
        except exceptions.ClientError as error:
            raise self._of_code(error, what) from error
        except (exceptions.BotoCoreError, Boto3Error, OSError) as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, exceptions.ClientError):
                raise self._of_code(cause, what) from error
            text = f"{self.location}: cannot {what}: {error}; is {endpoint() or 'S3'} reachable from here?"
            raise StorageError(text) from error

    def _of_code(self, error: "ClientError", what: str) -> Exception:
        facts = error.response.get("Error", {})
        code, message = str(facts.get("Code", "?")), facts.get("Message", "")
        text = f"{self.location}: cannot {what}: {code}: {message}"
        if code in NO_BUCKET_CODES:
            return StorageConfigurationError(f"{text}; make the bucket, or mend BAROGRAPH_RESULTS")
        if code in ACCESS_CODES:
            return StorageConfigurationError(f"{text}; {CREDENTIALS}")
        kind = WriteConflict if code in CONFLICT_CODES else NoSuchObject if code in NO_OBJECT_CODES else StorageError
        return kind(text)


CREDENTIALS = (
    "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the machine's role; they need"
    " s3:ListBucket, GetObject, PutObject, DeleteObject, AbortMultipartUpload and ListBucketMultipartUploads there"
)


def endpoint() -> str | None:
    """Return the endpoint of another S3 service, as boto3 takes it."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
