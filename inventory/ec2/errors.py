"""Map AWS errors to errors of the inventory: whose failure it is, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


# Another zone may have capacity.
ZONE_CODES = frozenset(
    {
        "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientFreeAddressesInSubnet",
        "SpotMaxPriceTooLow", "Unsupported", "Server.InsufficientInstanceCapacity",
    }
)  # fmt: skip
QUOTA_CODES = frozenset(
    {
        "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded",
        "SecurityGroupLimitExceeded", "Client.VolumeLimitExceeded", "MaxIOPSLimitExceeded", "AddressLimitExceeded",
    }
)  # fmt: skip
# code -> what the user is to do
USER_CODES = {
    "ExpiredToken": "the session's credentials have expired; get new ones",
    "ExpiredTokenException": "the session's credentials have expired; get new ones",
    "RequestExpired": "the session's credentials have expired, or this box's clock is wrong; get new ones, or set it",
    "InvalidClientTokenId": "the access key is not known to AWS; see AWS_ACCESS_KEY_ID or the profile",
    "UnrecognizedClientException": "the access key is not known to AWS; see AWS_ACCESS_KEY_ID or the profile",
    "SignatureDoesNotMatch": "the secret key does not fit the access key; see AWS_SECRET_ACCESS_KEY or the profile",
    "AuthFailure": "the credentials are not valid in this region; is the region enabled for the account?",
    "OptInRequired": "the account has not opted in to this service or region; do so in its console",
    "UnauthorizedOperation": "these credentials may not do that; docs/testbeds.md has the permissions that are needed",
    "AccessDenied": "these credentials may not do that; docs/testbeds.md has the permissions that are needed",
    "AccessDeniedException": "these credentials may not do that; docs/testbeds.md has the permissions that are needed",
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


@contextmanager
def aws_errors(doing: str) -> Iterator[None]:
    """Turn any boto3 exception into one of our errors; `doing` completes "ec2: … failed"."""
    from botocore import exceptions as aws
    from botocore.parsers import ResponseParserError

    try:
        yield
    except aws.ClientError as error:
        raise _error_of_code(doing, error_code(error), _short_message(error)) from error
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        raise ConfigurationError(
            f"ec2: {doing}: {str(error).rstrip('.')}; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except (aws.ProfileNotFound, aws.NoRegionError, aws.InvalidRegionError, aws.ParamValidationError) as error:
        raise ConfigurationError(f"ec2: {doing}: {error}") from error
    except (aws.BotoCoreError, ResponseParserError, OSError) as error:
        raise InfrastructureError(f"ec2: {doing} failed: {error}; see whether this box reaches AWS") from error


def state_reason_error(machine: str, code: str, message: str) -> BarographError:
    """Return the error for an instance that ended by itself, from its `StateReason`."""
    if code in ZONE_CODES:
        return ZoneFull(f"ec2: {machine} could not be started: {code}: {message}")
    if code in QUOTA_CODES:
        return CapacityError(f"ec2: {machine} could not be started: {code}: {message}; ask AWS for a larger quota")
    return InfrastructureError(f"ec2: {machine} ended by itself: {code or 'no reason given'}: {message}; start again")


def _error_of_code(doing: str, code: str, message: str) -> BarographError:
    text = f"ec2: {doing} failed: {code}: {message}"
    if code in ZONE_CODES:
        return ZoneFull(f"{text}; try other zones or types, or later")
    if code in QUOTA_CODES:
        return CapacityError(f"{text}; ask AWS for a larger quota, or ask for fewer machines")
    if code in USER_CODES:
        return ConfigurationError(f"{text}; {USER_CODES[code]}")
    if code.startswith(OPTION_CODES):
        return ConfigurationError(f"{text}; see testbed.options.ec2")
    return InfrastructureError(f"{text}; start again")


def _short_message(error: "ClientError") -> str:
    # An encoded authorization message is a kilobyte that nobody reads.
    message = str(error.response.get("Error", {}).get("Message", ""))
    return message.partition(" Encoded authorization failure message")[0].rstrip(". ")
