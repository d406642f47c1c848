"""Which task of a component sends to which task of the next one, where every key that a source emits is known.

A grouping by fields gives each key to one task. Keys are carried along a topology as long as it groups by a field of
theirs; where a stream is shuffled nobody knows any more who has them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topologies.catalogue import EdgeSpec

Routes = tuple[tuple[tuple[int, float], ...], ...]
"""Of each task of the source, in order: place of a task of the target, and its share of the tuples."""
Stream = tuple[str, str, str]  # source, stream, target

_INT = 2**32


@dataclass(frozen=True)
class TupleKey:
    """`share`: of its component's tuples. `task`: the place of the task that has it. `hashes`: a field and Java's hash
    code of its value, which stays the same along the topology."""

    share: float
    task: int
    hashes: Mapping[str, int]


def java_hash(text: str) -> int:
    """`String.hashCode`, of UTF-16."""
    units = text.encode() if text.isascii() else memoryview(text.encode("utf-16-le")).cast("H")
    found = 0
    for unit in units:
        found = (31 * found + unit) % _INT
    return found if found < _INT // 2 else found - _INT


def task_of(hash_code: int, tasks: int) -> int:
    """The place of the task that Storm's grouping by one field chooses (TupleUtils.chooseTaskIndex)."""
    of_list = (31 + hash_code) % _INT
    return (of_list if of_list < _INT // 2 else of_list - _INT) % tasks


def routes(
    order: Sequence[str], edges: Sequence[EdgeSpec], tasks: Mapping[str, int], sources: Mapping[str, Sequence[TupleKey]]
) -> dict[Stream, Routes]:
    """Of the streams whose keys are known. `order`: components, sources first; `sources`: what they emit."""
    held = {name: tuple(keys) for name, keys in sources.items()}
    found: dict[Stream, Routes] = {}
    for name in order:
        arriving: list[TupleKey] = []
        into = [edge for edge in edges if edge.target == name]
        for edge in into:
            keys, fields = held.get(edge.source, ()), edge.fields
            if edge.grouping == "fields" and len(fields) == 1 and all(fields[0] in key.hashes for key in keys) and keys:
                sent = [replace(key, task=task_of(key.hashes[fields[0]], tasks[name])) for key in keys]
                sizes = (tasks[edge.source], tasks[edge.target])
                found[edge.source, edge.stream, edge.target] = _routes(held[edge.source], sent, *sizes)
                arriving += sent
        if into and all((edge.source, edge.stream, edge.target) in found for edge in into):
            held[name] = tuple(arriving)
    return found


def _routes(sent: Sequence[TupleKey], got: Sequence[TupleKey], sources: int, targets: int) -> Routes:
    """Of a task that has no key it is even: it sends nothing."""
    shares: list[dict[int, float]] = [{} for _ in range(sources)]
    for one, other in zip(sent, got, strict=True):
        mine = shares[one.task]
        mine[other.task] = mine.get(other.task, 0.0) + one.share
    return tuple(
        tuple((place, share / total) for place, share in sorted(mine.items()))
        for mine in (each or dict.fromkeys(range(targets), 1.0) for each in shares)
        for total in [sum(mine.values())]
    )
