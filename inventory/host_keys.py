"""One ssh key per lease, one host key per machine, and a known_hosts that is exact before a machine starts."""

from collections.abc import Mapping
from pathlib import Path

from inventory.processes import run


def make(folder: Path, addresses: Mapping[str, str], lease_id: str) -> None:
    """Fill a lease's key folder (0700); `addresses` maps machine names to control addresses.

    Leaves `id_ed25519` (0600), `known_hosts`, and per machine `machines/<name>/` with its host key and the
    lease's public key.
    """
    folder.mkdir(mode=0o700, parents=True)
    _generate(folder / "id_ed25519", f"barograph-{lease_id}", lease_id)
    login = (folder / "id_ed25519.pub").read_text()
    for name in addresses:
        machine = folder / "machines" / name
        machine.mkdir(parents=True)
        _generate(machine / "ssh_host_ed25519_key", name, lease_id)
        (machine / "authorized_keys").write_text(login)
    (folder / "known_hosts").write_text("".join(_known(folder, name, at) for name, at in addresses.items()))


def _generate(path: Path, comment: str, lease_id: str) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], lease_id)


def _known(folder: Path, name: str, address: str) -> str:
    kind, key, *_ = (folder / "machines" / name / "ssh_host_ed25519_key.pub").read_text().split()
    return f"{name},{address} {kind} {key}\n"
