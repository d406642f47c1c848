"""What every test lives under: no unit test reaches beyond this machine."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy box makes any example slow; what hangs is pytest's timeout's to end.
settings.register_profile("barograph", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("barograph")

REACHING_MARKS = ("integration", "e2e")

# Spark's driver and Airflow's metadata never share a test's state with the user's.
os.environ.setdefault("PYSPARK_PYTHON", __import__("sys").executable)


def pytest_configure() -> None:
    """Who ends the tests from outside (a time limit, a cancelled job) leaves nothing running either."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _stay_on_this_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(request.node.get_closest_marker(mark) for mark in REACHING_MARKS):
        connect = socket.socket.connect

        def guarded(self: socket.socket, address: object) -> None:
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address):
                raise AssertionError(
                    f"a unit test tried to reach {address}: use the fake testbed or inventory.remote's fake, "
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
