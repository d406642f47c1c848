"""Release machines of dead runs and expired leases, record their cost, and keep the reaper's health on record:
`reaper.json` in the state folder, the passes of the DAG apart from those of the command.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis.record.files import read_json_or_none, write_json_atomic
from barograph.errors import BarographError, message_of
from barograph.machines.holdings import note_return, pricing_of, spent_usd
from barograph.machines.series_lease import remove_cluster_files
from barograph.series.series import read_series
from barograph.settings import results_root
from inventory import TESTBEDS
from inventory.files import hold_lock
from inventory.leases import registry
from inventory.leases.reaper import ReapResult
from inventory.leases.reaper import reap as reap_all
from inventory.leases.registry import Lease
from inventory.testbed import Testbed

HEALTH_FILE = "reaper.json"
LATE_S = 35 * 60.0  # three passes of the DAG, and a margin
PassOrigin = Literal["dag", "command"]
HOW_TO_RUN = "`barograph ui` runs it every ten minutes; `barograph reap` is one pass"


def health_path() -> Path:
    return registry.state_dir() / HEALTH_FILE


def note_pass(by: PassOrigin, begun_s: float, ended_s: float, ended: Sequence[str], errors: Sequence[str]) -> None:
    """Record one pass. The last success stays on record when a later pass fails."""
    passed = {"last_pass_s": ended_s, "duration_s": ended_s - begun_s, "ended": list(ended), "errors": list(errors)}
    with hold_lock(health_path().with_suffix(".lock"), "noting a pass"):
        document = read_health()
        success_s = document.get(by, {}).get("last_success_s") if errors else ended_s
        write_json_atomic(health_path(), {"v": 1, **document, by: {**passed, "last_success_s": success_s}})


def read_health() -> dict[str, Any]:
    """Return the reaper's health; empty where no pass was recorded, or the record is unreadable: it counts as never."""
    return read_json_or_none(health_path()) or {}


def health_warning(now_s: float) -> str | None:
    """Return a warning for a user about to rent machines: no reaper runs, and how to start one."""
    success_s = read_health().get("dag", {}).get("last_success_s")
    if success_s is not None and now_s - success_s <= LATE_S:
        return None
    since = "has never succeeded here" if success_s is None else f"has not succeeded for {age(now_s - success_s)}"
    return f"warning: the reaper DAG {since}; until it does, forgotten machines only end themselves. {HOW_TO_RUN}"


def health_lines(now_s: float) -> list[str]:
    """Return the health of the DAG and of the command."""
    document, lines = read_health(), []
    for name, passed in (("reaper DAG", document.get("dag")), ("barograph reap", document.get("command"))):
        if passed is None:
            lines.append(f"{name}: no pass yet")
            continue
        success_s = passed["last_success_s"]
        lines.append(
            f"{name}: last pass {age(now_s - passed['last_pass_s'])} ago, took {passed['duration_s']:.1f} s; last"
            f" success {'never' if success_s is None else f'{age(now_s - success_s)} ago'}"
        )
        lines += [*(f"  ended {line}" for line in passed["ended"]), *(f"  FAILED {line}" for line in passed["errors"])]
    return [*lines, HOW_TO_RUN]


def age(seconds: float) -> str:
    """Return `40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


log = logging.getLogger(__name__)


class NotReaped(BarographError):
    """Something could not be removed and still exists."""

    blame = "infrastructure"


@dataclass(frozen=True)
class Leftover:
    """One thing that was, or would be, ended. None: unknown on this box."""

    testbed: str
    what: str
    why: str
    held_s: float | None
    cost_usd: float | None
    error: str | None

    def __str__(self) -> str:
        return f"{self.what} on {self.testbed}: {self.why}"


def sweep(
    *, dry_run: bool, everywhere: bool = False, by: PassOrigin = "command", now_s: float | None = None,
    testbeds: Mapping[str, Callable[..., Testbed]] | None = None, only: Collection[str] | None = None,
) -> tuple[Leftover, ...]:  # fmt: skip
    """Return a row for each thing, also for failures. A pass that is no dry run is recorded for `--status`.

    `only`: on these testbeds; that is no whole pass, and not recorded.
    """
    begun_s = time.time()
    now = begun_s if now_s is None else now_s
    try:
        reaped = reap_all(now, dry_run, TESTBEDS if testbeds is None else testbeds, everywhere, only=only)
    except Exception as error:
        if not dry_run and only is None:
            note_pass(by, begun_s, time.time(), [], [message_of(error)])
        raise
    rows = tuple(_leftover_of(each, now, dry_run) for each in reaped)
    if not dry_run and only is None:
        errors = [f"{row}: {row.error}" for row in rows if row.error]
        note_pass(by, begun_s, time.time(), [str(row) for row in rows if not row.error], errors)
    return rows


def beat_for_dags(is_running: Callable[[str, str], bool]) -> None:
    """Keep alive leases of running DAG runs while none of their tasks beats: they wait for a worker, behind other runs.
    At the longest until they expire. `is_running` gets a DAG and its run (empty in older leases). Failures here are
    only logged, so that dead leases are still ended.
    """
    try:
        leases = registry.read_all()
    except Exception as error:  # noqa: BLE001 - reaping says it, and notes it
        log.warning("leases cannot be read: %s", message_of(error))
        return
    for lease in leases:
        try:
            if not lease.ending and (dag_run := lease.holder.dag_run) and is_running(*dag_run):
                registry.beat(lease.lease_id)
        except Exception as error:  # noqa: BLE001 - such as one that was ended meanwhile
            log.warning("lease %s: nobody says that its DAG run goes on: %s", lease.lease_id, message_of(error))


def leases_over(*, but: str) -> list[str]:
    """Return a line for each lease that a reaper would end now, except on the testbed `but`."""
    now_s = time.time()
    leases = [each for each in registry.read_all() if each.testbed != but and not registry.is_live(each, now_s)]
    return [registry.in_use_message(lease, now_s) for lease in leases]


def reap(*, dry_run: bool, by: PassOrigin = "command") -> tuple[str, ...]:
    """Return one line for each thing that was released. Raises NotReaped, after the rest, where one could not be."""
    rows = sweep(dry_run=dry_run, by=by)
    require_all_released(rows)
    return tuple(str(row) for row in rows)


def require_all_released(rows: tuple[Leftover, ...]) -> None:
    """Raise NotReaped naming what could not be ended."""
    failures = [f"{row.what} on {row.testbed}: {row.error}" for row in rows if row.error]
    if failures:
        raise NotReaped(f"could not release {'; '.join(failures)}; mend that, then reap again")


def _leftover_of(one: ReapResult, now_s: float, dry_run: bool) -> Leftover:
    lease = one.lease
    if lease is None:
        return Leftover(one.testbed, one.what, one.why, None, None, one.error)
    if not dry_run and one.error is None:
        for path in results_root().glob(f"*/*/{lease.series_id}"):
            note_return(path, lease, None, min(now_s, lease.expires_s))
        remove_cluster_files(lease.lease_id)
    held_s = max(0.0, now_s - lease.acquired_s)
    return Leftover(one.testbed, one.what, one.why, held_s, _cost_usd(lease, now_s), one.error)


def _cost_usd(lease: Lease, now_s: float) -> float | None:
    """Return its series' cost; None where the series is not here or has no price."""
    for path in results_root().glob(f"*/*/{lease.series_id}/series.json"):
        try:
            series = read_series(path.parent)
            return spent_usd(series, now_s) if pricing_of(series.experiment) else None
        except Exception as error:  # noqa: BLE001 - an unknown price must not keep anything alive
            log.warning("series %s: what it cost cannot be told: %s", lease.series_id, message_of(error))
    return None
