"""What an execution on the local testbed has left on the box, where other tests may have machines of their own."""

import re
import subprocess
from pathlib import Path


def namespaces(series: Path) -> list[str]:
    """Of its leases, which its log tells of."""
    released = set(re.findall(r"lease ([0-9a-f]{8}) released", (series / "harness.log").read_text()))
    assert released, f"{series}/harness.log tells of no lease"
    there = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [space for space in there if any(lease_id in space for lease_id in released)]
