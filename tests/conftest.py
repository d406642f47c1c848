"""What every test lives under: no unit test reaches beyond this machine."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import fakes, programs, session_of_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.golden.series import GoldenSeries
    from tests.support.cloud.cloud import Cloud


REACHING_MARKS = ("integration", "e2e")
WITH_MACHINES = ("contract", "integration")  # where the parts of `make test` that have machines look
WITH_BROWSER = "browser"
LONG = "BAROGRAPH_LONG_TESTS"
AT_NIGHT = bool(os.environ.get(LONG))

# A busy box makes any example slow; what hangs is pytest's timeout's to end.
settings.register_profile("barograph", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("by day", settings.get_profile("barograph"), max_examples=25)
settings.load_profile("barograph" if AT_NIGHT else "by day")


def examples(at_night: int) -> settings:
    """Of a property whose examples cost more than others'; a quarter of them by day."""
    return settings(max_examples=at_night if AT_NIGHT else at_night // 4)


# Spark's driver and Airflow's metadata never share a test's state with the user's.
os.environ.setdefault("PYSPARK_PYTHON", __import__("sys").executable)


def pytest_configure() -> None:
    """End everything when the tests are ended from outside (a time limit, a cancelled job); set the tests' PATH."""
    # SIGINT too: a job in the background ignores it, and with it all that it starts, which then has to be waited for.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    os.environ["PATH"] = programs.path()
    os.environ["PYTHONPATH"] = fakes.modules_of_children()
    fakes.add_testbed()
    fakes.add_context()
    os.environ.pop("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", None)  # the database of a developer's own Airflow


SPARK_LIMIT_S = 1800  # what is interrupted takes the session of every test after it with it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What others cover in less time runs where somebody asks for it. What has machines is where it is looked for."""
    folders = [Path(__file__).parent / name for name in WITH_MACHINES]
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent / WITH_BROWSER):
            item.add_marker(pytest.mark.browser)
        if any(map(item.get_closest_marker, REACHING_MARKS)) and not any(map(item.path.is_relative_to, folders)):
            raise pytest.UsageError(f"{item.nodeid} has machines, and no part of `make test` would run it: move it")
        if any(map(item.get_closest_marker, ("spark", "browser"))):  # whole analyses, on a box that may be busy
            item.add_marker(pytest.mark.timeout(SPARK_LIMIT_S), append=False)
    if AT_NIGHT:
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason=f"long: `make night`, or {LONG}=1"))


@pytest.fixture(autouse=True)
def _stay_on_this_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(request.node.get_closest_marker(mark) for mark in REACHING_MARKS):
        connect = socket.socket.connect

        def guarded(self: socket.socket, address: object) -> None:
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address):
                raise AssertionError(
                    f"a unit test tried to reach {address}: use the fake testbed or inventory.remote.ssh's fake, "
                    "or mark the test `integration`"
                )
            connect(self, address)  # type: ignore[arg-type]  # passed through as given

        monkeypatch.setattr(socket.socket, "connect", guarded)


def _is_loopback(address: object) -> bool:
    host = address[0] if isinstance(address, tuple) else ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cloud]:
    """EC2 without machines, one for all tests of this process. Who takes it has it begin `anew`."""
    from tests.support.cloud.cloud import running

    with running(machines=False) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One for all tests of this process. It interprets expressions: compiling small queries, each of which is asked
    once, would be much of the work. `golden_series` compiles."""
    from analysis import session
    from tests.support.avro_jar import jars

    running = session.spark("local[2]", settings=session.jar_settings(jars()) | session_of_tests.INTERPRETED)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def spark_variables() -> Iterator[dict[str, str]]:
    """By which processes use one JVM after the other; tests of how an analysis starts and ends start their own."""
    from tests.support import warm_spark

    with warm_spark.running() as variables:
        yield variables


@pytest.fixture(scope="session")
def golden_series(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> GoldenSeries:
    """The golden series: nobody changes it."""
    from tests.golden.series import analyse

    with session_of_tests.compiled(spark):
        return analyse(tmp_path_factory.mktemp("series") / "20261121-000000-abcdef01", spark)
