"""Lives of a harness on the test cloud, to be killed somewhere: one forked for each line of input.

    python -m tests.support.cloud.life

A line is a `Fate` as JSON. Each life says on the output which phase it begins, and its parent says when it is over
(`over <seconds>`). Forked, because importing boto3 takes longer than a life.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inventory.ec2.options import Ec2Timing
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.machines import MachineRequest, machine_type

STARTING = (MachineRequest("master", machine_type("master")), MachineRequest("m1", machine_type("type_1")))
JOINING = (MachineRequest("m2", machine_type("type_1")),)
PHASES = ("lease", "acquire", "grow", "give_back", "release", "done")
LIFE_S = 600.0
# The cloud's lag and ends take parts of a second; waits as long as AWS needs would be most of a life.
QUICK = Ec2Timing(poll_s=0.1, relist_s=0.5, lag_s=3.0)


@dataclass(frozen=True)
class Fate:
    """The options of the testbed, and after how many seconds kill -9 comes; None: it lives to its end."""

    options: Mapping[str, object]
    kill_after_s: float | None = None


def main() -> None:
    import boto3  # noqa: F401  # each life would import it anew

    for line in sys.stdin:
        fate, begun = Fate(**json.loads(line)), time.monotonic()
        pid = os.fork()
        if pid == 0:
            live(fate.options, lambda phase: print(phase, flush=True))
            os._exit(0)
        # Until it is waited for, the pid is nobody else's.
        if fate.kill_after_s is not None:
            time.sleep(fate.kill_after_s)
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            raise SystemExit("a life failed before it was killed; its own words are above")
        print(f"over {time.monotonic() - begun:.3f}", flush=True)


def live(options: Mapping[str, object], begin: Callable[[str], None]) -> None:
    """Everything that an experiment asks of a testbed, by the product's own functions; its machines answer at once."""
    begin("lease")
    testbed = Ec2Testbed(options, readiness_check=lambda _: None, timing=QUICK)
    lease = registry.take("to be killed", "series", testbed.name, LIFE_S, site=testbed.site(), shared=testbed.shared)
    begin("acquire")
    testbed.acquire(lease, STARTING)
    begin("grow")
    joined = testbed.grow(lease, JOINING)
    begin("give_back")
    testbed.give_back(lease, joined)
    begin("release")
    testbed.release(lease)
    registry.drop(lease)
    begin("done")


if __name__ == "__main__":
    main()
