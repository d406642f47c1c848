"""Juice: the share of its input that a topology processes (HP 5), in the parts of a run that count.

A component's juice is, over its parents i, the sum of J_i x E_i / T_i (eq. 5): E_i is what it executed of i's tuples
and T_i all that i sent out. A source's is 1, a topology's the sum over its sinks by the number of its sources (eq. 6).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from analysis.record.small_tables import Row


def juice_rows(counts: Iterable[Row]) -> list[Row]:
    """Rows of the table `juice`. `counts`: tuples sent and executed on every edge that had any (`losses`)."""
    sides: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in counts:
        sides[row["run_id"], row["event_id"], row["phase"]].append(row)
    return [
        {"run_id": run_id, "event_id": event_id, "phase": phase, "juice": juice(edges)}
        for (run_id, event_id, phase), edges in sides.items()
    ]


def juice(edges: Sequence[Row]) -> float | None:
    """None where a component has executed what nobody counted as sent, or edges go in a circle."""
    targets, senders = ({edge[end] for edge in edges} for end in ("target", "source"))
    found = [_of_component(sink, edges, frozenset()) for sink in sorted(targets - senders)]
    known = [each for each in found if each is not None]
    sources = len(senders - targets)
    return sum(known) / sources if sources and len(known) == len(found) else None


def _of_component(name: str, edges: Sequence[Row], below: frozenset[str]) -> float | None:
    parents = [edge for edge in edges if edge["target"] == name]
    total = 0.0
    for edge in parents:
        sent = sum(other["sent"] for other in edges if other["source"] == edge["source"])
        above = None if edge["source"] in below else _of_component(edge["source"], edges, below | {name})
        if above is None or not sent:
            return None
        total += above * edge["executed"] / sent
    return total if parents else 1.0
