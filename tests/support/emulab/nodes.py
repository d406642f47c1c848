"""Machines that fake Emulab gives out: ssh servers on loopback addresses, one port, a fake machine behind each."""

import time
from collections.abc import Sequence

from inventory.remote.ssh import RemoteTimeoutError, Result
from tests.support.emulab.ssh_server import Run, SshServer
from tests.support.fakes.testbed import FakeMachine, FakeRemote
from tests.support.ports import free_port


class Nodes:
    """`free` is how many there are of each hardware type; `user` with `key` (base64) may log in."""

    def __init__(self, user: str, key: str, free: dict[str, int]) -> None:
        self.free = dict(free)
        self.sudo: Result | None = None  # why it is refused, if it is
        self.port = free_port()
        self._logins = {user: key}
        self._up: dict[str, tuple[SshServer, str]] = {}  # address → server and hardware type
        self._last = 10

    def refuse_logins(self) -> None:
        self._logins = {}

    def boot(self, name: str, hardware: str) -> str:
        """Take one of that type; returns its control address."""
        if self.free.get(hardware, 0) < 1:
            raise LookupError(f"no {hardware} is free")
        self.free[hardware] -= 1
        self._last += 1
        machine = FakeMachine(name)
        server = SshServer(
            f"127.0.0.{self._last}", self.port, self._logins, _runner(machine), machine.files, sudo=lambda: self.sudo
        )
        self._up[server.host] = (server, hardware)
        return server.host

    def take_back(self, address: str) -> None:
        server, hardware = self._up.pop(address)
        server.close()
        self.free[hardware] += 1

    def host_key(self, address: str) -> str:
        return self._up[address][0].known_hosts if address in self._up else ""

    def used(self) -> int:
        return len(self._up)

    def close(self) -> None:
        for server, _ in self._up.values():
            server.close()


def _runner(machine: FakeMachine) -> Run:
    remote = FakeRemote(machine)

    def run(argv: Sequence[str], limit_s: float) -> Result:
        try:
            return remote.run(argv, limit_s)
        except RemoteTimeoutError:
            time.sleep(limit_s)
            return Result("", "", 124)

    return run
