"""Release what dead runs and expired leases have left, note what it cost, and how the pass went."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dags import reaper_health
from dags.errors import DagError, message_of
from dags.money import pricing_of, spent_usd
from dags.places import results_root
from dags.reaper_health import By
from dags.series import read_series
from dags.steps.holdings import note_gone
from inventory import TESTBEDS
from inventory.leases import Lease
from inventory.reaper import Reaped
from inventory.reaper import reap as reap_all
from inventory.testbed import Testbed

log = logging.getLogger(__name__)


class NotReaped(DagError):
    """Something is still there and could not be removed."""

    blame = "infrastructure"


@dataclass(frozen=True)
class Row:
    """One thing that was, or would be, ended. None: nobody on this box knows."""

    testbed: str
    what: str
    why: str
    held_s: float | None
    cost_usd: float | None
    error: str | None

    def __str__(self) -> str:
        return f"{self.what} on {self.testbed}: {self.why}"


def look(
    *, dry_run: bool, everywhere: bool = False, by: By = "command", now_s: float | None = None,
    testbeds: Mapping[str, Callable[..., Testbed]] | None = None,
) -> tuple[Row, ...]:  # fmt: skip
    """A row for each thing, those that could not be ended too. A pass that is no dry run is noted for `--status`."""
    begun_s = time.time()
    now = begun_s if now_s is None else now_s
    try:
        reaped = reap_all(now, dry_run, TESTBEDS if testbeds is None else testbeds, everywhere)
    except Exception as error:
        if not dry_run:
            reaper_health.note(by, begun_s, time.time(), [], [message_of(error)])
        raise
    rows = tuple(_row(one, now, dry_run) for one in reaped)
    if not dry_run:
        errors = [f"{row}: {row.error}" for row in rows if row.error]
        reaper_health.note(by, begun_s, time.time(), [str(row) for row in rows if not row.error], errors)
    return rows


def reap(*, dry_run: bool, by: By = "command") -> tuple[str, ...]:
    """One line for each thing that was released. Raises NotReaped, after the rest, where one could not be."""
    rows = look(dry_run=dry_run, by=by)
    require_all(rows)
    return tuple(str(row) for row in rows)


def require_all(rows: tuple[Row, ...]) -> None:
    """Raises NotReaped naming what could not be ended."""
    stuck = [f"{row.what} on {row.testbed}: {row.error}" for row in rows if row.error]
    if stuck:
        raise NotReaped(f"could not release {'; '.join(stuck)}; mend that, then reap again")


def _row(one: Reaped, now_s: float, dry_run: bool) -> Row:
    lease = one.lease
    if lease is None:
        return Row(one.testbed, one.what, one.why, None, None, one.error)
    if not dry_run and one.error is None:
        _note_gone(lease, now_s)
    held_s = max(0.0, now_s - lease.acquired_s)
    return Row(one.testbed, one.what, one.why, held_s, _cost_usd(lease, now_s), one.error)


def _note_gone(lease: Lease, now_s: float) -> None:
    for path in results_root().glob(f"*/*/{lease.series_id}"):
        note_gone(path, lease, None, min(now_s, lease.expires_s))


def _cost_usd(lease: Lease, now_s: float) -> float | None:
    """What its series has cost; None where the series is not here or has no price."""
    for path in results_root().glob(f"*/*/{lease.series_id}/series.json"):
        try:
            series = read_series(path.parent)
            return spent_usd(series, now_s) if pricing_of(series.experiment) else None
        except Exception as error:  # noqa: BLE001 - a price that cannot be told must not keep anything alive
            log.warning("series %s: what it cost cannot be told: %s", lease.series_id, message_of(error))
    return None
