"""What tests of whole DAGs share: an Airflow database, and an environment of each test's own."""

import os
from pathlib import Path

import pytest

from dags.terminal.airflow_home import prepare


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Airflow database for all of these tests."""
    folder = tmp_path_factory.mktemp("barograph")
    prepare(folder / "airflow")
    return folder


@pytest.fixture
def world(home: Path, tmp_path: Path) -> dict[str, str]:
    """An environment in which leases, results and machines are this test's own."""
    return {
        **os.environ,
        "BAROGRAPH_HOME": str(home),
        "BAROGRAPH_STATE": str(tmp_path / "state"),
        "BAROGRAPH_RESULTS": str(tmp_path / "results"),
        "BAROGRAPH_SPARK_MASTER": "local[1]",
    }
