"""Access to AWS: its errors as ours (whose failure it is, and what to do); the regions, or endpoints that stand for
one, where we may have resources; and the clients for them. The state folder keeps each region where something was ever
created.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.ec2.options import Ec2Options, Ec2Timing
from inventory.files import hold_lock, replace_file
from inventory.leases import registry

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from botocore.loaders import Loader
    from mypy_boto3_ec2 import EC2Client


T = TypeVar("T")
TESTBED = "ec2"
CONNECTIONS = 32  # at most this many machines are started at the same moment

# Another zone may have capacity.
ZONE_CODES = frozenset({
    "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientFreeAddressesInSubnet",
    "SpotMaxPriceTooLow", "Unsupported", "Server.InsufficientInstanceCapacity",
})  # fmt: skip
QUOTA_CODES = frozenset({
    "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded",
    "SecurityGroupLimitExceeded", "Client.VolumeLimitExceeded", "MaxIOPSLimitExceeded", "AddressLimitExceeded",
})  # fmt: skip
_EXPIRED = "the session's credentials have expired; get new ones"
_STRANGE_KEY = "the access key is not known to AWS; see AWS_ACCESS_KEY_ID or the profile"
_FORBIDDEN = "these credentials may not do that; docs/testbeds.md has the permissions that are needed"
# code -> what the user is to do
USER_CODES = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": "the session's credentials have expired, or this box's clock is wrong; get new ones, or set it",
    "InvalidClientTokenId": _STRANGE_KEY,
    "UnrecognizedClientException": _STRANGE_KEY,
    "SignatureDoesNotMatch": "the secret key does not fit the access key; see AWS_SECRET_ACCESS_KEY or the profile",
    "AuthFailure": "the credentials are not valid in this region; is the region enabled for the account?",
    "OptInRequired": "the account has not opted in to this service or region; do so in its console",
    "UnauthorizedOperation": _FORBIDDEN,
    "AccessDenied": _FORBIDDEN,
    "AccessDeniedException": _FORBIDDEN,
    "Blocked": "AWS has blocked the account; its support says why",
    "PendingVerification": "AWS is still verifying the account; try again when that is done",
}
# The start of a code that means that something in the options does not exist or does not fit.
OPTION_CODES = ("Invalid", "Missing", "Unknown", "UnsupportedOperation", "VPCIdNotSpecified", "NoSuch")


class ZoneFull(CapacityError):
    """The zone has no such capacity now; another zone may."""


def error_code(error: "ClientError") -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def is_missing(error: "ClientError") -> bool:
    """Return True if the resource does not exist (not yet, or no longer)."""
    code = error_code(error)
    return code.endswith((".NotFound", ".Unknown", "NotFoundException")) or code == "InvalidSpotInstanceRequestID"


def call_when_visible(doing: str, call: Callable[[], T], timing: Ec2Timing) -> T:
    """Return the answer of a call about our resources. It is repeated while EC2 does not know one of them yet, which
    is nobody's wrong option."""
    from botocore.exceptions import ClientError

    deadline = time.monotonic() + timing.lag_s
    while True:
        with aws_errors(doing):
            try:
                return call()
            except ClientError as error:
                if not is_missing(error):
                    raise
                if time.monotonic() >= deadline:
                    raise InfrastructureError(f"ec2: {doing} failed: {error}; start again") from error
        time.sleep(timing.poll_s)


@contextmanager
def aws_errors(doing: str, ignored: str | None = None) -> Iterator[None]:
    """Turn any boto3 exception into one of our errors; `doing` completes "ec2: … failed". An error with the code
    `ignored` ends the block without one."""
    from botocore import exceptions as aws
    from botocore.parsers import ResponseParserError

    try:
        yield
    except aws.ClientError as error:
        if error_code(error) == ignored:
            return
        # An encoded authorization message is a kilobyte that nobody reads.
        message = str(error.response.get("Error", {}).get("Message", ""))
        message = message.partition(" Encoded authorization failure message")[0].rstrip(". ")
        raise _error_of_code(error_code(error), f"ec2: {doing} failed: {error_code(error)}: {message}") from error
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        raise ConfigurationError(
            f"ec2: {doing}: {str(error).rstrip('.')}; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except (aws.ProfileNotFound, aws.NoRegionError, aws.InvalidRegionError, aws.ParamValidationError) as error:
        raise ConfigurationError(f"ec2: {doing}: {error}") from error
    except (aws.BotoCoreError, ResponseParserError, OSError) as error:
        raise InfrastructureError(f"ec2: {doing} failed: {error}; see whether this box reaches AWS") from error


def _error_of_code(code: str, text: str) -> BarographError:
    if code in ZONE_CODES:
        return ZoneFull(f"{text}; try other zones or types, or later")
    if code in QUOTA_CODES:
        return CapacityError(f"{text}; ask AWS for a larger quota, or ask for fewer machines")
    if code in USER_CODES:
        return ConfigurationError(f"{text}; {USER_CODES[code]}")
    if code.startswith(OPTION_CODES):
        return ConfigurationError(f"{text}; see testbed.options.ec2")
    return InfrastructureError(f"{text}; start again")


def state_reason_error(machine: str, code: str, message: str) -> BarographError:
    """Return the error for an instance that ended by itself, from its `StateReason`."""
    if code in ZONE_CODES | QUOTA_CODES:
        return _error_of_code(code, f"ec2: {machine} could not be started: {code}: {message}")
    return InfrastructureError(f"ec2: {machine} ended by itself: {code or 'no reason given'}: {message}; start again")


@dataclass(frozen=True, order=True)
class Region:
    """One region; `endpoint` replaces AWS' own address for it."""

    name: str
    endpoint: str = ""

    def site(self) -> dict[str, str]:
        return {"region": self.name} | ({"endpoint": self.endpoint} if self.endpoint else {})


def region_of_options(options: Ec2Options) -> Region:
    """Return the options' region, or boto3's default."""
    import boto3

    # boto3 itself does not read AWS_REGION, which most other tools of AWS do.
    with aws_errors("reading the default region"):
        region = options.region or os.environ.get("AWS_REGION") or boto3.session.Session().region_name
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


def _regions_on_file() -> list[Region]:
    path = registry.state_dir() / "ec2-places.json"
    try:
        return [Region(each["region"], each.get("endpoint", "")) for each in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InfrastructureError(
            f'{path}: not a list of places ({error!r}); mend it as [{{"region": …}}], `barograph reap` looks there'
        ) from error


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
    import botocore.session
    from botocore.config import Config

    # `adaptive` also slows down the calls that follow a RequestLimitExceeded.
    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": attempts}, connect_timeout=10, read_timeout=60,
        max_pool_connections=CONNECTIONS,
    )  # fmt: skip
    with aws_errors(f"preparing for {region.name}"):
        credentials = botocore.session.get_session()  # a new one reads them anew
        credentials.register_component("data_loader", _data_loader())
        session: Any = boto3.session.Session(botocore_session=credentials)
        return session.client(service, region_name=region.name, endpoint_url=region.endpoint or None, config=config)


@cache
def _data_loader() -> "Loader":
    """Return the loader of EC2's ten-megabyte API, which is read once per process."""
    import botocore.session

    loader: Loader = botocore.session.get_session().get_component("data_loader")
    return loader
