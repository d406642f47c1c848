"""A manifest (GENI RSpec 3) read: each node's login and addresses. What the portal is expected to say is only here.

Elements: `node[@client_id]`, in it `services/login[@hostname][@port][@username]`, `host[@ipv4]` (the control address)
and `interface/ip[@address]` (the experiment LAN). Sources: the GENI RSpec 3 manifest schema and manifests published by
users. Not every manifest has `host[@ipv4]`; the login's host name stands in.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from inventory.emulab.access import Node
from inventory.errors import ConfigurationError, InfrastructureError


@dataclass(frozen=True)
class Listed:
    client_id: str
    hostname: str
    port: int
    ipv4: str
    experiment_address: str


def listed(manifests: Sequence[str], user: str) -> list[Listed]:
    """Every node of the manifests, in natural order of their names (node2 before node10)."""
    found = [_listed(node, user) for text in manifests for node in _parsed(text).iter() if _tag(node) == "node"]
    return sorted(found, key=lambda node: [int(part) if part.isdigit() else part for part in _parts(node.client_id)])


def seated(found: Sequence[Listed], names: Sequence[str]) -> tuple[Node, ...]:
    """The machines on the nodes: by name where the profile uses our names, else in order."""
    if len(found) != len(names):
        raise ConfigurationError(
            f"emulab: the profile made {len(found)} nodes ({', '.join(node.client_id for node in found)}), "
            f"{len(names)} are needed; set their number in testbed.options.emulab.bindings, or name count_binding"
        )
    by_name = {node.client_id: node for node in found}
    chosen = [by_name[name] for name in names] if set(by_name) == set(names) else found
    return tuple(
        Node(name, node.hostname, node.port, node.ipv4, node.experiment_address)
        for name, node in zip(names, chosen, strict=True)
    )


def _parsed(text: str) -> ET.Element:
    # The parser resolves no external entities; a document that defines its own is none of Emulab's.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InfrastructureError("emulab: the manifest defines entities, which no RSpec does; is the endpoint right?")
    try:
        return ET.fromstring(text)
    except ET.ParseError as error:
        raise InfrastructureError(f"emulab: the manifest is no XML ({error}): {text[:200]!r}; try again") from error


def _listed(node: ET.Element, user: str) -> Listed:
    client_id = node.get("client_id") or "a node without client_id"
    logins = [one for one in node.iter() if _tag(one) == "login" and one.get("hostname")]
    login = next((one for one in logins if one.get("username") == user), logins[0] if logins else None)
    addresses = [one.get("address") for one in node.iter() if _tag(one) == "ip" and one.get("address")]
    if login is None or not addresses:
        lacks = "no login" if login is None else "no address on the experiment LAN"
        raise ConfigurationError(
            f"emulab: {client_id} has {lacks} in the manifest; the profile must give every node ssh and one LAN"
        )
    host = next((one.get("ipv4") for one in node.iter() if _tag(one) == "host" and one.get("ipv4")), None)
    hostname = str(login.get("hostname"))
    return Listed(client_id, hostname, int(login.get("port") or 22), host or hostname, str(addresses[0]))


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _parts(name: str) -> list[str]:
    return re.split(r"(\d+)", name)
