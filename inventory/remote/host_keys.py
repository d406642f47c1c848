"""One ssh key per lease, one host key per machine, and a known_hosts that is exact before a machine starts."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from inventory.files import replace_file
from inventory.leases.processes import run


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
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], lease_id)
