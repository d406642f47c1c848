"""`s3://bucket/prefix`: the name of a place for results. Pure."""

import re
from dataclasses import dataclass

from analysis.errors import StorageConfigurationError

SCHEME = "s3://"
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


@dataclass(frozen=True)
class Location:
    """`prefix` has no slash at its ends and may be empty."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def key(self, name: str) -> str:
        """The key of something by its name below the prefix."""
        return f"{self.prefix}/{name}" if self.prefix else name

    def name(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    def uri(self, name: str) -> str:
        """As Spark's file system calls it."""
        return f"s3a://{self.bucket}/{self.key(name)}"


def parse(text: str) -> Location | None:
    """None for a folder. Raises StorageConfigurationError for what begins like a bucket's name and is none."""
    if "://" not in text:
        return None
    bucket, _, rest = text.removeprefix(SCHEME).partition("/")
    prefix = rest.rstrip("/")
    if not text.startswith(SCHEME) or not BUCKET.fullmatch(bucket) or (prefix and not PREFIX.fullmatch(prefix)):
        raise StorageConfigurationError(
            f"BAROGRAPH_RESULTS is {text!r}; give a folder, or s3://bucket/prefix: a bucket of 3 to 63 lower-case"
            " letters, digits, dots and hyphens, a prefix of letters, digits and . _ = - /"
        )
    return Location(bucket, prefix)
