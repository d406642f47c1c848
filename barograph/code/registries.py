"""Network access of a sandbox: a proxy that connects to the registries of builds over TLS, and to nothing else.

It listens inside the sandbox's network, which has only a loopback, and connects from here. The launcher hands over the
listening socket through a Unix socket that the sandbox does not see.
"""

from __future__ import annotations

import base64
import socket
import socketserver
import threading
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

PORT = 3128  # inside: the network is the sandbox's own, so the port is free
TLS_PORT = 443
CONNECT_LIMIT_S = 30.0
IDLE_LIMIT_S = 300.0
END_LIMIT_S = 10.0  # for the proxy, once nobody uses it
LONGEST_LINE, MOST_LINES = 8192, 100
PIECE = 1 << 16
# Default hosts of Maven and Gradle.
REGISTRIES = (
    "repo.maven.apache.org", "repo1.maven.org", "repository.apache.org", "plugins.gradle.org",
    "plugins-artifacts.gradle.org", "services.gradle.org", "downloads.gradle.org",
)  # fmt: skip


class RegistryProxy(socketserver.ThreadingTCPServer):
    """Answer `CONNECT host:443` for these hosts; refusals are written to the build's log."""

    daemon_threads = True
    timeout = 0.1  # seconds to wait for a connection

    def __init__(self, listening: socket.socket, hosts: Collection[str], log: Path) -> None:
        super().__init__(("", 0), _ProxyHandler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.hosts, self.log = listening, frozenset(hosts), log

    def note(self, line: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{line}\n")


class _ProxyHandler(socketserver.StreamRequestHandler):
    server: RegistryProxy
    timeout = IDLE_LIMIT_S

    def handle(self) -> None:
        request = self.rfile.readline(LONGEST_LINE).decode("latin-1").split()
        for _ in range(MOST_LINES):
            if self.rfile.readline(LONGEST_LINE).strip() == b"":
                break
        target = request[1] if len(request) == 3 else ""
        host, _, port = target.rpartition(":")
        if request[:1] != ["CONNECT"] or host.lower() not in self.server.hosts or port != str(TLS_PORT):
            line = " ".join(request[:2])[:200]
            self.server.note(f"network: {line!r} is refused; set BAROGRAPH_BUILD_REGISTRIES to hosts that builds need")
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        try:
            out = connect(host.lower())
        except (OSError, HTTPException) as error:
            self.server.note(f"network: {host} cannot be reached: {error}")
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with out:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            relay(self.connection, out)


def connect(host: str) -> socket.socket:
    """Return a connection to the host, through this process's own proxy where it has one."""
    proxy = urllib.request.getproxies().get("https")
    if not proxy or urllib.request.proxy_bypass(host):
        return socket.create_connection((host, TLS_PORT), CONNECT_LIMIT_S)
    parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    way = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=CONNECT_LIMIT_S)
    way.set_tunnel(host, TLS_PORT, _proxy_login(parts))
    way.connect()
    return way.sock


def _proxy_login(parts: urllib.parse.SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def relay(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes both ways, until both have ended."""
    other.settimeout(IDLE_LIMIT_S)
    back = threading.Thread(target=_pump, args=(other, one), daemon=True)
    back.start()
    _pump(one, other)
    back.join(IDLE_LIMIT_S)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def registry_access(folder: Path, hosts: Collection[str], log: Path) -> Iterator[Path]:
    """Yield the Unix socket in `folder` that takes a sandbox's listening socket; the proxy ends with the block."""
    path = folder / "launcher.sock"
    with socket.socket(socket.AF_UNIX) as launcher:
        launcher.bind(str(path))
        launcher.listen(1)
        stop = threading.Event()
        thread = threading.Thread(target=_serve, args=(launcher, hosts, log, stop), daemon=True)
        thread.start()
        try:
            yield path
        finally:
            stop.set()
            with suppress(OSError):
                launcher.shutdown(socket.SHUT_RDWR)  # ends the wait for a launcher that never came
            thread.join(END_LIMIT_S)


def _serve(launcher: socket.socket, hosts: Collection[str], log: Path, ended: threading.Event) -> None:
    try:
        connection, _ = launcher.accept()
    except OSError:
        return
    with connection:
        connection.settimeout(CONNECT_LIMIT_S)
        _, numbers, _, _ = socket.recv_fds(connection, 1, 1)
        if not numbers:  # it was ended
            return
        (number,) = numbers
        with RegistryProxy(socket.socket(fileno=number), hosts, log) as server:
            try:
                connection.sendall(b"1")
            except OSError:  # it was ended
                return
            while not ended.is_set():
                server.handle_request()
