"""What a machine that hangs does not answer has an end, and is the machine's failure."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from inventory.remote import ssh
from inventory.remote.ssh import RemoteTimeoutError, Result, SshRemote, connect
from tests.support.emulab import ssh_server
from tests.support.emulab.ssh_server import SshServer
from tests.unit.inventory.remote.test_private_keys import machine, make_key

FILES = {"there": (b"content", 0o644)}


@pytest.fixture
def frozen() -> Iterator[threading.Event]:
    """What waits for this hangs until the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def remote(tmp_path: Path, frozen: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshRemote]:
    """A machine that begins no command and opens no file."""
    public = make_key(tmp_path, "ed25519")

    def hang(*_: object) -> bool:
        return frozen.wait()

    monkeypatch.setattr(ssh_server._Session, "check_channel_exec_request", hang)
    with (
        SshServer("127.0.0.1", 0, {"root": public}, lambda argv, _s: Result(argv[0], "", 0), FILES, hang) as server,
        connect(machine(server, tmp_path)) as connected,
    ):
        monkeypatch.setattr(ssh, "CONNECT_TIMEOUT_S", 2.0)
        monkeypatch.setattr(ssh, "KILL_GRACE_S", 0)
        monkeypatch.setattr(ssh, "FILE_LIMIT_S", 0.2)
        yield connected


def test_a_command_that_the_machine_does_not_begin_is_given_up(remote: SshRemote) -> None:
    with pytest.raises(RemoteTimeoutError, match=r"`hostname -f` was not over after 2.1 s, and the machine does not"):
        remote.run(["hostname", "-f"], timeout_s=0.1)
    with pytest.raises(InfrastructureError, match="connection is closed"):
        remote.run(["true"])


@pytest.mark.parametrize("move", [
    lambda remote, file: remote.put(file, "there"), lambda remote, file: remote.get("there", file),
])  # fmt: skip
def test_a_file_that_does_not_move_is_given_up(
    remote: SshRemote, tmp_path: Path, move: Callable[[SshRemote, Path], None]
) -> None:
    (tmp_path / "file").write_text("content")
    with pytest.raises(RemoteTimeoutError, match=r"(writing|reading) there was not over after 0.2 s"):
        move(remote, tmp_path / "file")
