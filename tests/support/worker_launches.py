"""When supervisors launched workers, by their own logs in a run's record."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

LAUNCH = re.compile(r"^(\S+) .*SLOT_(\d+) \[INFO\] Launching worker with command")


def of_run(run: Path) -> Iterator[tuple[float, str]]:
    """Epoch seconds and slot (`m1:6700`) of each launch."""
    for machine in sorted((run / "logs").iterdir()):
        log = machine / "supervisor.log"
        for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
            if found := LAUNCH.match(line):
                yield datetime.fromisoformat(found[1]).timestamp(), f"{machine.name}:{found[2]}"
