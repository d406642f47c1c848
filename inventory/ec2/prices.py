"""Prices of machines from a dated table; $BAROGRAPH_PRICES names another one."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from barograph.errors import ConfigurationError
from inventory.ec2.options import Ec2Options
from inventory.testbed import PriceEstimate

PRICES_FILE = Path(__file__).with_name("prices.yaml")
HOURS_A_MONTH = 730.0  # as AWS counts them for disks

Price = Annotated[float, Field(gt=0)]


class _RegionModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    disk_gb_month: Price
    disk_assumed: bool = False
    instances: dict[str, Price]


class _PricesModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    read: date
    sources: list[str]
    public_address_hour: Price
    regions: dict[str, _RegionModel]


@dataclass(frozen=True)
class Prices:
    """A price table: US dollars, by region. `instance_hour` is on demand; `disk_assumed`: regions with a guessed disk
    price.
    """

    path: Path
    read: date
    public_address_hour: float
    disk_gb_month: Mapping[str, float]
    disk_assumed: frozenset[str]
    instance_hour: Mapping[str, Mapping[str, float]]

    def of(self, region: str, instance_type: str) -> float:
        """Return the type's on-demand price per hour; ConfigurationError if the table does not have it."""
        if region not in self.instance_hour:
            raise self._unknown(f"region {region}", self.instance_hour, f"regions: {region}")
        if instance_type not in self.instance_hour[region]:
            prices = self.instance_hour[region]
            raise self._unknown(f"{instance_type} in {region}", prices, f"regions: {region}: instances")
        return self.instance_hour[region][instance_type]

    def _unknown(self, what: str, known: Mapping[str, object], where: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} has no price for {what}; it has {', '.join(sorted(known))}; add it under `{where}` of a "
            "copy and set BAROGRAPH_PRICES to that copy, or choose another"
        )


def load_prices() -> Prices:
    """Return the table in use; a ConfigurationError names file, field and value."""
    path = Path(os.environ.get("BAROGRAPH_PRICES") or PRICES_FILE)
    try:
        file = _PricesModel.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise ConfigurationError(f"{path}: {field} is {first['input']!r}: {first['msg']}; see {PRICES_FILE}") from error
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"{path}: cannot be read as a price table: {reason}; set BAROGRAPH_PRICES to a file like {PRICES_FILE}"
        ) from error
    return Prices(
        path, file.read, file.public_address_hour,
        {name: region.disk_gb_month for name, region in file.regions.items()},
        frozenset(name for name, region in file.regions.items() if region.disk_assumed),
        {name: region.instances for name, region in file.regions.items()},
    )  # fmt: skip


def estimate_cost(
    prices: Prices, region: str, options: Ec2Options, instance_types: Sequence[str], hours: float
) -> PriceEstimate:
    """Estimate the most that one instance of each listed type costs for that time, without network traffic."""
    lines: dict[str, float] = {}
    for name, number in Counter(instance_types).items():
        hourly = prices.of(region, name)
        market = "on demand"
        if options.market == "spot":
            hourly = options.price_limit_usd or hourly
            market = f"spot, at most {hourly:g} an hour each"
        lines[f"{number} × {name}, {hours:.1f} h, {market} (data transfer is not counted)"] = number * hourly * hours
    machines = len(instance_types)
    disk_hour = prices.disk_gb_month[region] / HOURS_A_MONTH
    assumed = ", price assumed (docs/testbeds.md)" if region in prices.disk_assumed else ""
    disks_gb = machines * options.disk_gb
    lines[f"{machines} × {options.disk_gb} GB of disk, {hours:.1f} h{assumed}"] = disks_gb * disk_hour * hours
    if options.addresses == "public":
        lines[f"{machines} × public address, {hours:.1f} h"] = machines * prices.public_address_hour * hours
    return PriceEstimate(lines, prices.read.isoformat())
