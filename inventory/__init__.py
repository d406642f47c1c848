"""Sources of machines: testbeds, leases, remote access, the reaper."""

from collections.abc import Callable

from inventory.ec2.testbed import Ec2Testbed
from inventory.emulab.testbed import emulab_testbed
from inventory.existing.testbed import ExistingTestbed
from inventory.local.testbed import LocalTestbed
from inventory.simulated import SimulatedTestbed
from inventory.testbed import Testbed

# Called with the testbed's keyword arguments; without any it can check, release and sweep.
TESTBEDS: dict[str, Callable[..., Testbed]] = {
    "local": LocalTestbed,
    "ec2": Ec2Testbed,
    "emulab": emulab_testbed,
    "existing": ExistingTestbed,
    "simulated": SimulatedTestbed,
}
