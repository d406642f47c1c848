"""Commands one after the other do not wait for acknowledgements between them."""

import socket
from pathlib import Path

from inventory.remote.ssh import Result, connect
from tests.support.emulab.ssh_server import SshServer
from tests.unit.inventory.remote.test_private_keys import machine, make_key


def test_small_packets_are_sent_at_once(tmp_path: Path) -> None:
    public = make_key(tmp_path, "ed25519")
    with (
        SshServer("127.0.0.1", 0, {"root": public}, lambda argv, _s: Result(argv[0], "", 0), {}) as server,
        connect(machine(server, tmp_path)) as remote,
    ):
        transport = remote._client.get_transport()
        assert transport is not None and isinstance(transport.sock, socket.socket)
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert [remote.run([name]).stdout for name in ("one", "two")] == ["one", "two"]
