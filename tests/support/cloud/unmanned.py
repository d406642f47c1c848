"""In this process `ec2` rents instances that nobody boots, and what runs on them is the Storm of the fakes.

The control plane, its leases and its clean-up are the product's own; only who answers is not there. Airflow imports
what `settings` writes in each of its processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from inventory import TESTBEDS
from inventory.ec2.options import Ec2Timing
from inventory.ec2.testbed import Ec2Testbed
from inventory.machines import Machine
from inventory.testbed import Place

QUICK = Ec2Timing(poll_s=0.1, relist_s=0.5, lag_s=3.0)
SETTINGS = "from tests.support.cloud.unmanned import arrange\n\narrange()\n__all__ = ()\n"


class UnmannedTestbed(Ec2Testbed):
    """Its machines answer at once, and none has a guard that could be told its new end."""

    place: Place = "memory"

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        super().__init__(options, readiness_check=lambda _: None, timing=QUICK)

    def _tell_guard(self, machine: Machine, expires_s: float) -> None:
        """Nobody is there."""


def arrange() -> None:
    """As if `ec2` needed no software and no ssh, like `fake`."""
    TESTBEDS["ec2"] = UnmannedTestbed


def settings(airflow_home: Path) -> None:
    """From now on every Airflow of that home is arranged so."""
    folder = airflow_home / "config"
    folder.mkdir(exist_ok=True)
    (folder / "airflow_local_settings.py").write_text(SETTINGS)
