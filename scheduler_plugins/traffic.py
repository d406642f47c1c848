"""Traffic from task to task: running sums over a window of worker lines, and what a policy reads of them.

There may be tens of thousands of pairs. Each line is added once and taken out once, and a round is logged with its
traffic only where its policy read it. Errors: TrafficNotLogged (blame: configuration).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Pair = tuple[int, int]
Line = Mapping[str, Any]


class TrafficNotLogged(Exception):
    """A replayed policy reads what the policy of the run did not read, so that it is not in the decision log."""

    blame = "configuration"


class Traffic(Mapping[Pair, float]):
    """(task, task) → tuples/s, of counts in so many seconds; of None where the decision log does not have them."""

    def __init__(self, counts: Mapping[Pair, float] | None, seconds: float = 1.0) -> None:
        self._counts, self._seconds = counts, seconds
        self._was_read = False

    @property
    def is_unread(self) -> bool:
        """There is some, and nobody has looked: no decision rests on it."""
        return not self._was_read and self._counts != {}

    def __getitem__(self, pair: Pair) -> float:
        return self._read()[pair] / self._seconds

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> Mapping[Pair, float]:
        self._was_read = True
        if self._counts is None:
            raise TrafficNotLogged("this round was logged without its traffic, which nobody read then")
        return self._counts


def traffic_json(traffic: Mapping[Pair, float]) -> list[list[float]] | None:
    """As it stands in the decision log: [from, to, tuples/s] of each pair; None if there is some that nobody read."""
    if isinstance(traffic, Traffic) and traffic.is_unread:
        return None
    return [[source, target, rate] for (source, target), rate in traffic.items()]


def traffic_from_json(body: Iterable[tuple[int, int, float]] | None) -> Traffic:
    return Traffic(None if body is None else {(source, target): rate for source, target, rate in body})


@dataclass
class TrafficSums:
    """Tuples by pair in the lines that lie wholly in a window that moves on."""

    _lines: dict[int, Line] = field(default_factory=dict)  # that are in the sums, by identity
    _sums: dict[Pair, int] = field(default_factory=lambda: defaultdict(int))

    def advance(self, lines: Iterable[tuple[Line, float]]) -> dict[Pair, float]:
        """Sums of a window, of all lines that there are, each with the share of it that is in the window."""
        known = list(lines)
        whole = {id(line): line for line, share in known if share >= 1}
        for key in [key for key in self._lines if key not in whole]:
            self._add(self._lines.pop(key), -1)
        for key, line in whole.items():
            if key not in self._lines:
                self._add(line, 1)
                self._lines[key] = line
        sums: dict[Pair, float] = dict(self._sums)
        for line, share in known:
            if 0 < share < 1:
                for pair, n in _counts(line):
                    sums[pair] = sums.get(pair, 0.0) + n * share
        return sums

    def _add(self, line: Line, times: int) -> None:
        for pair, n in list(_counts(line)):
            self._sums[pair] += n * times
            if not self._sums[pair]:
                del self._sums[pair]


def _counts(line: Line) -> Iterator[tuple[Pair, int]]:
    group = line.get("traffic") or {}
    for source, target, n in zip(*(group.get(name, ()) for name in ("from", "to", "n")), strict=True):
        if n:
            yield (source, target), n
