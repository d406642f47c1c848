"""Regions of AWS (or endpoints that stand for one) where we may have resources, and the clients for them.

The state folder keeps each region where something was ever created.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from barograph.errors import BarographError, ConfigurationError, InfrastructureError
from inventory.ec2.errors import aws_errors
from inventory.ec2.options import Ec2Options
from inventory.files import hold_lock, replace_file
from inventory.leases import registry

if TYPE_CHECKING:
    from botocore.loaders import Loader
    from botocore.session import Session as BotocoreSession
    from mypy_boto3_ec2 import EC2Client


TESTBED = "ec2"
CONNECTIONS = 32  # at most this many machines are started at the same moment


@dataclass(frozen=True, order=True)
class Region:
    """One region; `endpoint` replaces AWS' own address for it."""

    name: str
    endpoint: str = ""

    def site(self) -> dict[str, str]:
        return {"region": self.name} | ({"endpoint": self.endpoint} if self.endpoint else {})


def region_of_options(options: Ec2Options) -> Region:
    """Return the options' region, or boto3's default."""
    region = options.region or _default_region()
    if not region:
        raise ConfigurationError(
            "testbed.options.ec2.region is missing and there is no default; set it, or AWS_REGION, to a region such as "
            "us-east-1"
        )
    return Region(region, options.endpoint or "")


def region_of_site(site: Mapping[str, str]) -> Region | None:
    """Return the region in a lease's record."""
    return Region(site["region"], site.get("endpoint", "")) if site.get("region") else None


def regions_of_lease(lease: registry.Lease) -> tuple[Region, ...]:
    """Return the regions of the lease's machines: its site, or every region on record."""
    region = region_of_site(lease.site)
    return (region,) if region else recorded_regions()


def recorded_regions() -> tuple[Region, ...]:
    """Return the regions where this state folder ever created something, and those that its leases name."""
    regions = [region_of_site(lease.site) for lease in registry.read_all() if lease.testbed == TESTBED]
    return tuple(sorted({*_regions_on_file(), *(region for region in regions if region)}))


def possible_regions(options: Ec2Options | None) -> tuple[Region, ...]:
    """Return the regions to search if the state folder was lost: that of the options or of the environment."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    regions = {Region(region)} if region else set()
    if options and (options.region or region):
        regions.add(region_of_options(options))
    return tuple(sorted(regions))


def record_region(region: Region) -> None:
    """Record that something is about to be created there. The record is permanent."""
    path = registry.state_dir() / "ec2-places.json"
    with hold_lock(path.with_suffix(".lock"), "noting a region"):
        regions = {*_regions_on_file(), region}
        replace_file(path, json.dumps([each.site() for each in sorted(regions)], indent=1))


def client(region: Region) -> "EC2Client":
    """Return a client of EC2 there: it retries when throttled, and threads may share it."""
    ec2: EC2Client = _client(region, "ec2")
    return ec2


def account(region: Region) -> str:
    """Return the number of the account that the credentials belong to."""
    with aws_errors("asking who these credentials are"):
        return str(_client(region, "sts").get_caller_identity()["Account"])


def quota(region: Region, code: str) -> float | None:
    """Return one of EC2's quotas; None without permission to ask."""
    try:
        with aws_errors("asking for a quota"):
            answer = _client(region, "service-quotas", attempts=2).get_service_quota(ServiceCode="ec2", QuotaCode=code)
            return float(answer["Quota"]["Value"])
    except (BarographError, KeyError):
        return None


def _client(region: Region, service: str, attempts: int = 10) -> Any:
    import boto3
    from botocore.config import Config

    # `adaptive` also slows down the calls that follow a RequestLimitExceeded.
    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": attempts}, connect_timeout=10, read_timeout=60,
        max_pool_connections=CONNECTIONS,
    )  # fmt: skip
    with aws_errors(f"preparing for {region.name}"):
        session: Any = boto3.session.Session(botocore_session=_botocore_session())
        return session.client(service, region_name=region.name, endpoint_url=region.endpoint or None, config=config)


def _botocore_session() -> "BotocoreSession":
    """Return a session that reads credentials anew, and loads EC2's ten-megabyte API once per process."""
    import botocore.session

    session = botocore.session.get_session()
    session.register_component("data_loader", _data_loader())
    return session


@cache
def _data_loader() -> "Loader":
    import botocore.session

    loader: Loader = botocore.session.get_session().get_component("data_loader")
    return loader


def _default_region() -> str:
    import boto3

    # boto3 itself does not read AWS_REGION, which most other tools of AWS do.
    with aws_errors("reading the default region"):
        return os.environ.get("AWS_REGION") or boto3.session.Session().region_name or ""


def _regions_on_file() -> tuple[Region, ...]:
    path = registry.state_dir() / "ec2-places.json"
    try:
        return tuple(Region(each["region"], each.get("endpoint", "")) for each in json.loads(path.read_text()))
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InfrastructureError(
            f'{path}: not a list of places ({error!r}); mend it as [{{"region": …}}], `barograph reap` looks there'
        ) from error
