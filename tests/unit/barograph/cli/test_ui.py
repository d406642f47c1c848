"""What can be checked of `barograph ui` without Airflow: its settings, its password, its port."""

import json
import socket
import stat
from pathlib import Path

import pytest

from barograph.cli.ui import PortUnavailable, serve, ui_environment, write_password


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    environment = ui_environment(tmp_path, 8123)
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1" and environment["AIRFLOW__API__PORT"] == "8123"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].startswith("http://127.0.0.1:8123/")


def test_the_password_is_new_and_private(tmp_path: Path) -> None:
    first, second = write_password(tmp_path), write_password(tmp_path)
    file = tmp_path / "passwords.json"
    assert first != second and len(second) >= 12
    assert json.loads(file.read_text()) == {"admin": second}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_port_in_use_is_said_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortUnavailable, match="give another with --port"):
            serve(taken.getsockname()[1], print)


@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_a_port_that_is_none_is_said_too(port: int) -> None:
    with pytest.raises(PortUnavailable, match=f"--port is {port}; allowed: 1 to 65535"):
        serve(port, print)
