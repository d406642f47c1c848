"""Private addresses need a way into the VPC."""

import errno
import os
import socket

import pytest

from barograph.errors import ConfigurationError
from inventory.ec2.options import Ec2Options
from inventory.ec2.survey import Zone, harness_network


def test_a_vpc_that_this_box_has_no_way_into_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_self: socket.socket, _address: object) -> None:
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    options = Ec2Options(budget_usd=1.0, addresses="private")
    zone = Zone("us-east-1a", "subnet-1", "vpc-1", "10.219.0.0/24")
    with pytest.raises(ConfigurationError, match=r"addresses is private, .*no way into 10.219.0.0/24"):
        harness_network(options, zone)
