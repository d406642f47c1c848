"""`barograph reap`: release the machines of dead runs, and print the reason, how long each was held and its cost."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from barograph.cli.terminal import plain_table, say, stdout_console
from barograph.errors import Say
from barograph.machines import reaper
from barograph.machines.reaper import Leftover, require_all_released, sweep
from barograph.testbeds.costs import usd

UNKNOWN = "–"


def add_reap_arguments(reap: argparse.ArgumentParser) -> None:
    add = reap.add_argument
    add("--dry-run", action="store_true", help="show what would be released, and why; release nothing")
    add("--everywhere", action="store_true", help="look in all regions, even where nothing was ever rented")
    add("--status", action="store_true", help="show when the reaper last worked, and what it did")


def execute_reap(options: argparse.Namespace) -> int:
    if options.status:
        return show_status(say)
    return reap(dry_run=options.dry_run, everywhere=options.everywhere, console=stdout_console())


def reap(*, dry_run: bool, everywhere: bool, console: Console) -> int:
    """Reap leases. Raises NotReaped, after the table, where one could not be ended."""
    rows = sweep(dry_run=dry_run, everywhere=everywhere)
    if rows:
        console.print(table(rows, dry_run))
    else:
        console.print("nothing to release", highlight=False)
    require_all_released(rows)
    return 0


def table(rows: Sequence[Leftover], dry_run: bool) -> Table:
    grid = plain_table("testbed", "would be ended" if dry_run else "ended", "why", "held", "cost of its series")
    for row in rows:
        why = f"{row.why}; NOT ended: {row.error}" if row.error else row.why
        age = UNKNOWN if row.held_s is None else reaper.age(row.held_s)
        grid.add_row(row.testbed, row.what, why, age, UNKNOWN if row.cost_usd is None else usd(row.cost_usd))
    return grid


def show_status(say: Say) -> int:
    """Print when the reaper last worked. Returns 0 even if it does not work: `run` warns of that."""
    now_s = time.time()
    for line in reaper.health_lines(now_s):
        say(line)
    if warning := reaper.health_warning(now_s):
        say(warning)
    return 0
