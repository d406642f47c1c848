"""Options of EC2 in an experiment (`testbed.options.ec2`), and how long to wait for AWS."""

import ipaddress
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from inventory.testbed import TestbedOptions

ZONE = r"^[a-z]{2}(-[a-z]+)+-\d+[a-z]$"
WIDEST_PREFIX = 16  # a wider network than this is not "from the harness only"


class Ec2Options(TestbedOptions):
    """Everything but the budget has a default; docs/testbeds.md says what each default does."""

    budget_usd: Annotated[float, Field(gt=0, description="the most that one series may cost, in US dollars, above 0")]
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+$")] | None = None
    zones: list[Annotated[str, Field(pattern=ZONE)]] = Field(default_factory=list)
    image: Annotated[str, Field(min_length=3)] | None = None
    instance_types: dict[str, Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$")]] = Field(default_factory=dict)
    market: Literal["on_demand", "spot"] = "on_demand"
    price_limit_usd: Annotated[float, Field(gt=0)] | None = None
    addresses: Literal["public", "private"] = "public"
    vpc: Annotated[str, Field(pattern=r"^vpc-[0-9a-f]+$")] | None = None
    subnet: Annotated[str, Field(pattern=r"^subnet-[0-9a-f]+$")] | None = None
    placement: Literal["none", "cluster"] = "none"
    disk_gb: Annotated[int, Field(ge=8, le=1000)] = 16
    ingress_from: str | None = None
    endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None

    @field_validator("ingress_from")
    @classmethod
    def _narrow(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            network = ipaddress.IPv4Network(value)
        except ValueError as error:
            raise ValueError(f"{error}; give the harness's IPv4 network, such as 198.51.100.7/32") from error
        if network.prefixlen < WIDEST_PREFIX:
            raise ValueError(f"this lets {network.num_addresses} addresses in; at most a /{WIDEST_PREFIX} is allowed")
        return str(network)

    @model_validator(mode="after")
    def _together(self) -> "Ec2Options":
        if self.price_limit_usd is not None and self.market != "spot":
            raise ValueError(
                f"price_limit_usd is {self.price_limit_usd:g} and market is {self.market}; "
                "a price limit is for spot: set market: spot or remove it"
            )
        if self.vpc and self.subnet:
            raise ValueError("vpc and subnet are both given; a subnet says its VPC: remove vpc")
        return self


@dataclass(frozen=True)
class Ec2Timing:
    """Waiting times in seconds. `lag_s`: how long EC2 may not list a new resource."""

    poll_s: float = 2.0
    relist_s: float = 10.0  # while only ssh is pending
    lag_s: float = 60.0
    ready_s: float = 300.0
    gone_s: float = 600.0
    recalled_s: float = 15.0
