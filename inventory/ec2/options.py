"""Options of EC2 in an experiment (`testbed.options.ec2`), how long to wait for AWS, and what machines cost: prices are
from a dated table; $BAROGRAPH_PRICES names another one.
"""

import ipaddress
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from barograph.errors import ConfigurationError
from barograph.yaml_files import Strict, read_yaml, validated
from inventory.testbed import PriceEstimate, TestbedOptions

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


PRICES_FILE = Path(__file__).with_name("prices.yaml")
HOURS_A_MONTH = 730.0  # as AWS counts them for disks
Price = Annotated[float, Field(gt=0)]


class RegionPrices(Strict):
    """Prices in US dollars: of instances by the hour, on demand; `disk_assumed`: the disk's price was not read."""

    disk_gb_month: Price
    disk_assumed: bool = False
    instances: dict[str, Price]


class Prices(Strict):
    """A price table: the day on which it was read, and the prices by region."""

    read: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    sources: list[str]
    public_address_hour: Price
    regions: dict[str, RegionPrices]

    def of(self, region: str, instance_type: str) -> float:
        """Return the type's price per hour; ConfigurationError if the table does not have it."""
        if region not in self.regions:
            raise _no_price(f"region {region}", self.regions, f"regions: {region}")
        prices = self.regions[region].instances
        if instance_type not in prices:
            raise _no_price(f"{instance_type} in {region}", prices, f"regions: {region}: instances")
        return prices[instance_type]


def _no_price(what: str, known: Iterable[str], where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{_prices_file()} has no price for {what}; it has {', '.join(sorted(known))}; add it under `{where}` of a "
        "copy and set BAROGRAPH_PRICES to that copy, or choose another"
    )


def _prices_file() -> Path:
    return Path(os.environ.get("BAROGRAPH_PRICES") or PRICES_FILE)


def load_prices() -> Prices:
    """Return the table in use; a ConfigurationError names file, field and value."""
    path = _prices_file()
    try:
        return validated(Prices, read_yaml(path), source=path.name)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error}; set BAROGRAPH_PRICES to a file like {PRICES_FILE}") from error


def estimate_cost(region: str, options: Ec2Options, instance_types: Sequence[str], hours: float) -> PriceEstimate:
    """Estimate the most that one instance of each listed type costs for that time, without network traffic."""
    table, machines, lines = load_prices(), len(instance_types), dict[str, float]()
    for name, number in Counter(instance_types).items():
        hourly, market = table.of(region, name), "on demand"
        if options.market == "spot":
            hourly = options.price_limit_usd or hourly
            market = f"spot, at most {hourly:g} an hour each"
        lines[f"{number} × {name}, {hours:.1f} h, {market} (data transfer is not counted)"] = number * hourly * hours
    prices, disks_gb = table.regions[region], machines * options.disk_gb
    assumed = ", price assumed (docs/testbeds.md)" if prices.disk_assumed else ""
    disk_line = f"{machines} × {options.disk_gb} GB of disk, {hours:.1f} h{assumed}"
    lines[disk_line] = disks_gb * prices.disk_gb_month / HOURS_A_MONTH * hours
    if options.addresses == "public":
        lines[f"{machines} × public address, {hours:.1f} h"] = machines * table.public_address_hour * hours
    return PriceEstimate(lines, table.read)
