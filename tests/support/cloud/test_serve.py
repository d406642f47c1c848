"""The cloud's own process: what it leaves on record."""

from pathlib import Path

import pytest

from tests.support.cloud import serve


@pytest.mark.parametrize("fails", [True, False])
def test_machines_that_could_not_be_ended_stay_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    for name in ("STATE", "CONTROL_LAN", "EXPERIMENT_LAN"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", "")
    monkeypatch.setattr(serve, "STATE", tmp_path / "cloud")
    calls: list[int] = []

    def clean_up() -> None:
        calls.append(len(list((tmp_path / "cloud" / "leases").glob("*.json"))))
        if fails and len(calls) == 2:
            raise RuntimeError("a machine does not end")

    monkeypatch.setattr(serve, "clean_up", clean_up)
    try:
        with serve.alone():
            pass
    except RuntimeError:
        assert fails
    assert calls == [0, 1]
    assert [path.suffix for path in (tmp_path / "cloud" / "leases").glob("*.json")] == ([".json"] if fails else [])
