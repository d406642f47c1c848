"""Commands in folders of a test's own, without anybody's credentials."""

from pathlib import Path

import pytest

from barograph.testbeds import checks
from tests.support.fakes.testbed import FakeTestbed

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
               "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "BAROGRAPH_EMULAB_TOKEN", "BAROGRAPH_PRICES")  # fmt: skip


@pytest.fixture
def strangers_box(own_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box whose user has an account nowhere."""
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("barograph.machines.reaper.TESTBEDS", {"fake": FakeTestbed})
    for module in ("barograph.cli.preparation", "barograph.cli.experiments"):
        monkeypatch.setattr(f"{module}.require_fit_box", lambda: None)
    checks._cached_testbed.cache_clear()
