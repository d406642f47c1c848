"""Keys as users have them: any kind may be used, one with a passphrase is told."""

import subprocess
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError, InfrastructureError
from inventory.machines import MACHINE_TYPES, Machine
from inventory.remote.ssh import Result, connect
from tests.support.emulab.ssh_server import SshServer


def make_key(folder: Path, kind: str, passphrase: str = "") -> str:
    """Its public half in base64."""
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(folder / "id")]
    subprocess.run(argv, check=True, timeout=120)
    return (folder / "id.pub").read_text().split()[1]


def machine(server: SshServer, folder: Path) -> Machine:
    (folder / "known_hosts").write_text(server.known_hosts)
    address = server.host
    return Machine(
        "m1",
        MACHINE_TYPES["type_1"],
        address,
        address,
        address,
        "root",
        server.port,
        folder / "id",
        folder / "known_hosts",
    )


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_key_of_any_kind_is_taken_or_its_refusal_told(tmp_path: Path, kind: str) -> None:
    public = make_key(tmp_path, kind)
    with SshServer("127.0.0.1", 0, {"root": public}, lambda argv, _s: Result(argv[0], "", 0), {}) as server:
        with connect(machine(server, tmp_path)) as remote:
            assert remote.run(["hostname"]).stdout == "hostname"
        server.logins.clear()
        with pytest.raises(InfrastructureError, match="Authentication failed"):
            connect(machine(server, tmp_path))


def test_a_key_with_a_passphrase_or_none_at_all(tmp_path: Path) -> None:
    make_key(tmp_path, "ed25519", "secret")
    with SshServer("127.0.0.1", 0, {}, lambda _argv, _s: Result("", "", 0), {}) as server:
        with pytest.raises(ConfigurationError, match=r"id: not a private key that can be used without a passphrase"):
            connect(machine(server, tmp_path))
        (tmp_path / "id").write_text("nothing of the kind\n")
        with pytest.raises(ConfigurationError, match="not a private key"):
            connect(machine(server, tmp_path))
