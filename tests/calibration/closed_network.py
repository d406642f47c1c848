"""Trees of tuples that are never more than so many, exactly, to judge the simulator's `topology.max.spout.pending` by:
`python -m tests.calibration.closed_network`.

Mean value analysis of a closed network (Reiser and Lavenberg, 1980): servers with queues of their own, to which tuples
go at random, whose costs are exponential; and a way of fixed length that all pass beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Closed:
    servers: int
    cost_s: float
    way_s: float
    trees: int

    def __str__(self) -> str:
        way = f"a way of {1000 * self.way_s:g} ms"
        return f"{self.trees} trees, {self.servers} servers of {1000 * self.cost_s:g} ms, {way}"


def throughput(case: Closed) -> float:
    """Trees a second."""
    waiting, rate = 0.0, 0.0  # at each server
    for trees in range(1, case.trees + 1):
        at_server_s = case.cost_s * (1.0 + waiting)
        rate = trees / (case.way_s + at_server_s)
        waiting = rate / case.servers * at_server_s
    return rate


def main() -> None:
    for trees in (1, 2, 4, 8, 16, 32, 64):
        case = Closed(4, 0.010, 0.010, trees)
        print(f"{case}: {throughput(case):.1f} trees/s")


if __name__ == "__main__":
    main()
