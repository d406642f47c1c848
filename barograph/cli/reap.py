"""`barograph reap`: a table of what is ended (or would be), why, how long it was held and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from barograph.machines import reaper
from barograph.machines.reaper import Leftover, require_all_released, sweep
from barograph.plan.costs import usd

UNKNOWN = "–"


def reap(*, dry_run: bool, everywhere: bool, console: Console) -> int:
    """Raises NotReaped, after the table, where something could not be ended."""
    rows = sweep(dry_run=dry_run, everywhere=everywhere)
    if rows:
        console.print(table(rows, dry_run))
    else:
        console.print("nothing to release", highlight=False)
    require_all_released(rows)
    return 0


def table(rows: Sequence[Leftover], dry_run: bool) -> Table:
    shown = Table(box=None, pad_edge=False)
    for column in ("testbed", "would be ended" if dry_run else "ended", "why", "held", "cost of its series"):
        shown.add_column(column, overflow="fold")
    for row in rows:
        why = f"{row.why}; NOT ended: {row.error}" if row.error else row.why
        held = UNKNOWN if row.held_s is None else reaper.age(row.held_s)
        shown.add_row(row.testbed, row.what, why, held, UNKNOWN if row.cost_usd is None else usd(row.cost_usd))
    return shown


def show_status(say: Callable[[str], None]) -> int:
    """0, also where it does not fare well: the words say it, and `run` warns."""
    now_s = time.time()
    for line in reaper.health_lines(now_s):
        say(line)
    if asleep := reaper.health_warning(now_s):
        say(asleep)
    return 0
