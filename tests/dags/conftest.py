"""What tests of whole DAGs share: an Airflow database, Spark's JVM, a finished series; and a world for each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dags.terminal.airflow_home import prepare
from tests import warm_spark
from tests.dags import fake_runs
from tests.dags.fake_runs import Resumed


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One Airflow database for all of these tests."""
    folder = tmp_path_factory.mktemp("barograph")
    prepare(folder / "airflow")
    return folder


@pytest.fixture(scope="session")
def spark_variables() -> Iterator[dict[str, str]]:
    """By which processes use one JVM after the other; tests of the analysis itself start their own."""
    with warm_spark.running() as variables:
        yield variables


@pytest.fixture
def world(home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """An environment in which leases, results and machines are this test's own."""
    analysed = request.node.get_closest_marker("spark") is not None
    return {**_world(home, tmp_path), **(request.getfixturevalue("spark_variables") if analysed else {})}


def _world(home: Path, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "BAROGRAPH_HOME": str(home),
        "BAROGRAPH_STATE": str(folder / "state"),
        "BAROGRAPH_RESULTS": str(folder / "results"),
        "BAROGRAPH_SPARK_MASTER": "local[1]",
    }


@pytest.fixture(scope="session")
def finished(home: Path, spark_variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    """A series with its report, and the DAG runs that measured it in Airflow's database."""
    return fake_runs.resumed({**_world(home, tmp_path_factory.mktemp("finished")), **spark_variables})
