"""The guard on EC2, with instances that are emulated machines."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cloud.cloud import ROOT, Cloud, until

pytestmark = [pytest.mark.integration, pytest.mark.cloud, pytest.mark.timeout(900)]

ENDS_S = 180.0

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
