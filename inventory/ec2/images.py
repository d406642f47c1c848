"""Which image instances start from."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inventory.ec2.failures import said_by_aws
from inventory.ec2.options import Ec2Options
from inventory.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import ImageTypeDef

log = logging.getLogger(__name__)

CANONICAL = "099720109477"
UBUNTU = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
# A name alone proves nothing: anybody may publish an image under any name.
OWNERS = ("self", CANONICAL)


@dataclass(frozen=True)
class Image:
    """One machine image."""

    image_id: str
    name: str
    architecture: str
    root_device: str
    disk_gb: int


def find(ec2: "EC2Client", options: Ec2Options) -> Image:
    """The image of that id, or the newest one of that name; ConfigurationError if there is none."""
    asked = options.image or UBUNTU
    with said_by_aws(f"looking for the image {asked}"):
        if asked.startswith("ami-"):
            found = ec2.describe_images(ImageIds=[asked])["Images"]
        else:
            owners = OWNERS if options.image else (CANONICAL,)
            filters = [{"Name": "name", "Values": [asked]}, {"Name": "state", "Values": ["available"]}]
            found = ec2.describe_images(Owners=owners, Filters=filters)["Images"]  # type: ignore[arg-type]  # plain dicts
    if not found:
        raise ConfigurationError(
            f"testbed.options.ec2.image is {asked}; {ec2.meta.region_name} has no such image of yours or Canonical's; "
            "give an id (ami-…) or a name of that region, * stands for anything"
        )
    image = _newest(found)
    log.info("ec2: image %s (%s)", image.image_id, image.name)
    return image


def _newest(found: "Sequence[ImageTypeDef]") -> Image:
    best = max(found, key=lambda image: image.get("CreationDate", ""))
    root = best.get("RootDeviceName", "/dev/sda1")
    sizes = [
        int(device.get("Ebs", {}).get("VolumeSize", 0))
        for device in best.get("BlockDeviceMappings", ())
        if device.get("DeviceName") == root
    ]
    return Image(
        best.get("ImageId", ""),
        best.get("Name", ""),
        str(best.get("Architecture", "x86_64")),
        root,
        max(sizes, default=0),
    )
