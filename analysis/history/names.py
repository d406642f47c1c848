"""Names that come and go: an experiment, a variant or a metric that nights no longer have, or suddenly have. Pure.

Nothing is guessed: a renaming is told as what it looks like, and joined only when `renames` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.history.night import ExperimentNight, Night
from analysis.history.series import renamed_night
from analysis.history.settings import Renames

SURE = 2  # nights without a name before it is told
NEWS = 30  # nights for which it is told
Seen = list[tuple[Night, frozenset[str]]]  # nights that could have had names, and those they had


def told(nights: Sequence[Night], renames: Renames) -> list[str]:
    """One line a name that vanished or appeared lately."""
    by_night = [(night, renamed_night(night, renames)) for night in nights]
    lines = list(_lines("experiment", "", [(night, frozenset(found)) for night, found in by_night]))
    for experiment in sorted({name for _, found in by_night for name in found}):
        of = [(night, found[experiment]) for night, found in by_night if _measured(found.get(experiment))]
        lines += _lines("variant", experiment, [(night, frozenset(found.variants)) for night, found in of])
        for variant in sorted({name for _, found in of for name in found.variants}):
            seen = [(night, frozenset(found.variants[variant])) for night, found in of if variant in found.variants]
            lines += _lines("metric", f"{experiment}/{variant}", seen)
    return lines


def _measured(found: ExperimentNight | None) -> bool:
    return found is not None and found.status == "complete" and bool(found.variants)


def _lines(what: str, where: str, seen: Seen) -> Iterator[str]:
    place = f" of {where}" if where else ""
    gone, come = dict(_vanished(seen)), dict(_appeared(seen))
    for name, last in gone.items():
        others = [new for new, first in come.items() if first == last + 1]
        maybe = f" Since then there is {', '.join(others)}." if others else ""
        yield (
            f"{what} {name}{place} is in no night since {seen[last][0].id} ({len(seen) - last - 1} nights).{maybe} "
            f"If it was renamed, say so in `renames.{what}s` of the suite; if it was dropped, this line goes in time."
        )
    for name, first in come.items():
        yield f"{what} {name}{place} is new since {seen[first][0].id}: it has no history before."


def _vanished(seen: Seen) -> Iterator[tuple[str, int]]:
    """Names, and the last night that had them."""
    for name in sorted(frozenset().union(*(names for _, names in seen))):
        last = max(i for i, (_, names) in enumerate(seen) if name in names)
        if SURE <= len(seen) - last - 1 <= NEWS:
            yield name, last


def _appeared(seen: Seen) -> Iterator[tuple[str, int]]:
    """Names that the first nights did not have, and the first night that had them."""
    for name in sorted(frozenset().union(*(names for _, names in seen))):
        first = min(i for i, (_, names) in enumerate(seen) if name in names)
        if first >= SURE and len(seen) - first <= NEWS:
            yield name, first
