"""Traffic from task to task, as policies read it. There may be tens of thousands of pairs: a round is logged with its
traffic only where its policy read it. Errors: TrafficNotLogged (blame: configuration).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, ValuesView
from itertools import repeat
from operator import truediv

Pair = tuple[int, int]


class TrafficNotLogged(Exception):
    """A replayed policy reads traffic that the run's policy did not read, so that the decision log lacks it."""

    blame = "configuration"


class Traffic(Mapping[Pair, float]):
    """(task, task) → tuples/s, from counts in a number of seconds; None where the decision log lacks them."""

    def __init__(self, counts: Mapping[Pair, float] | None, seconds: float = 1.0) -> None:
        self._counts, self._seconds = counts, seconds
        self._was_read = False

    @property
    def is_unread(self) -> bool:
        """Return whether there is traffic that nobody has read, so that no decision rests on it."""
        return not self._was_read and self._counts != {}

    def __getitem__(self, pair: Pair) -> float:
        return self._read()[pair] / self._seconds

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def values(self) -> ValuesView[float]:
        """Return all rates without looking each pair up: there may be millions."""
        return _Rates(self)

    def _read(self) -> Mapping[Pair, float]:
        self._was_read = True
        if self._counts is None:
            raise TrafficNotLogged("this round was logged without its traffic, which nobody read then")
        return self._counts


class _Rates(ValuesView[float]):
    def __init__(self, traffic: Traffic) -> None:
        super().__init__(traffic)
        self._traffic = traffic

    def __iter__(self) -> Iterator[float]:
        return map(truediv, self._traffic._read().values(), repeat(self._traffic._seconds))


def traffic_json(traffic: Mapping[Pair, float]) -> list[list[float]] | None:
    """Return [from, to, tuples/s] of each pair for the decision log; None for unread traffic."""
    if isinstance(traffic, Traffic) and traffic.is_unread:
        return None
    return [[source, target, rate] for (source, target), rate in traffic.items()]


def traffic_from_json(body: Iterable[tuple[int, int, float]] | None) -> Traffic:
    """Return the traffic of `traffic_json`. None, for unread traffic, can be passed on; reading it raises
    TrafficNotLogged."""
    return Traffic(None if body is None else {(source, target): rate for source, target, rate in body})
