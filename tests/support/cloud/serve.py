"""The cloud's own process: moto's server, the front before it, the hypervisor behind it. Ends when its input ends.

    python -m tests.support.cloud.serve [--machines [--cores 0.8]]

With machines it is the only one of its kind on the box, and first removes what a killed one left; beside it there may
be one with another $BAROGRAPH_CLOUD_STATE and $BAROGRAPH_CLOUD_LAN. It prints one line of JSON when it answers
(`Ready`), and afterwards nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.support.cloud import trouble
from tests.support.cloud.front import OWN_KEY, Application, Front

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

    from inventory.leases.registry import Lease
    from tests.support.cloud.hypervisor import Hypervisor


REGION = "us-east-1"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
# Short, as Podman wants it, and the same each time: the next one finds what was left.
STATE = Path(os.environ.get("BAROGRAPH_CLOUD_STATE") or "/tmp/barocloud")
CONTROL_LAN = os.environ.get("BAROGRAPH_CLOUD_LAN") or "10.217.0.0/24"
EXPERIMENT_LAN = "10.218.0.0/24"  # nothing is on it: instances have one network card
NOWHERE = "10.230.0.0/16"  # instances without machines; a cloud with machines may run beside it
LIFE_S = 4 * 3600.0
LOCK_WAIT_S = 900.0
CANONICAL = "099720109477"
# id → name after `ubuntu/images/`, architecture, day
IMAGES = {
    "ami-0a01": ("hvm-ssd/ubuntu-jammy-22.04-amd64-server-20260901", "x86_64", "2026-09-01"),
    "ami-0a02": ("hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260801", "x86_64", "2026-08-01"),
    "ami-0a03": ("hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261001", "x86_64", "2026-10-01"),
    "ami-0a04": ("hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20261101", "arm64", "2026-11-01"),
}
NEWEST_IMAGE = "ami-0a03"
# EC2 refuses what is not there; moto does so when it is told to.
STRICT = ("MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION", "MOTO_ENABLE_KEYPAIR_VALIDATION", "MOTO_ENABLE_AMI_VALIDATION")


@dataclass(frozen=True)
class Ready:
    """What a caller needs: where the cloud answers, its VPC, and a subnet for each zone."""

    endpoint: str
    vpc: str
    subnets: dict[str, str]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--machines", action="store_true", help="an emulated machine for each instance (needs root)")
    asked.add_argument("--cores", type=float, metavar="N", help="of each machine, where few can have more")
    chosen = asked.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # its end is that of its input, in order; what it starts gets signals
    with ExitStack() as stack:
        lease = stack.enter_context(alone()) if chosen.machines else None
        ready = stack.enter_context(cloud(lease, chosen.cores))
        print(json.dumps(asdict(ready)), flush=True)
        sys.stdin.read()


@contextmanager
def alone() -> Iterator[Lease]:
    """The lease of this cloud's machines; they, and those of a killed cloud, are gone afterwards."""
    os.environ.update(
        BAROGRAPH_STATE=str(STATE), BAROGRAPH_CONTROL_LAN=CONTROL_LAN, BAROGRAPH_EXPERIMENT_LAN=EXPERIMENT_LAN
    )
    from inventory.leases import registry
    from inventory.local.testbed import LocalTestbed

    with _locked_folder():
        clean_up()
        logging.basicConfig(filename=STATE / "cloud.log", level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
        lease = registry.take("test cloud", "test cloud", LocalTestbed.name, LIFE_S)
        try:
            yield lease
        finally:
            clean_up()
            shutil.rmtree(STATE)  # else it is the record of machines that still run


def _locked_folder() -> IO[str]:
    """Its lock; who waited for it may have got that of a folder which is gone."""
    while True:
        STATE.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = (STATE / ".cloud.lock").open("w")
            _lock(lock.fileno())
            if os.fstat(lock.fileno()).st_nlink:
                return lock
            lock.close()


def clean_up() -> None:
    """End every lease and everything without one in the cloud's state folder; whoever calls this holds its lock."""
    from inventory.leases import registry
    from inventory.local.testbed import LocalTestbed

    for lease in registry.read_all():
        LocalTestbed().release(lease)
        registry.drop(lease)
    LocalTestbed().sweep()


@contextmanager
def cloud(lease: Lease | None, cores: float | None = None) -> Iterator[Ready]:
    """The cloud answers; it has machines, of that size, if there is a lease for them."""
    with ExitStack() as stack:
        _load_images()
        front, endpoint = stack.enter_context(_serving())
        client = own_client(endpoint)
        network = IPv4Network(CONTROL_LAN if lease else NOWHERE)
        ready = _furnish(client, endpoint, front, network)
        hypervisor = _hypervisor(client, front, lease, cores)
        begin = partial(_begin_anew, client, endpoint, front, network)
        front.moto = _administered(front, hypervisor, front.moto, begin)
        hypervisor.start()
        stack.callback(hypervisor.stop)
        yield ready


def _load_images() -> None:
    """moto reads its settings and its images when it is imported; then their file may go, before anything is killed."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="barocloud-", suffix=".json") as images:
        images.write(json.dumps([_image(*one) for one in IMAGES.items()]))
        images.flush()
        os.environ.update(dict.fromkeys(STRICT, "true"), MOTO_AMIS_PATH=images.name)
        import moto.ec2.models.amis  # noqa: F401


def _image(ami_id: str, about: tuple[str, str, str]) -> dict[str, object]:
    path, architecture, day = about
    name = f"ubuntu/images/{path}"
    return {
        "ami_id": ami_id, "state": "available", "public": True, "owner_id": CANONICAL, "image_location": name,
        "sriov": "simple", "root_device_type": "ebs", "root_device_name": "/dev/sda1", "description": name,
        "image_type": "machine", "platform": None, "architecture": architecture, "name": name,
        "virtualization_type": "hvm", "hypervisor": "xen", "creation_date": f"{day}T00:00:00.000Z",
    }  # fmt: skip


@contextmanager
def _serving() -> Iterator[tuple[Front, str]]:
    from threading import Thread

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        def log(self, type: str, message: str, *arguments: object) -> None:
            """One line a request would fill a pipe that nobody reads."""

    front = Front(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, front, threaded=True, request_handler=Quiet)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield front, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def own_client(endpoint: str) -> EC2Client:
    """A client whose calls are the cloud's own: shown the truth, neither counted nor refused."""
    import boto3
    from botocore.config import Config

    # moto's first answer takes a while on a busy box, and a call that is repeated would make things twice.
    patient = Config(read_timeout=600, retries={"total_max_attempts": 1})
    return boto3.client(
        "ec2", region_name=REGION, endpoint_url=endpoint, aws_access_key_id=OWN_KEY, aws_secret_access_key="unused",
        config=patient,
    )  # fmt: skip


def _furnish(client: EC2Client, endpoint: str, front: Front, network: IPv4Network) -> Ready:
    """A VPC over the whole network, with a subnet for each zone."""
    vpc = client.create_vpc(CidrBlock=str(network))["Vpc"]["VpcId"]
    parts = network.subnets(prefixlen_diff=2)
    subnets = {}
    for zone, part in zip(ZONES, parts, strict=False):
        made = client.create_subnet(VpcId=vpc, CidrBlock=str(part), AvailabilityZone=zone)["Subnet"]
        subnets[zone] = made["SubnetId"]
    front.zones = {subnet: zone for zone, subnet in subnets.items()}
    return Ready(endpoint, vpc, subnets)


def _begin_anew(client: EC2Client, endpoint: str, front: Front, network: IPv4Network) -> Ready:
    """As if the process had just been started: nobody was ever here. Only without machines."""
    from moto.moto_api._internal import moto_api_backend  # type: ignore[attr-defined]

    with front.quiet():
        moto_api_backend.reset()
        front.forget()
    return _furnish(client, endpoint, front, network)


def _hypervisor(client: EC2Client, front: Front, lease: Lease | None, cores: float | None) -> Hypervisor:
    from moto.backends import get_backend
    from moto.core.models import DEFAULT_ACCOUNT_ID

    from inventory.local import rootfs
    from tests.support.cloud.hypervisor import Hypervisor
    from tests.support.cloud.machine import Host, Size

    def public_key(name: str) -> str:
        material = get_backend("ec2")[DEFAULT_ACCOUNT_ID][REGION].key_pairs[name].material_public
        return material.decode() if isinstance(material, bytes) else str(material)

    host = None
    if lease is not None:
        size = Size() if cores is None else Size(cores)
        host = Host(lease, rootfs.build(rootfs.cache_dir(), logging.getLogger(__name__).info), size)
        host.open()
    return Hypervisor(client, front, host, public_key)


def _administered(front: Front, hypervisor: Hypervisor, moto: Application, begin: Callable[[], Ready]) -> Application:
    """moto, and under `/_cloud/` what the cloud's handle asks: no form of EC2's, so it passes the front untouched."""
    answers: dict[str, Callable[[str], object]] = {
        "trouble": lambda text: front.expect(trouble.read(text)),
        "calls": lambda _: [asdict(one) for one in list(front.calls)],
        "launches": lambda _: [asdict(one) for one in list(front.gaps.launches.values())],
        "machines": lambda _: list(hypervisor.machines),
        "anew": lambda _: asdict(begin()),
        "announce": front.gaps.announce,
        "take_away": lambda instance_id: hypervisor.take_away(
            instance_id, "Server.SpotInstanceTermination", "Spot instance termination"
        ),
    }

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if not path.startswith("/_cloud/"):
            return moto(environ, start_response)
        given = answers[path.removeprefix("/_cloud/")](environ["wsgi.input"].read().decode())
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(given).encode()]

    return application


def _lock(descriptor: int) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SystemExit(f"another test cloud with machines runs ({STATE}); wait for it, or end it") from None
            time.sleep(0.5)


if __name__ == "__main__":
    main()
