"""Record a machine's lease in one file, replaced as a whole. Runs on the machine, as root, standard library only.

Arguments: `take` NOW LEASE [INSTEAD] or `prolong` NOW LEASE. LEASE is the file's new content, a JSON object with
`lease_id`, `owner`, `harness` and `expires_s`; INSTEAD is the id of a lease that may be replaced although it has not
ended. Ends with 3 and prints the file's content where another lease holds the machine.
"""

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("BAROGRAPH_GUARD", "/var/lib/barograph-guard"))
IN_USE_CODE = 3


def read_holder() -> Any:
    """Return the file's content; None if it is missing or damaged."""
    try:
        return json.loads((FOLDER / "lease.json").read_text())
    except (OSError, ValueError):
        return None


def is_free(what: str, now_s: float, lease_id: str, instead: str) -> bool:
    other = read_holder()
    if not other or what == "prolong":
        return bool(other) and other["lease_id"] == lease_id if what == "prolong" else True
    return other["lease_id"] in (lease_id, instead) or other["expires_s"] <= now_s


def write_holder(text: str) -> None:
    partial = FOLDER / "lease.json.partial"
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(FOLDER / "lease.json")


def main(what: str, now: str, lease: str, instead: str = "") -> int:
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_free(what, float(now), json.loads(lease)["lease_id"], instead):
            print(json.dumps(read_holder()))
            return IN_USE_CODE
        write_holder(lease)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
