"""The project's ops host over ssh: commands with limits, and whose failure it is if it cannot be reached."""

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from inventory.errors import ConfigurationError, InfrastructureError
from inventory.machines import Machine, MachineType
from inventory.remote import Remote, Result, connect

_TYPE = MachineType("ops", 1, 1, 1, 0)  # nothing runs on it; `connect` wants a machine
SCAN_S = 20


@dataclass(frozen=True)
class OpsAccount:
    """Who logs in where."""

    host: str
    port: int
    user: str
    ssh_key: Path
    known_hosts: Path


class Ops:
    """One connection to the ops host; a context manager."""

    def __init__(self, account: OpsAccount) -> None:
        self.account = account
        self._remote: Remote | None = None

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """Run a program there; a non-zero code is a result."""
        assert self._remote is not None
        return self._remote.run(argv, timeout_s)

    def write(self, path: str, text: str) -> None:
        """A file below the user's home; its folder must be there."""
        assert self._remote is not None
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "text").write_text(text)
            self._remote.put(Path(folder) / "text", path)

    def host_keys(self, host: str, port: int) -> str:
        """A node's host keys as known_hosts lines, seen from inside Emulab's control net; empty if it is silent."""
        answer = self.run(["ssh-keyscan", "-T", "5", "-p", str(port), host], SCAN_S)
        return "".join(f"{line}\n" for line in answer.stdout.splitlines() if line and not line.startswith("#"))

    def __enter__(self) -> Self:
        account = self.account
        place = Machine(
            "the ops host", _TYPE, account.host, account.host, account.host, account.user, account.port,
            account.ssh_key, account.known_hosts,
        )  # fmt: skip
        try:
            self._remote = connect(place, as_user=True)
        except (InfrastructureError, OSError) as error:
            raise _unreachable(account, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._remote is not None:
            self._remote.close()


def _unreachable(account: OpsAccount, error: Exception) -> ConfigurationError | InfrastructureError:
    import paramiko

    where, why = f"emulab: ops host {account.user}@{account.host}:{account.port}", error.__cause__ or error
    login = shlex.join(["ssh", "-p", str(account.port), "-l", account.user, account.host])
    if isinstance(why, FileNotFoundError):
        return ConfigurationError(f"{where}: {why.filename} is missing; check ssh_key and ops_known_hosts")
    if isinstance(why, paramiko.BadHostKeyException):
        return ConfigurationError(
            f"{where} shows another host key than {account.known_hosts} has; if Emulab announced a new one, replace it"
        )
    if isinstance(why, paramiko.AuthenticationException):
        return ConfigurationError(
            f"{where} refuses {account.ssh_key} ({why}); upload its public half on your Emulab account's page, "
            "check testbed.options.emulab.user"
        )
    if isinstance(why, paramiko.SSHException) and "not found in known_hosts" in str(why):
        return ConfigurationError(
            f"{where} is not in {account.known_hosts}; log in once with `{login}` and compare its key with the one "
            "that Emulab publishes"
        )
    return InfrastructureError(f"{where} does not answer ({why}); check ops_host and the network, then try again")
