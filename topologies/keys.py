"""Which task of a component sends to which task of the next one, where every key that a source emits is known, and
which machine a key belongs to where it is grouped over machines.

A grouping by fields gives each key to one task. Keys are carried along a topology as long as it groups by a field of
theirs; where a stream is shuffled nobody knows any more who has them. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topologies.catalogue import EdgeSpec

Routes = tuple[tuple[tuple[int, float], ...], ...]
"""Of each task of the source, in order: place of a task of the target, and its share of the tuples."""
Stream = tuple[str, str, str]  # source, stream, target

_INT, _LONG = 2**32, 2**64


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
    return _of_list(hash_code) % tasks


def _of_list(hash_code: int) -> int:
    of_list = (31 + hash_code) % _INT
    return of_list if of_list < _INT // 2 else of_list - _INT


def machine_by_mod(machines: Sequence[str]) -> Callable[[int], str]:
    """Return the machine of a hash code by eq. 6 of DT (MachineGrouping.java)."""
    ordered = sorted(machines, key=_in_order)
    return lambda hash_code: ordered[task_of(hash_code, len(ordered))]


def machine_by_ring(machines: Sequence[str], points: int) -> Callable[[int], str]:
    """Return the machine of a hash code by consistent hashing with so many points a machine (HashRing.java)."""
    owners = {place: machine for machine in sorted(machines, key=_in_order) for place in _places(machine, points)}
    ring = sorted(owners)
    return lambda hash_code: owners[ring[bisect_left(ring, _mix(_of_list(hash_code))) % len(ring)]]


def _in_order(machine: str) -> tuple[int, str]:
    """Return what sorts m2 before m10."""
    return len(machine), machine


@cache
def _places(machine: str, points: int) -> tuple[int, ...]:
    return tuple(_mix(java_hash(f"{machine}#{point}")) for point in range(points))


def _mix(hash_code: int) -> int:
    """Return the last step of MurmurHash3, of 64 bits without a sign: on a ring it does not matter where they begin."""
    mixed = hash_code % _LONG
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ mixed >> 33) * factor % _LONG
    return mixed ^ mixed >> 33


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
