"""The Thrift client against a Nimbus of this test's own, byte by byte."""

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.support.on_machine import load

nimbus = load("nimbus", "nimbus")


def text(number: int, value: str) -> bytes:
    return struct.pack(">bhi", 11, number, len(value)) + value.encode()


def structs(number: int, items: list[bytes]) -> bytes:
    return struct.pack(">bhbi", 15, number, 12, len(items)) + b"".join(item + b"\0" for item in items)


class Nimbus(socketserver.ThreadingTCPServer):
    """Two topologies and two supervisors; forgets a topology one question after its killing."""

    allow_reuse_address = daemon_threads = True
    running: list[str]
    killed: list[bytes]

    def summary(self) -> bytes:
        # 2 uptime (i32), 16 resources (map of string and double) and 9 (bool): fields that the client must step over.
        extra = struct.pack(">bhi", 8, 2, 61) + struct.pack(">bhbbi", 13, 16, 11, 4, 1)
        extra += struct.pack(">i3sd", 3, b"cpu", 400.0) + struct.pack(">bhb", 2, 9, 1)
        hosts = structs(1, [text(1, name) + extra for name in ("m2", "m1")])
        return hosts + structs(3, [text(1, name + "-1-2") + text(2, name) + text(7, "ACTIVE") for name in self.running])


class Handler(socketserver.BaseRequestHandler):
    server: Nimbus

    def handle(self) -> None:
        size = struct.unpack(">i", self.request.recv(4, socket.MSG_WAITALL))[0]
        message = self.request.recv(size, socket.MSG_WAITALL)
        length = struct.unpack(">i", message[4:8])[0]
        method, arguments = message[8 : 8 + length], message[12 + length :]
        if method == b"getClusterInfo":
            result = struct.pack(">bh", 12, 0) + self.server.summary() + b"\0\0"
        elif b"stranger" in arguments:
            result = struct.pack(">bh", 12, 1) + text(1, "no such topology") + b"\0\0"
        else:
            self.server.killed.append(arguments)
            self.server.running.pop()
            result = b"\0"
        answer = struct.pack(">Ii", 0x80010002, length) + method + struct.pack(">i", 0) + result
        self.request.sendall(struct.pack(">i", len(answer)) + answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nimbus]:
    with Nimbus(("127.0.0.1", 0), Handler) as server:
        server.running, server.killed = ["star", "linear"], []
        monkeypatch.setattr(nimbus, "ADDRESS", server.server_address)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_supervisors_are_read_past_fields_of_every_kind(server: Nimbus) -> None:
    assert nimbus.supervisors() == ["m1", "m2"]
    assert nimbus.topologies() == [("star", "ACTIVE"), ("linear", "ACTIVE")]


def test_kill_names_every_topology_without_a_wait(server: Nimbus, capsys: pytest.CaptureFixture[str]) -> None:
    nimbus.main(["kill"])
    wait_0 = struct.pack(">bh", 12, 2) + struct.pack(">bhi", 8, 1, 0) + b"\0\0"
    assert server.killed == [text(1, name) + wait_0 for name in ("star", "linear")]
    assert capsys.readouterr().out.strip() == '{"killed": ["star", "linear"]}'


def test_an_exception_of_nimbus_is_an_error(server: Nimbus) -> None:
    with pytest.raises(nimbus.NimbusError, match="no such topology"):
        nimbus.call("killTopologyWithOpts", nimbus.text(1, "stranger"))


def test_waiting_ends_when_the_machines_are_there_and_says_who_is_if_not(
    server: Nimbus, capsys: pytest.CaptureFixture[str]
) -> None:
    for how, machines in (("exactly", "m2,m1"), ("present", "m2"), ("gone", "m3,m4")):
        nimbus.main([how, machines, "5"])
        assert machines[:2] in capsys.readouterr().out
    for how, machines, last in (
        ("exactly", "m1,m2,m3", r"m1, m2, m3 and no others.*\['m1', 'm2'\]"),
        ("exactly", "m1", r"m1 and no others.*\['m1', 'm2'\]"),
        ("present", "m1,m3", r"has m1, m3.*\['m1'\]"),
        ("gone", "m2,m3", r"forgotten m2, m3.*\['m2'\]"),
    ):
        with pytest.raises(SystemExit, match=last):
            nimbus.main([how, machines, "0"])


def test_a_nimbus_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nimbus, "ADDRESS", ("127.0.0.1", 1))
    with pytest.raises(SystemExit, match="refused"):
        nimbus.main(["gone", "m1", "0"])
