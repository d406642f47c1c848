import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inventory.leases.registry import harness_id


def test_it_is_made_once_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "one"))
    made = harness_id()
    assert uuid.UUID(hex=made).hex == made == harness_id()
    (tmp_path / "one" / "harness_id").write_text("")
    assert harness_id() not in ("", made)
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "two"))
    assert harness_id() != made


def test_many_at_once_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: harness_id(), range(40)))) == 1
