"""Release what dead runs and expired leases have left."""

from __future__ import annotations

import logging

from dags.errors import DagError

log = logging.getLogger(__name__)


class NotReaped(DagError):
    """Something is still there and could not be removed."""

    blame = "infrastructure"


def reap(*, dry_run: bool) -> tuple[str, ...]:
    """One line for each thing that was released. Raises NotReaped, after the rest, where one could not be."""
    from inventory.reaper import reap as reap_all

    reaped = reap_all(dry_run=dry_run)
    stuck = [f"{one.what} on {one.testbed}: {one.error}" for one in reaped if one.error]
    if stuck:
        raise NotReaped(f"could not release {'; '.join(stuck)}; mend that, then reap again")
    return tuple(f"{one.what} on {one.testbed}: {one.why}" for one in reaped)
