"""How long a cluster on EC2 takes until Storm is there, and where the time goes.

    python -m tests.support.cloud.fleet --machines 10

Emulated machines share this box, so what computes on all of them at once takes longer than on machines of their own;
what waits for one after the other is what it is.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from barograph.software import storm_home
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.machines import Machine, MachineRequest, machine_type
from inventory.remote.ansible_inventory import write_ansible_inventory
from playbooks import cluster
from playbooks.runner import PlayResult
from tests.support.cloud.cloud import Cloud, running
from tests.support.cloud.leaks import at

SLOWEST = 12
LEASE_S = 3600.0
Done = TypeVar("Done")


def requests(machines: int) -> list[MachineRequest]:
    workers = [MachineRequest(f"m{number}", machine_type("type_1")) for number in range(1, machines)]
    return [MachineRequest("master", machine_type("master")), *workers]


def timed(what: str, do: Callable[[], Done]) -> Done:
    begun = time.monotonic()
    done = do()
    print(f"{what:<44}{time.monotonic() - begun:8.1f} s", flush=True)
    return done


def deploy(machines: Sequence[Machine], folder: Path, home: Path) -> PlayResult:
    names = [machine.name for machine in machines[1:]]
    hosts = write_ansible_inventory(machines, {"master": ["master"], "workers": names}, folder / "inventory.yml")
    return cluster.deploy(hosts, folder, home, {})


def slowest_tasks(play: PlayResult) -> list[tuple[str, float]]:
    """With the wall time of each on its slowest machine."""
    slowest: dict[str, float] = {}
    for task in play.tasks:
        slowest[task.task] = max(slowest.get(task.task, 0.0), task.seconds)
    return sorted(slowest.items(), key=lambda one: -one[1])[:SLOWEST]


def measure(cloud: Cloud, machines: int, folder: Path) -> None:
    home = storm_home(logging.info)
    testbed, wanted = Ec2Testbed(cloud.options()), requests(machines)
    timed("check", lambda: testbed.check(wanted))
    lease = registry.take("fleet", "series", testbed.name, LEASE_S, site=testbed.site(), shared=True)
    begun = time.monotonic()
    try:
        started = timed("acquire", lambda: testbed.acquire(lease, wanted))
        boots = sorted(machine.boot_s or 0.0 for machine in started)
        print(f"  first and last to answer ssh                {boots[0]:.1f} and {boots[-1]:.1f} s")
        play = timed("deploy", lambda: deploy(started, folder, home))
        print(f"{'asked for, until Nimbus has all supervisors':<44}{time.monotonic() - begun:8.1f} s")
        for task, seconds in slowest_tasks(play):
            print(f"  {task:<42}{seconds:8.1f} s")
        again = timed("deploy again", lambda: deploy(started, folder, home))
        print(f"  changed: {again.changed}")
    finally:
        timed("release", lambda: testbed.release(lease))
        registry.drop(lease)
    calls, total = cloud.calls(), sum(cloud.calls().values())
    print(f"calls of EC2's API: {total}, {total / machines:.1f} a machine: {json.dumps(calls)}")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--machines", type=int, default=10)
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="bf") as state, running(machines=True) as cloud, at(cloud, state):
        measure(cloud, chosen.machines, Path(state) / "cluster")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
