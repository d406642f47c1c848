"""Record a machine's lease in one file, replaced as a whole. Runs on the machine, as root, standard library only.

Arguments: `take` NOW LEASE [INSTEAD] or `prolong` NOW LEASE. LEASE is the file's new content, a JSON object with
`lease_id`, `owner`, `harness` and `expires_s`; INSTEAD is the id of a lease that may be replaced although it has not
ended. Ends with 3 and prints the file's content where another lease holds the machine.
"""

import fcntl
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("BAROGRAPH_GUARD", "/var/lib/barograph-guard"))
IN_USE_CODE = 3


def main(what: str, now: str, lease: str, instead: str = "") -> int:
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    file, partial, lease_id = FOLDER / "lease.json", FOLDER / "lease.json.partial", json.loads(lease)["lease_id"]
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other: Any = None
        with suppress(OSError, ValueError):  # it is missing or damaged
            other = json.loads(file.read_text())
        if what == "prolong":
            is_free = bool(other) and other["lease_id"] == lease_id
        else:
            is_free = not other or other["lease_id"] in (lease_id, instead) or other["expires_s"] <= float(now)
        if not is_free:
            print(json.dumps(other))
            return IN_USE_CODE
        with partial.open("w") as new:
            new.write(lease)
            new.flush()
            os.fsync(new.fileno())
        partial.rename(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
