"""What this harness has borrowed: by lease, how each of its machines is reached, in `<state>/existing/<lease>.json`."""

from collections.abc import Sequence
from pathlib import Path

from inventory import leases
from inventory.existing import doors
from inventory.existing.doors import Door


def file_of(lease_id: str) -> Path:
    return leases.state_dir() / "existing" / f"{lease_id}.json"


def read(lease_id: str) -> tuple[Door, ...]:
    """The machines that the lease has; none if it never had any."""
    try:
        return doors.from_text(file_of(lease_id).read_text())
    except FileNotFoundError:
        return ()


def remember(lease_id: str, many: Sequence[Door]) -> None:
    """From now on these are the lease's machines; a reader sees the old file or the new one."""
    file = file_of(lease_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(doors.to_text(many))
    partial.rename(file)


def forget(lease_id: str) -> None:
    file_of(lease_id).unlink(missing_ok=True)


def ownerless() -> list[str]:
    """The leases that have machines and are not on record."""
    # Listed before the leases are read: a lease is on record before it borrows, so one taken in between is seen.
    files = [path.stem for path in (leases.state_dir() / "existing").glob("*.json")]
    return sorted(set(files) - {lease.lease_id for lease in leases.read_all()})
