"""Queues tuple by tuple and by theory, to judge the simulator's fluid by: `python -m bench.simulator.tuple_by_tuple`.

Each executor is a server with a queue of its own that serves in order. Its departures follow from its arrivals and the
cost of each tuple (Lindley 1952), all at once: D(n) = S(1) + … + S(n) + max over k ≤ n of A(k) - S(1) - … - S(k - 1).
Networks without a way back are done component by component. There is no back-pressure and no sharing of cores: what
these do is judged by closed forms, and by `bench.simulator.star_by_events`. `topology.max.spout.pending` is judged by
mean value analysis of a closed network (Reiser and Lavenberg, 1980), which is exact.

Below saturation the waits of the simulator are formulas: that its M/M/1, tandems and sleeps agree with theory is so by
construction. What is run tuple by tuple is the test of both. M/M/k is what the simulator does not have: its executors,
as those of Storm, have a queue each.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.tables import markdown_table
from scheduler_plugins.simulator.capacity import idle_wait_s, queue_wait_s
from scheduler_plugins.simulator.work import EdgeWork, SimulatedComponent, SimulatedTopology, Waits
from tests.support.worlds import FREE, Totals, acked, chain, world_of

Times = NDArray[np.float64]
BATCHES = 20  # of a long run, taken as independent
STUDENT = 2.093  # 97.5 % of Student's distribution with 19 degrees of freedom


@dataclass(frozen=True)
class Interval:
    mean: float
    half_width: float

    def holds(self, value: float) -> bool:
        return abs(value - self.mean) <= self.half_width


def departures(arrivals: Times, costs: Times) -> Times:
    """When each tuple has been served (s), in the order in which they arrive."""
    served = np.cumsum(costs)
    return np.asarray(served + np.maximum.accumulate(arrivals - (served - costs)))


def departures_of_many(arrivals: Times, costs: Times, servers: int) -> Times:
    """One queue in front of several servers: the next tuple goes to whoever is free first."""
    free = [0.0] * servers
    ends = np.empty(len(arrivals))
    for number, (arrival, cost) in enumerate(zip(arrivals, costs, strict=True)):
        ends[number] = max(arrival, heapq.heappop(free)) + cost
        heapq.heappush(free, float(ends[number]))
    return ends


def interval_of(means: Sequence[float]) -> Interval:
    """Of the mean of so many independent numbers: `BATCHES`."""
    assert len(means) == BATCHES, "STUDENT is for so many"
    return Interval(float(np.mean(means)), STUDENT * float(np.std(means, ddof=1)) / math.sqrt(BATCHES))


def batch_interval(values: Times) -> Interval:
    """Of the mean, by batch means (Law and Kelton, 'Simulation Modeling and Analysis', section 9.5); a tenth of the
    values is left out at the beginning."""
    kept = values[len(values) // 10 :]
    return interval_of([float(batch.mean()) for batch in np.array_split(kept, BATCHES)])


def mean_wait_of_many(rate: float, cost_s: float, servers: int) -> float:
    """Mean sojourn in M/M/k (s), by Erlang's formula."""
    offered = rate * cost_s
    blocking = 1.0
    for number in range(1, servers + 1):
        blocking = offered * blocking / (number + offered * blocking)
    waiting = blocking / (1 - offered / servers * (1 - blocking))
    return cost_s + waiting * cost_s / (servers - offered)


def shuffled_chain(rate: float, costs_s: tuple[float, ...], cv2: float, servers: int, tuples: int, seed: int) -> Times:
    """Time from source to end (s) of each tuple through components of `servers` executors each: Poisson arrivals, each
    tuple to any executor. `cv2`: 1 exponential costs, 0 constant ones."""
    random = np.random.default_rng(seed)
    begin = np.cumsum(random.exponential(1 / rate, tuples))
    now = begin
    for cost_s in costs_s:
        order = np.argsort(now, kind="stable")
        ends = np.empty(tuples)
        to = random.integers(servers, size=tuples)
        costs = random.exponential(cost_s, tuples) if cv2 else np.full(tuples, cost_s)
        for server in range(servers):
            mine = order[to[order] == server]
            ends[mine] = departures(now[mine], costs[mine])
        now = ends
    return np.asarray(now - begin)


def fluid_latency_s(rate: float, costs_s: tuple[float, ...], cv2: float, servers: int, seconds: float = 60.0) -> float:
    """Mean latency (s) that the simulator has for the same chain, without anything that Storm adds."""
    return _latency_s(chain(rate, [1000 * cost_s for cost_s in costs_s], servers, cost_cv2=cv2), seconds)


def _latency_s(work: SimulatedTopology, seconds: float) -> float:
    world, totals = world_of(work, machines=1, cores=1000.0, begin_s=0.0), Totals()
    world.advance(seconds, totals.take)
    return totals.latency_s(0.0)


@dataclass(frozen=True)
class Sleeper:
    """An executor that looks for tuples for `spin_s` and then every `sleep_s`; `rate` at random."""

    rate: float
    cost_s: float
    cv2: float
    spin_s: float
    sleep_s: float

    def __str__(self) -> str:
        looks = f"looks {1000 * self.spin_s:g} ms, then every {1000 * self.sleep_s:g}"
        return f"{self.rate:g}/s of {1000 * self.cost_s:g} ms, cv² {self.cv2:g}, {looks}"


SLEEPERS = (
    Sleeper(20.0, 0.008, 0.0, 6e-5, 0.010),
    Sleeper(20.0, 0.008, 1.0, 6e-5, 0.010),
    Sleeper(90.0, 0.008, 0.5, 6e-5, 0.010),
    Sleeper(500.0, 0.0001, 0.0, 6e-5, 0.010),
    Sleeper(20.0, 0.001, 1.0, 0.060, 0.010),
    Sleeper(100.0, 0.001, 1.0, 0.010, 0.020),
)


def sleeper_times(case: Sleeper, tuples: int, seed: int) -> Times:
    """From arrival to departure of each tuple (s)."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / case.rate, tuples))
    shape = 1 / case.cv2 if case.cv2 else 0.0
    costs = random.gamma(shape, case.cost_s / shape, tuples) if shape else np.full(tuples, case.cost_s)
    free, ends = 0.0, np.empty(tuples)
    for number, (arrival, cost) in enumerate(zip(arrivals.tolist(), costs.tolist(), strict=True)):
        asleep_s = arrival - free - case.spin_s
        begin = max(arrival, free)
        if asleep_s > 0:
            begin = free + case.spin_s + math.ceil(asleep_s / case.sleep_s) * case.sleep_s
        free = ends[number] = begin + cost
    return np.asarray(ends - arrivals)


def sleeper_latency_s(case: Sleeper, seconds: float = 60.0) -> float:
    """Mean latency (s) that the simulator has for it."""
    work = chain(case.rate, [1000 * case.cost_s], 1, cost_cv2=case.cv2)
    return _latency_s(replace(work, bolt_waits=Waits(case.spin_s, case.sleep_s)), seconds)


def sleeper_theory_s(case: Sleeper) -> float:
    """Mean time in the system (s) by Pollaczek and Khinchine, and Fuhrmann and Cooper."""
    rate, cost, cv2 = (np.array([each]) for each in (case.rate, case.cost_s, case.cv2))
    idle_s, _ = idle_wait_s(rate, np.array([case.spin_s]), np.array([case.sleep_s]))
    return case.cost_s + float((queue_wait_s(rate * cost, cv2, cost) + idle_s)[0])


@dataclass(frozen=True)
class Closed:
    """`trees` of tuples in flight: each goes to one of `servers` at random, whose costs are exponential, and passes a
    way of fixed length beside the others."""

    servers: int
    cost_s: float
    way_s: float
    trees: int

    def __str__(self) -> str:
        return f"{self.trees} in flight, {self.servers} × {1000 * self.cost_s:g} ms, way {1000 * self.way_s:g} ms"


CLOSED = (
    *(Closed(4, 0.010, 0.010, trees) for trees in (1, 2, 4, 8, 16, 32, 64)),
    *(Closed(1, 0.010, 0.001, trees) for trees in (1, 2, 4, 8, 16, 32, 64)),
)


def closed_theory_per_s(case: Closed) -> float:
    """Trees a second by mean value analysis."""
    waiting, rate = 0.0, 0.0  # at each server
    for trees in range(1, case.trees + 1):
        at_server_s = case.cost_s * (1.0 + waiting)
        rate = trees / (case.way_s + at_server_s)
        waiting = rate / case.servers * at_server_s
    return rate


def closed_per_s(case: Closed) -> float:
    """Trees a second that the simulator has for it: a shuffle to executors, and acks that take the way back."""
    tasks = tuple(range(2, 2 + case.servers))
    bolt = SimulatedComponent("bolt", "bolt", tasks, sleep_ms=1000 * case.cost_s, cost_cv2=1.0)
    edge = EdgeWork("spout", "default", "bolt", "shuffle")
    work = SimulatedTopology("closed", 1, (SimulatedComponent("spout", "spout", (1,)), bolt), (edge,))
    costs = replace(FREE, remote_hop_ms=1000 * case.way_s)
    world, totals = world_of(acked(work, ackers=1, pending=case.trees), machines=1, costs=costs), Totals()
    world.advance(1120, totals.take)
    return totals.rate("spout", 1060, 1120)


@dataclass(frozen=True)
class Case:
    """`shares_queue`: its servers have one queue, else one each."""

    name: str
    rate: float
    costs_s: tuple[float, ...]
    cv2: float
    servers: int
    theory_s: float
    shares_queue: bool = False

    def times(self, tuples: int, seed: int) -> Times:
        """In the system (s), of each tuple."""
        if not self.shares_queue:
            return shuffled_chain(self.rate, self.costs_s, self.cv2, self.servers, tuples, seed)
        random, (cost_s,) = np.random.default_rng(seed), self.costs_s
        begin = np.cumsum(random.exponential(1 / self.rate, tuples))
        return np.asarray(departures_of_many(begin, random.exponential(cost_s, tuples), self.servers) - begin)

    def simulator_s(self) -> float:
        return fluid_latency_s(self.rate, self.costs_s, self.cv2, self.servers)


def chains() -> list[Case]:
    """Whose mean sojourn is known exactly, and of which the simulator has all."""
    found = [
        Case(f"M/M/1 at {load:.0%}", load * 100, (0.01,), 1.0, 1, 0.01 / (1 - load)) for load in (0.3, 0.6, 0.8, 0.9)
    ]
    found.append(Case("M/D/1 at 80%", 80.0, (0.01,), 0.0, 1, 0.01 + 0.8 / 0.2 * 0.01 / 2))
    found.append(Case("4 × M/M/1 at 70%", 280.0, (0.01,), 1.0, 4, 0.01 / 0.3))
    tandem = (0.01, 0.008, 0.005)
    for rate in (70.0, 90.0):
        theory_s = sum(1 / (1 / cost - rate) for cost in tandem)
        found.append(Case(f"tandem at {rate:.0f}%", rate, tandem, 1.0, 1, theory_s))
    return found


def shared_queues() -> list[Case]:
    """M/M/k: known exactly too, and the simulator has a queue for each server in its place."""
    return [
        Case(f"M/M/{servers} at {load:.0%}", rate, (0.01,), 1.0, servers, mean_wait_of_many(rate, 0.01, servers), True)
        for servers in (2, 4)
        for load in (0.8, 0.9)
        for rate in [load * servers * 100]
    ]


def closed_table() -> str:
    rows = []
    for case in CLOSED:
        exact, found = closed_theory_per_s(case), closed_per_s(case)
        rows.append([str(case), f"{exact:.1f}", f"{found:.1f}", f"{100 * (found / exact - 1):+.1f}"])
    title = "Trees/s where so many at most are in flight"
    return markdown_table(title, ["", "theory", "simulator", "±, %"], rows)


def main(tuples: int = 1_000_000) -> None:
    found = [
        (case.name, case.theory_s, batch_interval(case.times(tuples, seed)), case.simulator_s())
        for seed, case in enumerate((*chains(), *shared_queues()))
    ]
    found += [
        (
            str(each),
            sleeper_theory_s(each),
            batch_interval(sleeper_times(each, tuples, seed)),
            sleeper_latency_s(each),
        )
        for seed, each in enumerate(SLEEPERS)
    ]
    rows = [
        [
            name, f"{1000 * theory:.2f}", f"{1000 * run.mean:.2f} ± {1000 * run.half_width:.2f}", _yes(run, theory),
            f"{1000 * simulator:.2f}", _yes(run, simulator), f"{100 * (simulator / theory - 1):+.1f}",
        ]
        for name, theory, run, simulator in found
    ]  # fmt: skip
    title = (
        "Mean time in the system (ms). The simulator's waits are formulas, so what it shares with theory is no test of"
        " it: tuple by tuple is (of 20 intervals of 95 % one fails by chance). M/M/k has one queue, the simulator one"
        " for each executor, as Storm."
    )
    headings = ["", "theory", "tuple by tuple, ± 95 %", "theory in it", "simulator", "in it", "against theory, %"]
    print(markdown_table(title, headings, rows))
    print(closed_table())


def _yes(run: Interval, value: float) -> str:
    return "yes" if run.holds(value) else "no"


if __name__ == "__main__":
    main()
