"""A machine's lease, in a file on the machine itself, and how to take, prolong and give back a machine."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from barograph.errors import InfrastructureError
from inventory.leases import guard
from inventory.leases.registry import Lease, harness_id
from inventory.remote.ssh import Remote

OWNER_SCRIPT = Path(__file__).with_name("ownership_on_machine.py")
CLEAR_SCRIPT = Path(__file__).with_name("clear.sh")
OWNER_FILE = f"{guard.FOLDER}/lease.json"
IN_USE_CODE = 3
CLEAR_LIMIT_S = 120.0


@dataclass(frozen=True)
class Owner:
    """A machine's holder: the content of its lease.json."""

    lease_id: str
    owner: str
    harness: str
    expires_s: float

    @classmethod
    def parse(cls, content: Any) -> "Owner | None":
        """Return the holder, from the file's text or its data; None for anything else: a damaged file holds nobody."""
        try:
            data = json.loads(content) if isinstance(content, str) else content
            return cls(str(data["lease_id"]), str(data["owner"]), str(data["harness"]), float(data["expires_s"]))
        except (KeyError, TypeError, ValueError):
            return None

    def is_live(self, now_s: float) -> bool:
        return now_s < self.expires_s

    def __str__(self) -> str:
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.expires_s))
        return f"lease {self.lease_id} of {self.owner} (harness {self.harness[:8]}) until {until}"


def take(remote: Remote, lease: Lease, instead: str = "") -> Owner | None:
    """Take the machine for the lease, or return its holder. `instead`: a dead lease to replace."""
    return _run_owner_script(remote, "take", lease, instead)


def prolong(remote: Remote, lease: Lease) -> None:
    """Keep the machine for the lease until its new end."""
    if (other := _run_owner_script(remote, "prolong", lease)) is not None:
        raise InfrastructureError(f"it is held by {other}")
    guard.prolong(remote, lease.expires_s)


def prepare_machine(remote: Remote, lease: Lease) -> None:
    """Remove what earlier leases left, and start the guard that removes our programs when this lease ends.

    An earlier lease's guard may be clearing the machine right now: it must not remove the new files.
    """
    guard.stop(remote)
    clear_machine(remote)
    guard.start(remote, lease.expires_s, CLEAR_SCRIPT.read_text())


def leave(remote: Remote, lease_id: str) -> None:
    """Remove everything of ours from the machine, the claim last; nothing if the machine is not that lease's."""
    answer = remote.run(["cat", OWNER_FILE])
    holder = Owner.parse(answer.stdout) if answer.code == 0 else None
    if holder is not None and holder.lease_id == lease_id:
        clear_machine(remote)
        guard.remove(remote)


def clear_machine(remote: Remote) -> None:
    """Remove our programs, files and names from the machine; packages stay."""
    result = remote.run(["sh", "-c", CLEAR_SCRIPT.read_text()], timeout_s=CLEAR_LIMIT_S)
    if result.code != 0:
        raise InfrastructureError(f"it cannot be cleared: {result.stderr.strip() or f'code {result.code}'}")


def _run_owner_script(remote: Remote, what: str, lease: Lease, instead: str = "") -> Owner | None:
    owner = Owner(lease.lease_id, lease.owner, harness_id(), lease.expires_s)
    text = json.dumps(asdict(owner))
    result = remote.run(["python3", "-c", OWNER_SCRIPT.read_text(), what, f"{time.time()}", text, instead])
    if result.code == IN_USE_CODE:
        return Owner.parse(result.stdout) or Owner("unknown", "unknown", "unknown", lease.expires_s)
    if result.code != 0:
        raise InfrastructureError(f"{OWNER_FILE} cannot be written: {result.stderr.strip()[-300:]}")
    return None
