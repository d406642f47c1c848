"""moto's S3 on loopback, one server for all of these tests and a bucket for each."""

from collections.abc import Iterator
from itertools import count

import pytest

from analysis.storage.bucket import Bucket, Location

NUMBERS = count(1)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of somebody who uses it."""
    values = {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bucket(s3: None) -> Bucket:
    made = Bucket(Location(f"results-{next(NUMBERS)}", "lab"))
    made.client.create_bucket(Bucket=made.location.bucket)
    return made
