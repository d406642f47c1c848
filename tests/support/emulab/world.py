"""A fake Emulab with one user, and testbeds that reach it: what the tests of both ways share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import paramiko
import pytest

from inventory.emulab.access import EmulabTiming
from inventory.emulab.portal import TOKEN_VARIABLE as VARIABLE
from inventory.emulab.testbed import EmulabTestbed, emulab_testbed
from tests.support.emulab.nodes import Nodes
from tests.support.emulab.ops import FakeOps
from tests.support.emulab.portal import TOKEN, FakePortal

USER = "ann"
# Limits that a starved box does not reach; tests of a limit set their own.
IMPATIENT = EmulabTiming(poll_s=0.01, end_s=120.0, busy_s=60.0, connect_s=30.0, refused_s=0.1, ssh_s=60.0)


@dataclass
class World:
    """Both ways lead to the same nodes. `options` may be changed before `testbed` is called."""

    nodes: Nodes
    ops: FakeOps
    portal: FakePortal
    options: dict[str, object]

    def testbed(self, timing: EmulabTiming = IMPATIENT, **changed: object) -> EmulabTestbed:
        return emulab_testbed({**self.options, **changed}, timing)

    def reaper(self, timing: EmulabTiming = IMPATIENT) -> EmulabTestbed:
        """What another process has: no options."""
        return emulab_testbed(None, timing)

    def broken(self) -> EmulabTestbed:
        """One that fails while it acquires: the portal's experiment is never ready, classic's nodes are silent."""
        hurried = replace(IMPATIENT, ssh_s=0.1)
        if self.options["access"] == "portal":
            return self.testbed(hurried, ready_minutes=1e-9)
        return self.testbed(hurried, node_port=1)

    @property
    def experiments(self) -> list[str]:
        return [*self.portal.experiments, *self.ops.experiments]

    @property
    def empty(self) -> bool:
        kept = {name for name in self.ops.files if name.endswith((".ns", ".end"))}
        return not (self.experiments or self.nodes.used() or kept)

    def close(self) -> None:
        for part in (self.portal, self.ops, self.nodes):
            part.close()


@contextmanager
def world(access: str, folder: Path) -> Iterator[World]:
    """`folder` gets the user's key and known_hosts. The token is in the environment meanwhile."""
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(folder / "id"))
    nodes = Nodes(USER, key.get_base64(), {"pc3000": 6, "d710": 6})
    ops = FakeOps(nodes, USER, key.get_base64())
    portal = FakePortal(nodes)
    (folder / "ops_known_hosts").write_text(ops.server.known_hosts)
    made = World(nodes, ops, portal, {**_common(ops, folder), **_own(access, portal, nodes)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, TOKEN)
        patch.setenv("no_proxy", "127.0.0.1")
        try:
            yield made
        finally:
            made.close()


def _common(ops: FakeOps, folder: Path) -> dict[str, object]:
    return {
        "user": USER, "project": "storm", "ssh_key": str(folder / "id"), "ops_host": ops.server.host,
        "ops_port": ops.server.port, "ops_known_hosts": str(folder / "ops_known_hosts"),
    }  # fmt: skip


def _own(access: str, portal: FakePortal, nodes: Nodes) -> dict[str, object]:
    if access == "classic":
        return {"access": "classic", "hardware": {"small": "pc3000"}, "node_port": nodes.port}
    return {
        "access": "portal", "endpoint": portal.endpoint, "profile": "small-lan", "profile_project": "PortalProfiles",
        "bindings": {"phystype": "d710"}, "count_binding": "nodeCount",
    }  # fmt: skip
