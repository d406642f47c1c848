"""What tests of whole DAGs share: an Airflow database, a finished series; and a world for each test."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.airflow_environment import prepare
from tests.dags import fake_runs, no_analysis
from tests.dags.fake_runs import Resumed
from tests.support import planted
from tests.support import postgres as server
from tests.support.postgres import Postgres


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An Airflow database that nothing ran in: to be copied, for Airflow takes half a minute for each on a busy box."""
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder / "airflow")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """For an Airflow of which several parts write at once: SQLite answers that with `database is locked`."""
    with server.running() as running:
        yield running


@pytest.fixture(scope="session")
def home(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Airflow database for all of these tests, but those that leave runs in it that nobody ends."""
    return shutil.copytree(prepared, tmp_path_factory.mktemp("home") / "barograph")


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """An environment in which leases, results and machines are this test's own; there is no Airflow."""
    analysed = request.node.get_closest_marker("spark") is not None
    return {**_world(tmp_path / "home", tmp_path), **(request.getfixturevalue("spark_variables") if analysed else {})}


@pytest.fixture
def airflow(world: dict[str, str], home: Path) -> dict[str, str]:
    """As `world`, with an Airflow."""
    return {**world, "BAROGRAPH_HOME": str(home)}


@pytest.fixture
def unanalysed(prepared: Path, tmp_path: Path) -> dict[str, str]:
    """As `airflow`, where an analysis is a page that says nothing: it takes most of the time of a whole DAG."""
    home = shutil.copytree(prepared, tmp_path / "home")
    no_analysis.settings(home / "airflow")
    return _world(home, tmp_path)


def _world(home: Path, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        **planted.ENVIRONMENT,
        "BAROGRAPH_HOME": str(home),
        "BAROGRAPH_STATE": str(folder / "state"),
        "BAROGRAPH_RESULTS": str(folder / "results"),
        "BAROGRAPH_SPARK_MASTER": "local[1]",
    }


@pytest.fixture(scope="session")
def finished(home: Path, spark_variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    """A series with its report."""
    return fake_runs.resumed({**_world(home, tmp_path_factory.mktemp("finished")), **spark_variables})
