"""What an instance is told at its first boot: a shell script with its keys, its name, its guard and its packages."""

import base64
import time
from collections.abc import Callable
from pathlib import Path

from inventory import guard
from inventory.errors import ConfigurationError

SCRIPT = Path(__file__).with_name("user_data.sh")
# What playbooks/roles/storm/tasks/deliver.yml installs; a test holds the two together.
PACKAGES = ("openjdk-17-jre-headless", "python3", "python3-numpy", "supervisor")
# `pid` while they are being installed, then `done` or `failed`, and `log`.
PACKAGES_FOLDER = "/var/lib/barograph-packages"
MOST_BYTES = 16 * 1024  # what EC2 takes


def user_data(name: str, identity: Path, expires_s: float, *, clock: Callable[[], float] = time.time) -> str:
    """The script of the machine `name`; `identity` is its folder of `inventory.host_keys`."""
    host_key = (identity / "ssh_host_ed25519_key").read_bytes()
    values = {
        "@GUARD@": guard.installation(expires_s, clock=clock),
        "@LOGIN@": (identity / "authorized_keys").read_text().strip(),
        "@NAME@": name,
        "@HOST_KEY@": base64.b64encode(host_key).decode(),
        "@PACKAGES@": " ".join(PACKAGES),
        "@PACKAGES_FOLDER@": PACKAGES_FOLDER,
    }
    text = SCRIPT.read_text()
    for place, value in values.items():
        text = text.replace(place, value)
    if len(text.encode()) > MOST_BYTES:
        raise ConfigurationError(f"ec2: the user data of {name} has {len(text.encode())} bytes, EC2 takes {MOST_BYTES}")
    return text
