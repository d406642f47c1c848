"""Queues tuple by tuple and by theory, to judge the simulator's fluid by: `python -m tests.calibration.tuple_by_tuple`.

Each executor is a server with a queue of its own that serves in order. Its departures follow from its arrivals and the
cost of each tuple (Lindley 1952), all at once: D(n) = S(1) + … + S(n) + max over k ≤ n of A(k) - S(1) - … - S(k - 1).
Networks without a way back are done component by component. There is no back-pressure and no sharing of cores: what
these do is judged by closed forms, and by `tests.calibration.star_by_events`. `topology.max.spout.pending` is judged by
mean value analysis of a closed network (Reiser and Lavenberg, 1980), which is exact.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduler_plugins.simulator.waits import idle_wait_s, queue_wait_s
from scheduler_plugins.simulator.work import ComponentWork, EdgeWork, TopologyWork, Waits
from tests.calibration.comparisons import markdown_table
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


def batch_interval(values: Times) -> Interval:
    """Of the mean, by batch means (Law and Kelton, 'Simulation Modeling and Analysis', section 9.5); a tenth of the
    values is left out at the beginning."""
    kept = values[len(values) // 10 :]
    means = np.array([batch.mean() for batch in np.array_split(kept, BATCHES)])
    return Interval(float(means.mean()), STUDENT * float(means.std(ddof=1)) / math.sqrt(BATCHES))


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


def _latency_s(work: TopologyWork, seconds: float) -> float:
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
    bolt = ComponentWork("bolt", "bolt", tasks, sleep_ms=1000 * case.cost_s, cost_cv2=1.0)
    edge = EdgeWork("spout", "default", "bolt", "shuffle")
    work = TopologyWork("closed", 1, (ComponentWork("spout", "spout", (1,)), bolt), (edge,))
    costs = replace(FREE, remote_hop_ms=1000 * case.way_s)
    world, totals = world_of(acked(work, ackers=1, pending=case.trees), machines=1, costs=costs), Totals()
    world.advance(1120, totals.take)
    return totals.rate("spout", 1060, 1120)


@dataclass(frozen=True)
class Case:
    name: str
    rate: float
    costs_s: tuple[float, ...]
    cv2: float
    servers: int
    theory_s: float


def cases() -> list[Case]:
    """Chains whose mean sojourn is known exactly."""
    found = [
        Case(f"M/M/1 at {load:.0%}", load * 100, (0.01,), 1.0, 1, 0.01 / (1 - load)) for load in (0.3, 0.6, 0.8, 0.9)
    ]
    found.append(Case("M/D/1 at 80%", 80.0, (0.01,), 0.0, 1, 0.01 + 0.8 / 0.2 * 0.01 / 2))
    found.append(Case("4 × M/M/1 at 70%", 280.0, (0.01,), 1.0, 4, 0.01 / 0.3))
    tandem = (0.01, 0.008, 0.005)
    found.append(Case("tandem at 70%", 70.0, tandem, 1.0, 1, sum(1 / (1 / cost - 70) for cost in tandem)))
    return found


def closed_table() -> str:
    rows = []
    for case in CLOSED:
        exact, found = closed_theory_per_s(case), closed_per_s(case)
        rows.append([str(case), f"{exact:.1f}", f"{found:.1f}", f"{100 * (found / exact - 1):+.1f}"])
    title = "Trees/s where so many at most are in flight"
    return markdown_table(title, ["", "theory", "simulator", "±, %"], rows)


def main(tuples: int = 400_000) -> None:
    rows: list[tuple[str, list[float | None]]] = []
    for case in cases():
        run = batch_interval(shuffled_chain(case.rate, case.costs_s, case.cv2, case.servers, tuples, seed=1))
        fluid = fluid_latency_s(case.rate, case.costs_s, case.cv2, case.servers)
        found = [case.theory_s, run.mean, run.half_width, fluid]
        rows.append((case.name, [1000 * each for each in found]))
    for sleeper in SLEEPERS:
        run = batch_interval(sleeper_times(sleeper, tuples, seed=1))
        found = [sleeper_theory_s(sleeper), run.mean, run.half_width, sleeper_latency_s(sleeper)]
        rows.append((str(sleeper), [1000 * each for each in found]))
    random = np.random.default_rng(1)
    for servers in (2, 4):
        rate, cost_s = 0.8 * servers * 100, 0.01
        begin = np.cumsum(random.exponential(1 / rate, tuples))
        run = batch_interval(departures_of_many(begin, random.exponential(cost_s, tuples), servers) - begin)
        theory = mean_wait_of_many(rate, cost_s, servers)
        rows.append((f"M/M/{servers} at 80%", [1000 * theory, 1000 * run.mean, 1000 * run.half_width, None]))
    title = "Mean time in the system (ms); M/M/k has one queue, which no component of Storm has."
    cells = [[name, *("–" if each is None else f"{each:.2f}" for each in values)] for name, values in rows]
    print(markdown_table(title, ["", "theory", "tuple by tuple", "± 95 %", "simulator"], cells))
    print(closed_table())


if __name__ == "__main__":
    main()
