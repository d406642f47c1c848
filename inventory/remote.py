"""Commands and files on a machine: the contract, and its ssh implementation."""

import shlex
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from inventory.errors import InfrastructureError, RemoteTimeoutError

if TYPE_CHECKING:
    import paramiko

    from inventory.testbed import Machine

CONNECT_TIMEOUT_S = 10.0
KILL_GRACE_S = 2
TIMED_OUT = (124, 137)  # coreutils timeout: the command ended on SIGTERM, or needed SIGKILL


@dataclass(frozen=True)
class Result:
    """What a command left: its output as text and its exit code (128 + signal if a signal ended it)."""

    stdout: str
    stderr: str
    code: int


class Remote(Protocol):
    """A machine that can be told to do something. Every failure to reach it is an InfrastructureError."""

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """Run a program, not a shell; a non-zero code is a result. RemoteTimeoutError at the limit: it is killed."""
        ...

    def put(self, source: Path, target: str) -> None:
        """Copy a local file to an existing folder of the machine, permissions included."""
        ...

    def get(self, source: str, target: Path) -> None:
        """Copy a file from the machine; FileNotFoundError if the machine has none."""
        ...

    def close(self) -> None:
        """End the connection; harmless if it is ended."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SshRemote:
    """A machine over ssh with the lease's key; only the host key in the lease's known_hosts is accepted."""

    def __init__(self, machine: "Machine", client: "paramiko.SSHClient") -> None:
        self._machine = machine
        self._client = client

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """See `Remote.run`."""
        # The limit is kept on the machine too, or a command outlives the session that started it. The explicit
        # exit keeps the shell there, which turns an ending by signal into 128 + signal.
        command = f"timeout -k {KILL_GRACE_S} {timeout_s:g} {shlex.join(argv)}; exit $?"
        with _reaching(self._machine), self._session() as channel:
            channel.settimeout(timeout_s + 2 * KILL_GRACE_S + CONNECT_TIMEOUT_S)
            channel.exec_command(command)
            result, elapsed_s = _collect(channel)
        if result.code in TIMED_OUT and elapsed_s >= timeout_s:
            raise RemoteTimeoutError(
                f"{self._machine.name}: `{shlex.join(argv)}` still ran after {timeout_s:g} s and was killed"
            )
        if result.code < 0:
            raise InfrastructureError(_lost(self._machine, f"the connection ended during `{shlex.join(argv)}`"))
        return result

    def put(self, source: Path, target: str) -> None:
        """See `Remote.put`."""
        source.stat()  # a missing local file is the caller's error, not the machine's
        with _reaching(self._machine), self._client.open_sftp() as sftp:
            sftp.put(str(source), target)
            sftp.chmod(target, stat.S_IMODE(source.stat().st_mode))

    def get(self, source: str, target: Path) -> None:
        """See `Remote.get`."""
        with _reaching(self._machine), self._client.open_sftp() as sftp:
            sftp.stat(source)  # before the local file is created
            sftp.get(source, str(target))

    def close(self) -> None:
        """See `Remote.close`."""
        self._client.close()

    def _session(self) -> "paramiko.Channel":
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise InfrastructureError(_lost(self._machine, "the connection is closed"))
        return transport.open_session(timeout=CONNECT_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(machine: "Machine") -> SshRemote:
    """Log in with the lease's key; InfrastructureError if the machine is silent or shows another host key."""
    import paramiko

    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        with _reaching(machine):
            client.load_host_keys(str(machine.known_hosts))
            client.connect(
                machine.control_address, machine.ssh_port, machine.ssh_user, key_filename=str(machine.ssh_key),
                timeout=CONNECT_TIMEOUT_S, banner_timeout=CONNECT_TIMEOUT_S, auth_timeout=CONNECT_TIMEOUT_S,
                allow_agent=False, look_for_keys=False,
            )  # fmt: skip
    except BaseException:
        client.close()
        raise
    return SshRemote(machine, client)


class _reaching:
    """Turn whatever ssh and sockets raise into an InfrastructureError that names the machine."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import paramiko

        if isinstance(error, FileNotFoundError):
            return
        if isinstance(error, OSError | EOFError | paramiko.SSHException):
            raise InfrastructureError(_lost(self._machine, str(error) or type(error).__name__)) from error


def _lost(machine: "Machine", why: str) -> str:
    return (
        f"{machine.name} ({machine.ssh_user}@{machine.control_address}:{machine.ssh_port}) does not answer: {why}; "
        "if nobody stopped it on purpose, release the machines and start again"
    )


def _collect(channel: "paramiko.Channel") -> tuple[Result, float]:
    """Read both streams to their end at once: a full pipe on one must not block the other."""
    begun = time.monotonic()
    stderr: list[bytes] = []
    failed: list[BaseException] = []

    def read_stderr() -> None:
        try:
            while piece := channel.recv_stderr(65536):
                stderr.append(piece)
        except OSError as error:
            failed.append(error)

    reader = threading.Thread(target=read_stderr, daemon=True)
    reader.start()
    stdout = b"".join(iter(lambda: channel.recv(65536), b""))
    reader.join()
    if failed:
        raise failed[0]
    code = channel.recv_exit_status()
    return Result(_text(stdout), _text(b"".join(stderr)), code), time.monotonic() - begun


def _text(output: bytes) -> str:
    return output.decode(errors="replace")
