"""The search for planted secrets finds what was written in any form; a search that finds nothing proves nothing."""

import base64
import gzip
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.planted import VALUES, leaks

SECRET = VALUES["AWS_SECRET_ACCESS_KEY"]


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f'{{"key": "{SECRET}"}}',
        quote(SECRET, safe=""),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        base64.b64encode(f"ann:{SECRET}\nmore".encode()).decode(),
        base64.urlsafe_b64encode(f"a{SECRET}".encode()).decode(),
        SECRET.encode().hex(),
    ],
)
def test_a_value_is_found_however_it_was_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"before {text} after")
    assert leaks(VALUES, tmp_path) == [f"{tmp_path}/a.log holds AWS_SECRET_ACCESS_KEY"]


def test_a_value_is_found_in_archives(tmp_path: Path) -> None:
    inner = tmp_path / "inner.log"
    inner.write_text(SECRET)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        packed.add(inner, "inner.log")
    (tmp_path / "b.gz").write_bytes(gzip.compress(SECRET.encode()))
    inner.unlink()
    assert [line.split()[0].rpartition("/")[2] for line in leaks(VALUES, tmp_path)] == ["a.tar.gz:inner.log", "b.gz:"]


def test_other_text_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("token secret password AKIA " + SECRET[:-4])
    assert leaks(VALUES, tmp_path) == []
