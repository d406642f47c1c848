import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inventory.errors import InfrastructureError
from inventory.harness import FILE, harness_id


def test_it_is_made_once_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "one"))
    made = harness_id()
    assert uuid.UUID(hex=made).hex == made == harness_id() == harness_id(tmp_path / "one")
    assert harness_id(tmp_path / "two") != made


def test_many_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: harness_id(tmp_path), range(40)))) == 1


def test_a_damaged_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("half an i")
    with pytest.raises(InfrastructureError, match="'half an i' is no harness id"):
        harness_id(tmp_path)
    assert (tmp_path / FILE).read_text() == "half an i"
