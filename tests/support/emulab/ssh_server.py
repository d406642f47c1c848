"""An ssh server on the loopback that hands commands and files to whatever stands behind it."""

import contextlib
import io
import shlex
import socket
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Self

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.sftp import SFTP_FAILURE, SFTP_NO_SUCH_FILE, SFTP_OK

from inventory.remote.ssh import NO_FILE, RECEIVE, SEND, Result

Files = MutableMapping[str, tuple[bytes, int]]  # path → content and mode
Run = Callable[[Sequence[str], float], Result]  # a command and its limit in seconds


class Dropped(Exception):
    """Raised by whatever stands behind: the connection dies at once."""


class SshServer:
    """A context manager. `hear` is told of every command and file transfer before it is done, and may raise Dropped."""

    def __init__(
        self, host: str, port: int, logins: Mapping[str, str], run: Run, files: Files,
        hear: Callable[[str], None] = lambda _what: None, sudo: Callable[[], Result | None] = lambda: None,
    ) -> None:  # fmt: skip
        self.sudo = sudo  # why it is refused, if it is
        self.key = paramiko.ECDSAKey.generate()
        self.logins, self.run, self.files, self.hear = dict(logins), run, files, hear
        self._listener = socket.create_server((host, port), backlog=50)
        self.host, self.port = self._listener.getsockname()
        self._transports: list[paramiko.Transport] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def known_hosts(self) -> str:
        name = self.host if self.port == 22 else f"[{self.host}]:{self.port}"
        return f"{name} {self.key.get_name()} {self.key.get_base64()}\n"

    def close(self) -> None:
        # A listener that another thread accepts on must be shut down to let it go.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for transport in self._transports:
            transport.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as sshd does
            transport = paramiko.Transport(client)
            self._transports.append(transport)
            transport.add_server_key(self.key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Sftp, self)
            try:
                transport.start_server(server=_Session(self, transport))
            except (paramiko.SSHException, EOFError, OSError):  # who only wanted the greeting
                transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Session(paramiko.ServerInterface):
    def __init__(self, server: SshServer, transport: paramiko.Transport) -> None:
        self._server, self._transport = server, transport

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002  # paramiko's names
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL if self._server.logins.get(username) == key.get_base64() else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002  # paramiko's names
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._execute, args=(channel, command.decode()), daemon=True).start()
        return True

    def _execute(self, channel: paramiko.Channel, command: str) -> None:
        # `[sudo -n --] timeout -k 2 LIMIT command …; exit $?`, as inventory.remote.ssh writes it.
        words = shlex.split(command.removesuffix("; exit $?"))
        sudo = words[:3] == ["sudo", "-n", "--"]
        words = words[3:] if sudo else words
        assert words[:2] == ["timeout", "-k"], command
        limit_s, argv = float(words[3]), words[4:]
        try:
            self._server.hear(argv[0])
            refused = self._server.sudo() if sudo else None
            result = refused or _filed(argv, channel, self._server.files) or self._server.run(argv, limit_s)
            channel.sendall(result.stdout.encode())
            channel.sendall_stderr(result.stderr.encode())
            channel.send_exit_status(result.code)
            # The client closes: a close from here could overtake the answer to its request.
            channel.shutdown_write()
        except (Dropped, OSError):
            self._transport.close()


def _filed(argv: Sequence[str], channel: paramiko.Channel, files: Files) -> Result | None:
    """The two scripts by which inventory.remote.ssh moves files as root."""
    if argv[:3] == ["sh", "-c", RECEIVE]:
        files[argv[4]] = (channel.makefile("rb").read(), int(argv[5], 8))
        return Result("", "", 0)
    if argv[:3] == ["sh", "-c", SEND]:
        if argv[4] not in files:
            return Result("", "", NO_FILE)
        return Result(files[argv[4]][0].decode(), "", 0)
    return None


class _Sftp(paramiko.SFTPServerInterface):
    def __init__(self, session: paramiko.ServerInterface, server: SshServer) -> None:
        super().__init__(session)
        self._server = server

    def open(
        self,
        path: str,
        flags: int,
        attr: paramiko.SFTPAttributes,  # noqa: ARG002  # paramiko's names
    ) -> paramiko.SFTPHandle | int:
        name, writing = _place(path), bool(flags & 3)
        try:
            self._server.hear(f"sftp {name}")
        except Dropped:
            return SFTP_FAILURE
        if not writing and name not in self._server.files:
            return SFTP_NO_SUCH_FILE
        return _Handle(self._server.files, name, writing)

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        return _attributes(self._server.files, _place(path))

    lstat = stat

    def chattr(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        content, mode = self._server.files[_place(path)]
        self._server.files[_place(path)] = (content, mode if attr.st_mode is None else attr.st_mode & 0o7777)
        return SFTP_OK


class _Handle(paramiko.SFTPHandle):
    def __init__(self, files: Files, name: str, writing: bool) -> None:
        super().__init__()
        self._files, self._name, self._writing = files, name, writing
        if writing:
            files[name] = (b"", 0o644)
        self._data = io.BytesIO(files[name][0])

    def read(self, offset: int, length: int) -> bytes:
        self._data.seek(offset)
        return self._data.read(length)

    def write(self, offset: int, data: bytes) -> int:
        self._data.seek(offset)
        self._data.write(data)
        self._files[self._name] = (self._data.getvalue(), self._files[self._name][1])
        return SFTP_OK

    def stat(self) -> paramiko.SFTPAttributes | int:
        return _attributes(self._files, self._name)


def _attributes(files: Files, name: str) -> paramiko.SFTPAttributes | int:
    if name not in files:
        return SFTP_NO_SUCH_FILE
    attributes = paramiko.SFTPAttributes()
    attributes.st_size, attributes.st_mode = len(files[name][0]), 0o100000 | files[name][1]
    attributes.st_mtime = attributes.st_atime = int(time.time())
    attributes.st_uid = attributes.st_gid = 0
    return attributes


def _place(path: str) -> str:
    """Absolute as it is; what is below the home without its leading slash, which paramiko's server adds."""
    return path if path.startswith("/root") else path.lstrip("/")
