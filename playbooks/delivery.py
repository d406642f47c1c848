"""What deploy delivers to the master beside Storm: policy service, jars; and how to pack Storm."""

from __future__ import annotations

import gzip
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from playbooks.errors import PlaybookError

ROOT = Path(__file__).parent.parent
SERVICE = "scheduler_plugins"
NOT_SERVED = ("nimbus_bridge", "simulator", "__pycache__")
TOPOLOGIES = ROOT / "topologies" / "target" / "barograph-topologies.jar"
DELIVERY = "delivery.tar.gz"
STORE = "deliveries"  # beside the folder of homes
JARS = "/opt/barograph/jars"


class DeliveryIncomplete(PlaybookError):
    """A part of the delivery has not been built."""

    blame = "configuration"


def pack(directory: Path, service: Path = ROOT, name: str = DELIVERY) -> Path:
    """`<directory>/<name>`, the same bytes for the same parts, so that a second deploy changes nothing.

    The policy service is that of `service`, a folder with `scheduler_plugins/`; the jars are always ours.
    """
    if not TOPOLOGIES.is_file():
        raise DeliveryIncomplete(f"{TOPOLOGIES} is not there; build it: mvn -f topologies/pom.xml package")
    target = directory / name
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as packed,
    ):
        for file, name in _parts(service):
            packed.add(file, name, filter=_anonymous)
    return target


def pack_command(storm_home: Path) -> str:
    """The shell command that prints the home's archives (`storm_home.parcels`); only a play that needs them runs it."""
    home = storm_home.absolute()
    argv = [sys.executable, "-m", "playbooks.storm_home.parcels", str(home), str(home.parent.with_name(STORE))]
    return f"cd {shlex.quote(str(ROOT))} && {shlex.join(argv)}"


def _parts(service: Path) -> Iterator[tuple[Path, str]]:
    for file in sorted((service / SERVICE).rglob("*.py")):
        if not set(file.relative_to(service).parts) & set(NOT_SERVED):
            yield file, str(file.relative_to(service))
    yield TOPOLOGIES, f"jars/{TOPOLOGIES.name}"


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime, member.uid, member.gid, member.uname, member.gname, member.mode = 0, 0, 0, "root", "root", 0o644
    return member
