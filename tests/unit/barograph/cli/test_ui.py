"""What can be checked of `barograph ui` without Airflow: its settings, its password, its port, its home."""

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from barograph.child_processes import ChildProcess
from barograph.cli import ui
from barograph.cli.ui import serve, start_supervised, ui_environment, write_password
from barograph.errors import ConfigurationError
from barograph.settings import airflow_home
from tests.support.ports import free_port

pytestmark = pytest.mark.usefixtures("own_folders")


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    environment = ui_environment(tmp_path, 8123)
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1" and environment["AIRFLOW__API__PORT"] == "8123"
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].startswith("http://127.0.0.1:8123/")


AS_AIRFLOW_READS_THEM = """
import json, sys
from airflow.cli.cli_parser import get_parser
parts = [vars(get_parser().parse_args(part)) for part in json.loads(sys.argv[1])]
print(json.dumps([{name: part.get(name) for name in ("subcommand", "host", "skip_serve_logs")} for part in parts]))
"""


def test_no_part_of_it_has_a_server_beyond_loopback(tmp_path: Path) -> None:
    """Airflow's log servers listen on every address. Sockets: tests/dags/test_leaks_under_airflow.py."""
    argv = [sys.executable, "-c", AS_AIRFLOW_READS_THEM, json.dumps(ui.PARTS)]
    done = subprocess.run(argv, env=ui_environment(tmp_path, 8123), capture_output=True, text=True, check=True)
    parts = {part["subcommand"]: part for part in json.loads(done.stdout.splitlines()[-1])}
    assert parts["api-server"]["host"] == "127.0.0.1"
    assert all(part["host"] in (None, "127.0.0.1") for part in parts.values()), parts
    assert all(part["skip_serve_logs"] in (None, True) for part in parts.values()), parts
    assert parts["scheduler"]["skip_serve_logs"] and parts["triggerer"]["skip_serve_logs"]


def test_the_password_is_new_and_private(tmp_path: Path) -> None:
    file = tmp_path / "passwords.json"
    write_password(tmp_path)
    first = json.loads(file.read_text())
    file.chmod(0o644)
    write_password(tmp_path)
    second = json.loads(file.read_text())
    assert first != second and list(second) == ["admin"] and len(second["admin"]) >= 12
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_port_in_use_is_said_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigurationError, match="give another with --port"):
            serve(taken.getsockname()[1], print)


@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_a_port_that_is_none_is_said_too(port: int) -> None:
    with pytest.raises(ConfigurationError, match=f"--port is {port}; allowed: 1 to 65535"):
        serve(port, print)


def test_a_second_one_on_the_same_home_is_refused_while_the_first_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[ConfigurationError] = []

    def prepare(home: Path) -> None:
        """As the first one serves."""
        with pytest.raises(
            ConfigurationError, match=f"from {home}; use that one, or end it, or set BAROGRAPH_HOME"
        ) as caught:
            serve(free_port(), pytest.fail)
        refused.append(caught.value)
        raise KeyboardInterrupt

    monkeypatch.setattr(ui, "prepare", prepare)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            serve(free_port(), pytest.fail)
    assert len(refused) == 2


SERVER = """
import json, sys, time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        now = datetime.now(UTC).isoformat()
        beats = {p: {"status": "healthy", f"latest_{p}_heartbeat": EARLIER} for p in sys.argv[3:]}
        if Path(sys.argv[2]).exists():
            beats |= {p: {"status": "healthy", f"latest_{p}_heartbeat": now} for p in sys.argv[3:]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(beats).encode())

EARLIER = datetime.fromtimestamp(0, UTC).isoformat()
time.sleep(1)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
OTHERS = """
import sys, time, urllib.request
from pathlib import Path
urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}").close()
time.sleep(1)
Path(sys.argv[2]).touch()
time.sleep(600)
"""


def test_its_parts_begin_once_the_server_answers_and_its_address_is_printed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats, lines = tmp_path / "beats", list[str]()

    def start(home: Path, port: int, parts: Sequence[Sequence[str]]) -> ChildProcess:
        code = SERVER if parts == ui.PARTS[:1] else OTHERS
        argv = [sys.executable, "-c", code, str(port), str(beats), *ui.HEARTBEATS]
        return start_supervised([argv], tmp_path / "log", os.environ)

    def say(text: str) -> None:
        lines.append(text)
        if "http://" in text:
            assert beats.exists(), "before anything listens"
            raise KeyboardInterrupt

    for name in ("prepare", "prepare_users_database"):
        monkeypatch.setattr(ui, name, lambda _home: None)
    monkeypatch.setattr(ui, "start_airflow", start)
    assert serve(free_port(), say) == 0
    password = json.loads((airflow_home() / "passwords.json").read_text())["admin"]
    assert "passwords.json" in lines[-2] and not any(password in line for line in lines), "a journal keeps lines"


# What comes to it in the two seconds after the first signal: SIGTERM would be the supervisor's second step.
RECORDS = """
import signal, sys, time
from pathlib import Path
file, numbers = Path(sys.argv[1]), (signal.SIGINT, signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
file.with_suffix(".ready").touch()
came, end_s = [signal.sigwait(numbers)], time.monotonic() + 2
while (left_s := end_s - time.monotonic()) > 0:
    if more := signal.sigtimedwait(numbers, left_s):
        came.append(more.si_signo)
file.write_text(" ".join(signal.Signals(each).name for each in came))
"""
# As a worker of Airflow: it passes on to its task what it gets, and waits for it.
PASSES_ON = """
import signal, subprocess, sys, time
task = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]])

def pass_on(number, _frame):
    time.sleep(0.5)
    task.send_signal(number)

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, pass_on)
task.wait()
"""
COLLECTS = """
import sys, time
from pathlib import Path
from barograph.errors import Interrupted
from barograph.series.interruption import interruptible
file = Path(sys.argv[1])
with interruptible():
    try:
        with interruptible():
            file.with_suffix(".ready").touch()
            while True:
                pass
    except Interrupted:
        end_s = time.monotonic() + 2
        while time.monotonic() < end_s:
            pass
        file.write_text("collected")
"""


def test_at_the_end_a_busy_task_is_asked_once_and_collects(tmp_path: Path) -> None:
    signals, task = tmp_path / "signals", tmp_path / "task"
    commands = [(RECORDS, str(signals)), (PASSES_ON, COLLECTS, str(task))]
    with start_supervised([[sys.executable, "-c", *each] for each in commands], tmp_path / "log", os.environ) as all_of:
        while not all(file.with_suffix(".ready").exists() for file in (signals, task)):
            assert all_of.exit_code() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
    said = (tmp_path / "log").read_text()
    assert signals.read_text() == "SIGINT" and task.exists() and task.read_text() == "collected", said
