"""A sweep of short runs of the small star: a second of work a point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from barograph.plan.experiment import EXPERIMENTS


@pytest.fixture(autouse=True)
def _own(own_folders: None) -> None:
    """Results of the test's own."""


@pytest.fixture
def sweep_file(tmp_path: Path) -> Any:
    """Write a file with these swept fields; other keys of the experiment may be given."""

    def write(swept: Any, **keys: Any) -> Path:
        data = yaml.safe_load((EXPERIMENTS / "small" / "star.yaml").read_text())
        data["testbed"]["name"] = "simulated"
        path = tmp_path / "small" / "swept.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({**data, **keys, "sweep": swept}, sort_keys=False))
        return path

    return write
