"""Commands and files on a machine: the contract `Remote`, and its implementation over ssh; and the keys: one per lease,
one host key per machine, and a known_hosts that is exact before a machine starts.
"""

from __future__ import annotations

import re
import shlex
import socket
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from barograph.errors import ConfigurationError, InfrastructureError
from inventory.files import replace_file
from inventory.leases import processes

if TYPE_CHECKING:
    import paramiko

    from inventory.machines import Machine


class SudoRefusedError(ConfigurationError):
    """The login on a machine may not `sudo` there without a password."""


class RemoteTimeoutError(InfrastructureError):
    """A command on a machine was still running at its time limit and was killed."""


CONNECT_TIMEOUT_S = 10.0
REACH_TIMEOUT_S = 10.0  # for the first packet back, which even a busy machine sends at once
KILL_GRACE_S = 2
TIMED_OUT = (124, 137)  # coreutils timeout: the command ended on SIGTERM, or needed SIGKILL
NO_FILE = 44
SUDO = ("sudo", "-n", "--")
SUDO_REFUSAL = re.compile(
    r"^sudo: a (password|terminal) is required|^sudo: .*not allowed|^sudo: .*unknown user"
    r"|is not in the sudoers file|is not allowed to (execute|run)|may not run sudo|\bsudo: (command )?not found"
)
FILE_LIMIT_S = 600.0
# A file appears with its content and mode at once; nobody else can read it before.
RECEIVE = 'umask 077; cat > "$1.partial" && chmod "$2" "$1.partial" && mv "$1.partial" "$1"'
SEND = f'[ -f "$1" ] || exit {NO_FILE}; cat -- "$1"'


@dataclass(frozen=True)
class Result:
    """Result of a command: its output as text and its exit code (128 + signal if a signal ended it)."""

    stdout: str
    stderr: str
    code: int


class Remote(Protocol):
    """A machine that runs commands. Every failure to reach it is an InfrastructureError."""

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

    def __exit__(self, *_: object) -> None: ...


class SshRemote:
    """A machine over ssh with the lease's key; only the host key in the lease's known_hosts is accepted.

    Everything runs as root: another user must be able to `sudo` without a password. `as_user`: nothing does, for a host
    that is not ours.
    """

    def __init__(self, machine: Machine, client: paramiko.SSHClient, *, as_user: bool = False) -> None:
        self._machine = machine
        self._client = client
        self._direct = as_user or machine.ssh_user == "root"

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        result = self._run(argv, timeout_s)
        return Result(_text(result.stdout), _text(result.stderr), result.code)

    def put(self, source: Path, target: str) -> None:
        mode = stat.S_IMODE(source.stat().st_mode)  # a missing local file is the caller's error, not the machine's
        if self._direct:
            with self._limited(f"writing {target}", FILE_LIMIT_S), self._client.open_sftp() as sftp:
                sftp.put(str(source), target)
                sftp.chmod(target, mode)
            return
        result = self._run(["sh", "-c", RECEIVE, "put", target, f"{mode:o}"], FILE_LIMIT_S, source)
        if result.code != 0:
            raise _lost(self._machine, f"{target} cannot be written: {_text(result.stderr)}")

    def get(self, source: str, target: Path) -> None:
        if self._direct:
            with self._limited(f"reading {source}", FILE_LIMIT_S), self._client.open_sftp() as sftp:
                sftp.stat(source)  # before the local file is created
                sftp.get(source, str(target))
            return
        result = self._run(["sh", "-c", SEND, "get", source], FILE_LIMIT_S)
        if result.code == NO_FILE:
            raise FileNotFoundError(f"{self._machine.name} has no file {source}")
        if result.code != 0:
            raise _lost(self._machine, f"{source} cannot be read: {_text(result.stderr)}")
        target.write_bytes(result.stdout)

    def close(self) -> None:
        self._client.close()

    def _run(self, argv: Sequence[str], timeout_s: float, given: Path | None = None) -> _CommandOutput:
        """Run the command; `given` is a file that it reads as its input."""
        # The limit is set on the machine too, or a command outlives the session that started it. The explicit exit
        # keeps the shell there, which turns an ending by signal into 128 + signal.
        timed_argv = ["timeout", "-k", f"{KILL_GRACE_S}", f"{timeout_s:g}", *argv]
        command = shlex.join(timed_argv if self._direct else [*SUDO, *timed_argv])
        whole_s, what = timeout_s + 2 * KILL_GRACE_S + CONNECT_TIMEOUT_S, f"`{shlex.join(argv)}`"
        with self._limited(what, whole_s):
            transport = self._client.get_transport()
            if transport is None or not transport.is_active():
                raise _lost(self._machine, "the connection is closed")
            with transport.open_session(timeout=CONNECT_TIMEOUT_S) as channel:
                channel.settimeout(whole_s)
                result = _execute(channel, f"{command}; exit $?", given)
        if result.code in TIMED_OUT and result.elapsed_s >= timeout_s:
            raise RemoteTimeoutError(f"{self._machine.name}: {what} still ran after {timeout_s:g} s and was killed")
        if result.code < 0:
            raise _lost(self._machine, f"the connection ended during {what}")
        if not self._direct and (why := sudo_refusal(result.code, _text(result.stderr))):
            raise SudoRefusedError(
                f"{self._machine.name}: user {self._machine.ssh_user} may not become root ({why}); install sudo there "
                f"and allow it without a password: {self._machine.ssh_user} ALL=(ALL) NOPASSWD: ALL"
            )
        return result

    @contextmanager
    def _limited(self, what: str, limit_s: float) -> Iterator[None]:
        """Close the connection at the limit: paramiko awaits some answers without a timeout."""
        expiry = threading.Event()

        def end() -> None:
            expiry.set()
            self._client.close()

        timer = threading.Timer(limit_s, end)
        timer.daemon = True
        timer.start()
        cause: InfrastructureError | None = None
        try:
            with _ssh_errors(self._machine):
                yield
        except InfrastructureError as error:
            if not expiry.is_set():
                raise
            cause = error
        finally:
            timer.cancel()
        if expiry.is_set():
            raise RemoteTimeoutError(
                f"{self._machine.name}: {what} was not over after {limit_s:g} s, and the machine does not answer; the"
                " connection was closed"
            ) from cause

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(machine: Machine, *, as_user: bool = False) -> SshRemote:
    """Log in with the lease's key; InfrastructureError if the machine is silent or shows another host key."""
    import paramiko
    from paramiko.pkey import UnknownKeyType

    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        with _ssh_errors(machine):
            client.load_host_keys(str(machine.known_hosts))
            try:  # here: paramiko tries each kind of key, and its last message hides that a key was refused
                key = paramiko.PKey.from_path(machine.ssh_key)
            except (OSError, ValueError, TypeError, paramiko.SSHException, UnknownKeyType) as error:
                raise ConfigurationError(
                    f"{machine.ssh_key}: not a private key that can be used without a passphrase ({error}); name"
                    " another, or take the passphrase off a copy"
                ) from error
            client.connect(
                machine.control_address, machine.ssh_port, machine.ssh_user, pkey=key, timeout=REACH_TIMEOUT_S,
                banner_timeout=CONNECT_TIMEOUT_S, auth_timeout=CONNECT_TIMEOUT_S, allow_agent=False,
                look_for_keys=False,
            )  # fmt: skip
            transport = client.get_transport()
            assert transport is not None and isinstance(transport.sock, socket.socket), "it is connected, by TCP"
            # Without Nagle's algorithm, as ssh does: the end of a command and the begin of the next are two small
            # packets, of which the second would wait until the first is acknowledged, which takes an idle peer 40 ms.
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        client.close()
        raise
    return SshRemote(machine, client, as_user=as_user)


def answers_ssh(machine: Machine, timeout_s: float) -> bool:
    """Return True if the machine speaks ssh: a frozen one still accepts connections."""
    try:
        with socket.create_connection((machine.control_address, machine.ssh_port), timeout_s) as connection:
            return connection.recv(4).startswith(b"SSH-")
    except OSError:
        return False


@contextmanager
def _ssh_errors(machine: Machine) -> Iterator[None]:
    """Turn any exception of ssh and sockets into an InfrastructureError that names the machine."""
    import paramiko

    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise _lost(machine, str(error) or type(error).__name__) from error


def _lost(machine: Machine, why: str) -> InfrastructureError:
    return InfrastructureError(
        f"{machine.name} ({machine.ssh_user}@{machine.control_address}:{machine.ssh_port}) does not answer: {why}; "
        "if nobody stopped it on purpose, release the machines and start again"
    )


def sudo_refusal(code: int, stderr: str) -> str | None:
    """Return the message of sudo, or of a shell without sudo, if the command did not run; None if it ran."""
    if code not in (1, 127):
        return None
    return next((line for line in stderr.splitlines() if SUDO_REFUSAL.search(line)), None)


@dataclass(frozen=True)
class _CommandOutput:
    stdout: bytes
    stderr: bytes
    code: int
    elapsed_s: float


def _execute(channel: paramiko.Channel, command: str, given: Path | None) -> _CommandOutput:
    """Read both streams to their end at once: a full pipe on one must not block the other."""
    start = time.monotonic()  # the machine's own limit counts from a moment after this one
    channel.exec_command(command)
    stderr: list[bytes] = []
    errors: list[BaseException] = []

    def read_stderr() -> None:
        try:
            while piece := channel.recv_stderr(65536):
                stderr.append(piece)
        except OSError as error:
            errors.append(error)

    reader = threading.Thread(target=read_stderr, daemon=True)
    reader.start()
    if given is not None:
        try:
            with given.open("rb") as file:
                while piece := file.read(65536):
                    channel.sendall(piece)
            channel.shutdown_write()
        except OSError:
            if not channel.exit_status_ready():  # one that ends before it has read everything says why by its code
                raise
    stdout = b"".join(iter(lambda: channel.recv(65536), b""))
    reader.join()  # it ends with the channel, which has a limit
    if errors:
        raise errors[0]
    code = channel.recv_exit_status()
    return _CommandOutput(stdout, b"".join(stderr), code, time.monotonic() - start)


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def make_keys(folder: Path, addresses: Mapping[str, str], lease_id: str) -> None:
    """Fill a lease's key folder (0700); `addresses` maps machine names to control addresses.

    Leaves `id_ed25519` (0600), `known_hosts`, and per machine `machines/<name>/` with its host key and the
    lease's public key.
    """
    make_key_folder(folder, lease_id)
    add_host_keys(folder, addresses, lease_id)
    add_known_hosts(folder, addresses)


def make_key_folder(folder: Path, lease_id: str) -> None:
    """Create the lease's folder, with its key and an empty known_hosts."""
    folder.mkdir(mode=0o700, parents=True)
    _generate(folder / "id_ed25519", f"barograph-{lease_id}", lease_id)
    (folder / "known_hosts").touch()


def add_host_keys(folder: Path, names: Iterable[str], lease_id: str) -> None:
    """Create the host key of each machine, whose address may not be known yet; an earlier key is replaced."""
    login = (folder / "id_ed25519.pub").read_text()
    for name in names:
        machine = folder / "machines" / name
        machine.mkdir(parents=True, exist_ok=True)
        (machine / "ssh_host_ed25519_key").unlink(missing_ok=True)
        _generate(machine / "ssh_host_ed25519_key", name, lease_id)
        (machine / "authorized_keys").write_text(login)


def add_known_hosts(folder: Path, addresses: Mapping[str, str]) -> None:
    """Set the machines' addresses in known_hosts; other entries for these names and addresses are removed."""
    lines = _other_lines(folder, {*addresses, *addresses.values()})
    for name, address in addresses.items():
        kind, key, *_ = (folder / "machines" / name / "ssh_host_ed25519_key.pub").read_text().split()
        lines.append(f"{name},{address} {kind} {key}\n")
    replace_file(folder / "known_hosts", "".join(lines))


def remove_known_hosts(folder: Path, names: Iterable[str]) -> None:
    """Remove these machines from known_hosts."""
    replace_file(folder / "known_hosts", "".join(_other_lines(folder, set(names))))


def _other_lines(folder: Path, hosts: set[str]) -> list[str]:
    lines = (folder / "known_hosts").read_text().splitlines(keepends=True)
    return [line for line in lines if hosts.isdisjoint(line.split()[0].split(","))]


def _generate(path: Path, comment: str, lease_id: str) -> None:
    processes.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], lease_id)
