"""Where on AWS things may be of ours: a region, or an endpoint that stands for it. The state folder remembers each."""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from inventory import leases
from inventory.ec2.failures import said_by_aws
from inventory.ec2.options import Ec2Options
from inventory.errors import ConfigurationError, InfrastructureError, InventoryError

if TYPE_CHECKING:
    from botocore.loaders import Loader
    from botocore.session import Session as BotocoreSession
    from mypy_boto3_ec2 import EC2Client

TESTBED = "ec2"
CONNECTIONS = 32  # at most this many machines are started at the same moment


@dataclass(frozen=True, order=True)
class Place:
    """One region; `endpoint` replaces AWS' own address for it."""

    region: str
    endpoint: str = ""

    def site(self) -> dict[str, str]:
        return {"region": self.region} | ({"endpoint": self.endpoint} if self.endpoint else {})


def chosen(options: Ec2Options) -> Place:
    """The options' region, or boto3's default one."""
    region = options.region or _default_region()
    if not region:
        raise ConfigurationError(
            "testbed.options.ec2.region is missing and there is no default; set it, or AWS_REGION, to a region such as "
            "us-east-1"
        )
    return Place(region, options.endpoint or "")


def of_site(site: Mapping[str, str]) -> Place | None:
    """What a lease's record says."""
    return Place(site["region"], site.get("endpoint", "")) if site.get("region") else None


def of_lease(lease: leases.Lease) -> tuple[Place, ...]:
    """Where the lease's machines may be: its site, or wherever this state folder ever was."""
    recorded = of_site(lease.site)
    return (recorded,) if recorded else used()


def used() -> tuple[Place, ...]:
    """Where this state folder ever made something, and what its leases name."""
    named = [of_site(lease.site) for lease in leases.read_all() if lease.testbed == TESTBED]
    return tuple(sorted({*_remembered(), *(place for place in named if place)}))


def possible(options: Ec2Options | None) -> tuple[Place, ...]:
    """Where something may be if the state folder was lost: the region of the options or of the environment."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    found = {Place(region)} if region else set()
    if options and (options.region or region):
        found.add(chosen(options))
    return tuple(sorted(found))


def remember(place: Place) -> None:
    """Record that something is about to be made there. It stays on record for good."""
    path = leases.state_dir() / "ec2-places.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        places = {*_remembered(), place}
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps([asdict(each) for each in sorted(places)], indent=1))
        partial.replace(path)


def client(place: Place) -> "EC2Client":
    """A client of EC2 there: it is patient with throttling, and threads may share it."""
    made: EC2Client = _client(place, "ec2")
    return made


def account(place: Place) -> str:
    """Whose credentials these are: the account's number."""
    with said_by_aws("asking who these credentials are"):
        return str(_client(place, "sts").get_caller_identity()["Account"])


def quota(place: Place, code: str) -> float | None:
    """One of EC2's quotas; None where it may not be asked for."""
    try:
        with said_by_aws("asking for a quota"):
            answer = _client(place, "service-quotas", attempts=2).get_service_quota(ServiceCode="ec2", QuotaCode=code)
            return float(answer["Quota"]["Value"])
    except (InventoryError, KeyError):
        return None


def _client(place: Place, service: str, attempts: int = 10) -> Any:
    import boto3
    from botocore.config import Config

    # `adaptive` also slows down the calls that follow a RequestLimitExceeded.
    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": attempts}, connect_timeout=10, read_timeout=60,
        max_pool_connections=CONNECTIONS,
    )  # fmt: skip
    with said_by_aws(f"preparing for {place.region}"):
        session: Any = boto3.session.Session(botocore_session=_session())
        return session.client(service, region_name=place.region, endpoint_url=place.endpoint or None, config=config)


def _session() -> "BotocoreSession":
    """A session that reads credentials anew, and EC2's API of ten megabytes once in a process."""
    import botocore.session

    session = botocore.session.get_session()
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> "Loader":
    import botocore.session

    loader: Loader = botocore.session.get_session().get_component("data_loader")
    return loader


def _default_region() -> str:
    import boto3

    # boto3 itself does not read AWS_REGION, which most other tools of AWS do.
    with said_by_aws("reading the default region"):
        return os.environ.get("AWS_REGION") or boto3.session.Session().region_name or ""


def _remembered() -> tuple[Place, ...]:
    path = leases.state_dir() / "ec2-places.json"
    try:
        return tuple(Place(**each) for each in json.loads(path.read_text()))
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError) as error:
        raise InfrastructureError(
            f'{path}: not a list of places ({error!r}); mend it as [{{"region": …}}], `barograph reap` looks there'
        ) from error
