"""Whether the machines were the bottleneck: a sentence where most of them had used up their CPU quota."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from analysis.event_ids import FIRST_EVENT, event_of
from analysis.numerals import number
from analysis.small_tables import Row

USED_UP = 0.95  # of the quota, the mean over a part that counts; a few percent are lost between its periods


def warnings(cpu: Sequence[Row]) -> list[str]:
    """Rows of table `cpu` -> for the top of a page; nothing where no run had most of its machines at the limit."""
    before, after = (_at_limit(cpu, phase) for phase in ("before", "after"))
    runs = len({row["run_id"] for row in cpu})
    where = [
        f"{phase} the first event in {len(found)} of {runs} runs"
        for phase, found in (("before", before), ("after", after))
        if found
    ]
    if not where:
        return []
    used = number(100 * median(row["utilisation_mean"] for found in (*before, *after) for row in found), 0)
    return [
        f"Most machines were at their CPU limit {' and '.join(where)} ({used} % of their quota): what is measured there"
        " is also what the machines can do, not only what the components' cost and the policy allow."
    ]


def _at_limit(cpu: Sequence[Row], phase: str) -> list[list[Row]]:
    """The machines of each run whose middle one has used up its quota in that phase of the first event.

    Left out: the master, which is in no run's machines, and before the event those that have not joined.
    """
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in cpu:
        joins, used = row["joins_at_scale"], row["utilisation_mean"]
        counts = joins is not None and used is not None and not (joins and phase == "before")
        if counts and row["phase"] == phase and event_of(row) == FIRST_EVENT:
            by_run[row["run_id"]].append(row)
    return [found for found in by_run.values() if median(row["utilisation_mean"] for row in found) >= USED_UP]
