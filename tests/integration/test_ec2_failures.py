"""What goes wrong on EC2, with instances that are emulated machines: whose failure it is, and that nothing is left."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barograph.errors import CapacityError, InfrastructureError
from inventory.ec2.options import Ec2Timing
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest, machine_type
from tests.support.cloud.cloud import ROOT, Cloud, until
from tests.support.cloud.trouble import Refusal, Trouble

pytestmark = [pytest.mark.integration, pytest.mark.cloud, pytest.mark.timeout(900)]

MASTER, M1 = MachineRequest("master", machine_type("master")), MachineRequest("m1", machine_type("type_1"))
PACE = Ec2Timing(poll_s=0.5, relist_s=2.0, lag_s=30.0, ready_s=300.0, recalled_s=0.0)
IMPATIENT = Ec2Timing(poll_s=0.5, relist_s=2.0, lag_s=30.0, ready_s=25.0)
ENDS_S = 180.0
FULL = "InsufficientInstanceCapacity"

# Acquires a machine, says when its guard knows of an end that is near, and waits for kill -9.
HARNESS = """
import json, sys, time
from inventory.leases import registry
from inventory.ec2.testbed import Ec2Testbed
from inventory.machines import MachineRequest, machine_type
testbed = Ec2Testbed(json.loads(sys.argv[1]))
lease = registry.take("to be killed", "series", "ec2", 3600, site=testbed.site(), shared=True)
machines = testbed.acquire(lease, [MachineRequest("m1", machine_type("type_1"))])
testbed.prolong(registry.renew(lease, 10), machines)
print("told", flush=True)
time.sleep(3600)
"""


def take(testbed: Ec2Testbed) -> Lease:
    return registry.take("failure test", "series", "ec2", 3600, site=testbed.site(), shared=True)


def answers(testbed: Ec2Testbed, machine: Machine) -> bool:
    try:
        with testbed.connect(machine) as remote:
            return remote.run(["hostname"]).stdout.strip() == machine.name
    except InfrastructureError:
        return False


def zones(cloud: Cloud, *states: str) -> list[str]:
    """The zones of the instances in these states."""
    filters = [{"Name": "instance-state-name", "Values": list(states)}]
    found = cloud.client.describe_instances(Filters=filters)["Reservations"]  # type: ignore[arg-type]
    return [one["Placement"]["AvailabilityZone"] for reservation in found for one in reservation["Instances"]]


@pytest.mark.long
def test_a_zone_without_capacity_for_all_gives_back_what_it_gave_and_the_next_one_is_taken(
    cloud: Cloud, harness: Path
) -> None:
    before = len(zones(cloud, "terminated"))
    cloud.expect(Trouble(refusals=(Refusal("RunInstances", FULL, zone="us-east-1a", after=1),), shutting_down_s=3))
    testbed = Ec2Testbed(cloud.options(), timing=PACE)
    lease = take(testbed)
    machines = testbed.acquire(lease, [MASTER, M1])
    assert zones(cloud, "running") == ["us-east-1b", "us-east-1b"]
    assert zones(cloud, "terminated")[before:] == ["us-east-1a"]
    assert all(answers(testbed, machine) for machine in machines)
    until(lambda: len(cloud.machines()) == 2, ENDS_S, "the partial cluster's machine is gone")
    testbed.release(lease)
    assert not cloud.left()
    until(lambda: not cloud.machines(), ENDS_S, "the machines are gone")


@pytest.mark.long
def test_no_zone_has_capacity_while_describing_lags(cloud: Cloud, harness: Path) -> None:
    """The first instance is not listed yet when it has to be ended again."""
    cloud.expect(Trouble(hidden_s=4, refusals=(Refusal("RunInstances", FULL, after=1),)))
    testbed = Ec2Testbed(cloud.options(), timing=PACE)
    with pytest.raises(CapacityError, match=r"no zone has 2 machines now: us-east-1a.*us-east-1b.*us-east-1c"):
        testbed.acquire(take(testbed), [MASTER, M1])
    assert not cloud.left()


@pytest.mark.long
def test_throttling_and_lag_are_waited_out(cloud: Cloud, harness: Path) -> None:
    begun = time.time()
    throttled = [
        Refusal(action, "RequestLimitExceeded", status=503, times=2) for action in ("RunInstances", "DescribeInstances")
    ]
    cloud.expect(Trouble(refusals=tuple(throttled), hidden_s=4, pending_s=2, shutting_down_s=2))
    testbed = Ec2Testbed(cloud.options(), timing=PACE)
    lease = take(testbed)
    (machine,) = testbed.acquire(lease, [M1])
    assert answers(testbed, machine)
    assert machine.boot_s is not None and machine.boot_s > 6
    assert cloud.errors(begun)["RequestLimitExceeded"] == 4
    assert len([one for one in cloud.launches().values() if one["launched_s"] >= begun]) == 1
    testbed.release(lease)


FLAWS = {
    "m1": r"m1 \(root@10\.217\.0\.\d+:22\) does not answer",  # silent
    "m2": r"Authentication failed",  # keyless
    "m3": r"[Hh]ost key",  # unconfigured
}


@pytest.mark.long
def test_an_instance_that_cannot_be_used_is_infrastructure_and_named(cloud: Cloud, harness: Path) -> None:
    """Each of a lease of its own, side by side: all of the time is timing."""
    cloud.expect(Trouble(silent=("m1",), keyless=("m2",), unconfigured=("m3",)))
    testbeds = {name: Ec2Testbed(cloud.options(), timing=IMPATIENT) for name in FLAWS}
    taken = {name: take(testbed) for name, testbed in testbeds.items()}

    def refused(name: str) -> str:
        with pytest.raises(InfrastructureError) as refusal:
            testbeds[name].acquire(taken[name], [MachineRequest(name, machine_type("type_1"))])
        return str(refusal.value)

    with ThreadPoolExecutor(len(FLAWS)) as pool:
        said = dict(zip(FLAWS, pool.map(refused, FLAWS), strict=True))
    for name, why in FLAWS.items():
        assert re.search(rf"{name} \(i-\w+\) does not answer ssh .*{why}", said[name])
    assert not cloud.left()


@pytest.mark.long
def test_an_instance_that_ends_while_it_starts_is_infrastructure_with_amazons_reason(
    cloud: Cloud, harness: Path
) -> None:
    cloud.expect(Trouble(stillborn=("m1",), pending_s=2))
    testbed = Ec2Testbed(cloud.options(), timing=PACE)
    with pytest.raises(InfrastructureError, match=r"m1 \(i-\w+\) ended by itself: Server.InternalError"):
        testbed.acquire(take(testbed), [M1])
    assert not cloud.left()


@pytest.mark.long
def test_a_spot_interruption_is_heard_of_before_the_machine_goes(cloud: Cloud, harness: Path) -> None:
    testbed = Ec2Testbed(cloud.options(market="spot", price_limit_usd=0.2), timing=PACE)
    lease = take(testbed)
    master, m1 = testbed.acquire(lease, [MASTER, M1])
    assert testbed.recalled(lease) == ()
    cloud.announce("m1")
    assert testbed.recalled(lease) == ("m1",) and answers(testbed, m1)
    cloud.take_away("m1")
    until(lambda: len(cloud.machines()) == 1, ENDS_S, "the machine is gone")
    assert testbed.recalled(lease) == ("m1",)
    with pytest.raises(InfrastructureError, match="m1"):
        testbed.connect(m1)
    assert answers(testbed, master)
    testbed.release(lease)


@pytest.mark.long
def test_machines_join_and_leave_while_the_others_stay(cloud: Cloud, harness: Path) -> None:
    testbed = Ec2Testbed(cloud.options(placement="cluster"), timing=PACE)
    lease = take(testbed)
    (master,) = testbed.acquire(lease, [MASTER])
    (m1,) = testbed.grow(lease, [M1])
    assert registry.lease_machines(lease) == ("master", "m1") and answers(testbed, m1)
    with testbed.connect(m1) as remote:
        assert remote.run(["ping", "-c1", "-W5", master.inside_address]).code == 0
    testbed.give_back(lease, [m1])
    until(lambda: len(cloud.machines()) == 1, ENDS_S, "the machine is gone")
    assert registry.lease_machines(lease) == ("master",) and answers(testbed, master)
    testbed.release(lease)
    assert not cloud.left()


def test_a_machine_ends_itself_when_its_lease_ends_and_the_harness_is_dead(cloud: Cloud, harness: Path) -> None:
    command = [sys.executable, "-c", HARNESS, json.dumps(cloud.options())]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "told\n"
        process.send_signal(signal.SIGKILL)
    instance = cloud.instance("m1")
    assert cloud.left().instances == (instance,)
    begun = time.time()
    until(lambda: not cloud.left().instances, ENDS_S, "the guard powers the machine off, and that ends the instance")
    assert cloud.calls(begun)["TerminateInstances"] == 0, "somebody else ended it"
    assert not cloud.left().volumes
