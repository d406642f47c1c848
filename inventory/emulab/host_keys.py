"""The lease's known_hosts for Emulab's machines, learnt before the first connection.

The ops host scans them (`ssh-keyscan`): that goes through Emulab's own control net, where only Emulab's machines are,
and comes to us over a connection whose host key is known. A manifest has no host keys. Where the nodes are on another
cluster than the ops host, the scan leaves that net: then give `known_hosts`.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from inventory.emulab.access import Node, Patience
from inventory.emulab.ops import Ops, OpsAccount
from inventory.errors import ConfigurationError, InfrastructureError


def given(nodes: Sequence[Node], source: Path) -> str:
    """What the user's file says of the nodes; a ConfigurationError lists those it does not know."""
    import paramiko

    try:
        known = paramiko.HostKeys(str(source))
    except (OSError, paramiko.SSHException) as error:
        raise ConfigurationError(f"testbed.options.emulab.known_hosts: {source} cannot be read: {error}") from error
    if strangers := [_name(node) for node in nodes if known.lookup(_name(node)) is None]:
        raise ConfigurationError(
            f"testbed.options.emulab.known_hosts: {source} has no key of {', '.join(strangers)}; add them, "
            "or set ops_host to have them scanned from there"
        )
    return source.read_text()


def scanned(
    nodes: Sequence[Node], account: OpsAccount, patience: Patience, sleep: Callable[[float], None] = time.sleep
) -> str:
    """What the nodes answer to the ops host, which also waits for each to answer ssh at all."""
    deadline = time.monotonic() + patience.ssh_s
    lines = []
    with Ops(account) as ops:
        for node in nodes:
            while not (found := ops.host_keys(node.control_address, node.ssh_port)):
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"emulab: {node.name} ({_name(node)}) shows {account.host} no host key after "
                        f"{patience.ssh_s:g} s; look at its console, or start again"
                    )
                sleep(patience.poll_s)
            lines.append(found)
    return "".join(lines)


def _name(node: Node) -> str:
    return node.control_address if node.ssh_port == 22 else f"[{node.control_address}]:{node.ssh_port}"
