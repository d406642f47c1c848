"""Claims with one right answer: a computation (name -> function), by the code that schedules."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from math import comb, inf, isinf
from random import Random
from statistics import fmean
from typing import Literal

from analysis.claims.rows import DIFFERS, NOT_RUN, REPRODUCED, LedgerRow, percent_over
from analysis.claims.statements import Claim
from analysis.recommendation import daily_cost_usd
from scheduler_plugins.model import (
    Component,
    Edge,
    Executor,
    Observation,
    ScaleEvent,
    ServiceLevel,
    Slot,
    Topology,
    WorkerMachine,
)
from scheduler_plugins.policies import bind, etp
from scheduler_plugins.policies.dodo import DodoParameters, instances_to_add, static_mapping, transmissions
from scheduler_plugins.policies.partition import OBJECTIVES
from scheduler_plugins.policies.scaling import executors_for_new_machines
from scheduler_plugins.policies.stela import StelaParameters
from scheduler_plugins.service_level import EdgeCount, juice, utility
from scheduler_plugins.traffic import Pair, Traffic
from topologies.keys import machine_by_mod, machine_by_ring, task_of

# SP figure 2, ST figure 2: ten operators, the rates of its sinks, and which are congested. Rates that it does not
# print (those of the others, and the input of the congested ones) are chosen so that exactly those are congested.
CHILDREN = {"1": ("2", "3"), "2": ("4",), "3": ("5", "6"), "5": ("7", "8"), "6": ("9", "10")}
PROCESSING_RATES = {
    "1": 5000.0, "2": 5000.0, "3": 2000.0, "4": 2000.0, "5": 2000.0, "6": 500.0, "7": 1000.0, "8": 1000.0, "9": 200.0,
    "10": 300.0,
}  # fmt: skip
INPUT_RATES = {"1": 6000.0, "3": 5000.0, "4": 4000.0, "6": 1000.0}
RULES = StelaParameters(congestion_rate=1.0)
ETP_ORDER = ("3", "4", "6", "1")
MACHINE_COUNT, DRAWS, BEST_COUNT = 8, 4, 2


def ten_operators(room: frozenset[str] = frozenset()) -> Topology:
    """Return operators with one executor each; those in `room` have a task for one more."""
    components = [Component("feed", "spout", (1,), (Executor(1, 1),), emitted_per_s=INPUT_RATES["1"])]
    for first, (name, rate) in zip(range(3, 99, 2), PROCESSING_RATES.items(), strict=False):
        last = first + (name in room)
        tasks = tuple(range(first, last + 1))
        components.append(Component(name, "bolt", tasks, (Executor(first, last),), executed_per_s=rate))
    pairs = [("feed", "1"), *((source, target) for source, targets in CHILDREN.items() for target in targets)]
    edges = tuple(Edge(source, "default", target, "shuffle", INPUT_RATES.get(target, 1.0)) for source, target in pairs)
    return Topology("ten-1", "ten", 1, tuple(components), edges)


def etp_percent(operator: str) -> float:
    return 100.0 * etp.measured_etps(ten_operators(), RULES)[operator]


def order_mismatches() -> float:
    """Return at how many of the four places the congested operator served next differs from the printed order."""
    queue, order = set(INPUT_RATES), []
    for _ in ETP_ORDER:
        (operator,) = etp.assign_executors(ten_operators(frozenset(queue)), 1, RULES)
        order.append(operator)
        queue.discard(operator)
    return float(sum(one != other for one, other in zip(order, ETP_ORDER, strict=True)))


def slots_of_star(new: int) -> float:
    """Return how many executors Stela gives out if `new` machines join star's four (SP II-B, table I)."""
    components = tuple(
        Component(str(task), "bolt", (task, task + 1), (Executor(task, task), Executor(task + 1, task + 1)))
        for task in range(1, 10, 2)
    )
    return float(executors_for_new_machines(Topology("star-1", "star", 12, components, ()), 4, new, RULES.slots))


def chance_of_both_best_percent() -> float:
    """Return the share of all draws of 4 from 8 machines that contain both best ones."""
    return 100.0 * comb(MACHINE_COUNT - BEST_COUNT, DRAWS - BEST_COUNT) / comb(MACHINE_COUNT, DRAWS)


# --- METIS itself ----------------------------------------------------------------------------------------------------

# M13, as far as a computation of a second can show: does the policy lose anything against METIS itself, called as MP
# called it (`vol`)? A topology of ten thousand tasks in eight stages, each sending to five of the next stage, placed
# round robin. The policy makes its graph from measurements and places executors; the bare call gets adjacency lists
# written here. The time of both is measured on the same topology, of any width (bench/speed/partition_bench.py).
STAGES, WIDTH, RECEIVERS, PARTS = 8, 1250, 5, 10
WINDOW_S = 60.0
Counts = Mapping[Pair, float]


class NotComputed(Exception):
    """The reason why there is nothing to compare: METIS cannot be called, or the policy places nothing."""


def tuple_counts(width: int = WIDTH, seed: int = 13) -> Counts:
    """Return counts from task to task in the window; tasks from 1 on, `width` a stage. All but one of a task's
    receivers are near."""
    random = Random(seed)
    counts: dict[Pair, float] = {}
    for stage in range(STAGES - 1):
        first = 1 + stage * width
        for index in range(width):
            receivers = [(index + step) % width for step in range(RECEIVERS - 1)]
            for target in (*receivers, random.randrange(width)):
                counts[first + index, first + width + target] = float(random.randrange(60, 6000))
    return counts


def observation_of(counts: Counts, width: int = WIDTH, parts: int = PARTS) -> Observation:
    """Return the topology on `parts` machines of a slot each, a task an executor, with a request for a new
    placement."""
    hosts = tuple(WorkerMachine(f"m{n}", f"id-{n:03}", (6700,), cores=1e6) for n in range(1, parts + 1))
    slots = [Slot(host.name, 6700) for host in hosts]
    tasks_of_stages = [tuple(range(1 + stage * width, 1 + (stage + 1) * width)) for stage in range(STAGES)]
    components = tuple(
        Component(f"stage_{stage}", "bolt" if stage else "spout", tasks,
                  tuple(Executor(task, task, cpu_load=0.01) for task in tasks), 1.0, 1.0)
        for stage, tasks in enumerate(tasks_of_stages)
    )  # fmt: skip
    edges = tuple(Edge(f"stage_{n}", "default", f"stage_{n + 1}", "fields", 1.0) for n in range(STAGES - 1))
    placement = {task: slots[task % parts] for task in range(1, 1 + STAGES * width)}
    traffic = Traffic(counts, WINDOW_S)
    topology = Topology("t-1", "t", parts, components, edges, placement, traffic=traffic, samples_age_s=1.0)
    return Observation(0.0, hosts, (topology,), 1.0, ScaleEvent("e1", "reschedule"))


def policy_parts(counts: Counts) -> dict[int, object]:
    """Return where the policy `metis` (vol) puts each task. Raises NotComputed if it moves none."""
    observation = observation_of(counts)
    decision = bind("metis", {"objective": "vol"})(observation, {})
    if not decision.placement:
        raise NotComputed(decision.reason)
    return {**observation.topologies[0].placement, **decision.placement["t-1"]}


def bare_parts(counts: Counts) -> dict[int, object]:
    """Return METIS' own parts, with the options that the policy sets. Raises NotComputed without pymetis."""
    try:
        import pymetis
    except ImportError as error:
        raise NotComputed(f"needs pymetis, which this Python does not have ({error})") from error

    size = STAGES * WIDTH
    rows: list[dict[int, int]] = [{} for _ in range(size)]
    for (source, target), count in counts.items():
        for one, other in ((source - 1, target - 1), (target - 1, source - 1)):
            rows[one][other] = rows[one].get(other, 0) + int(count)
    ordered = [sorted(row.items()) for row in rows]
    _, parts = pymetis.part_graph(
        PARTS,
        [[other for other, _ in row] for row in ordered],
        vweights=[sum(row.values()) for row in rows],
        recursive=False,
        options=pymetis.Options(objtype=OBJECTIVES["vol"], ufactor=30, seed=0),
    )
    return dict(enumerate(parts, start=1))


def crossing(counts: Counts, places: Mapping[int, object]) -> float:
    return sum(count for (source, target), count in counts.items() if places[source] != places[target])


def crossing_beyond_bare_percent() -> float:
    """Return by how many percent the policy's crossing exceeds METIS' own. Raises NotComputed."""
    counts = tuple_counts()
    reference = crossing(counts, bare_parts(counts))
    return percent_over(crossing(counts, policy_parts(counts)), reference)


# --- juice and utility -----------------------------------------------------------------------------------------------

# HP figure 1, in thousands of tuples: A sends 16, half to each child; C does 6 of 8.
FIGURE_1 = (("spout", "A", 10, 10), ("A", "B", 8, 8), ("A", "C", 8, 6), ("B", "D", 8, 8), ("C", "D", 6, 6))
# HP figure 5; its text has shares only: A does half of its input, E half, F 80 %.
FIGURE_5 = (
    ("spout_1", "A", 80, 40), ("spout_2", "D", 80, 80), ("D", "E", 80, 40), ("A", "B", 40, 40), ("E", "B", 20, 20),
    ("E", "F", 20, 16), ("B", "C", 60, 60),
)  # fmt: skip


def juice_thousandths(counts: Sequence[tuple[str, str, float, float]]) -> float:
    """Return the juice of edges (source, target, sent, executed) whose sources emitted all of their input."""
    edges = [EdgeCount(*each) for each in counts]
    shares = {each.source: 1.0 for each in edges if each.source.startswith("spout")}
    value = juice(edges, shares)
    assert value is not None, "every edge has counts"
    return 1000.0 * value


def utility_percent(level: ServiceLevel, latency_ms: float | None, share: float | None) -> float:
    """Return the utility, in percent of the largest."""
    value = utility(level, latency_ms, share)
    assert value is not None, "what the level is about is given"
    return 100.0 * value / level.max_utility


# --- keys that change their machine ----------------------------------------------------------------------------------

# DT 7.1.3, as MachineGrouping.java does it on Storm; the thesis's code has 200 points a machine. Keys are the topics of
# top_n. DT computes with N machines and N + 1; which N is ours.
KEYS, RING_POINTS, TASKS = 5000, 200, 256
MACHINES = range(2, 65)
Rule = Literal["ring", "mod", "fields", "fields_anew"]


def keys_moved(rule: Rule, before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many keys change machine. `fields`: Storm's grouping, hash mod tasks; tasks are placed evenly before,
    and as few of them move as it takes; `fields_anew`: all are dealt anew."""
    if rule in ("fields", "fields_anew"):
        old = [before[task % len(before)] for task in range(TASKS)]
        new = even_places(old, after) if rule == "fields" else [after[task % len(after)] for task in range(TASKS)]
        return sum(old[task] != new[task] for task in (task_of(key, TASKS) for key in range(KEYS)))
    choose = machine_by_mod if rule == "mod" else partial(machine_by_ring, points=RING_POINTS)
    one, other = choose(before), choose(after)
    return sum(one(key) != other(key) for key in range(KEYS))


def even_places(places: Sequence[str], machines: Sequence[str]) -> list[str]:
    """Return places of tasks so that machines have equally many, or one more; as few tasks move as it takes."""
    tasks: dict[str, list[int]] = {machine: [] for machine in machines}
    homeless = [task for task, machine in enumerate(places) if machine not in tasks]
    for task, machine in enumerate(places):
        if machine in tasks:
            tasks[machine].append(task)
    while True:
        least, most = min(machines, key=lambda name: len(tasks[name])), max(tasks.values(), key=len)
        if not homeless and len(most) - len(tasks[least]) <= 1:
            break
        tasks[least].append((homeless or most).pop())
    return [machine for _, machine in sorted((task, machine) for machine, own in tasks.items() for task in own)]


def keys_moved_percent(rule: Rule, change: Literal[-1, 1]) -> float:
    """Return the share of keys that change machine when one joins, or the one in the middle leaves; the mean over
    numbers of machines."""
    shares = []
    for size in MACHINES:
        before = [f"m{number}" for number in range(1, size + 1)]
        after = [*before, f"m{size + 1}"] if change == 1 else [name for name in before if name != before[size // 2]]
        shares.append(100.0 * keys_moved(rule, before, after) / KEYS)
    return fmean(shares)


# --- cost of batches -------------------------------------------------------------------------------------------------

BATCH_MIN, INTERVALS_H = (56.0, 177.0, 407.0), (24.0, 3.0, 1.0)  # DT tables 2 and 3


def daily_cost_cents(minutes: float, every_h: float, machines: int, usd_per_hour: float) -> float:
    cost = daily_cost_usd(60 * minutes, every_h, machines, usd_per_hour)
    return inf if cost is None else 100.0 * cost


def intervals_too_short() -> float:
    """Return how many of table 3's batches take longer than their interval."""
    return sum(isinf(daily_cost_cents(minutes, every_h, 11, 0.08)) for minutes in BATCH_MIN for every_h in INTERVALS_H)


THRESHOLDS = DodoParameters(correlation=1.01, most_moves=9, max_load=0.8, min_load=0.3, ideal=0.8)  # DT names none


def group_percent(group: str) -> float:
    """Return the average load in percent of a machine, with components of 9, 5, 4 and 3 on three machines and one (DT
    6.2.1)."""
    loads, sizes = {"a": 0.9, "b": 0.5, "c": 0.4, "d": 0.3}, {"three": 3, "one": 1}
    mapping = static_mapping(loads, sizes)
    return sum(100.0 * loads[name] for name, place in mapping.items() if place == group) / sizes[group]


def moves_from_one(sizes: Mapping[str, float]) -> float:
    """Return how many components go from one machine, with 0.65 and 0.25, to a `group` with 0.3 (DT algorithm 1)."""
    loads = {"other": {"a": (0.65, 0.65), "b": (0.25, 0.25)}, "group": {"c": (0.3, 0.3)}}
    return float(len(transmissions(loads, sizes, THRESHOLDS)))


COMPUTATIONS: dict[str, Callable[[], float]] = {
    **{f"etp_of_operator_{operator}": partial(etp_percent, operator) for operator in ("1", "3", "4", "6")},
    "etp_order_misplaced": order_mismatches,
    **{f"slots_of_star_for_{new}": partial(slots_of_star, new) for new in (1, 2, 4)},
    "chance_of_both_best": chance_of_both_best_percent,
    "crossing_beyond_bare_metis": crossing_beyond_bare_percent,
    "juice_of_figure_1": partial(juice_thousandths, FIGURE_1),
    "juice_of_figure_5": partial(juice_thousandths, FIGURE_5),
    # HP figure 2 has T1 of 10 and T2 of 20 for either level.
    "utility_percent_at_half_the_juice": partial(utility_percent, ServiceLevel(juice=0.8, max_utility=20.0), None, 0.4),
    "utility_percent_at_three_times_the_latency": partial(
        utility_percent, ServiceLevel(latency_ms=100.0, max_utility=10.0), 300.0, None
    ),
    "keys_moved_by_ring_percent_on_join": partial(keys_moved_percent, "ring", 1),
    "keys_moved_by_ring_percent_on_leave": partial(keys_moved_percent, "ring", -1),
    "keys_moved_by_mod_percent_on_join": partial(keys_moved_percent, "mod", 1),
    "daily_cost_of_three_days_cents": partial(daily_cost_cents, BATCH_MIN[1], 3.0, 11, 0.08),
    "batch_intervals_too_short": intervals_too_short,
    "daily_cost_of_23_machines_cents": partial(daily_cost_cents, 24 * 60.0, 24.0, 23, 0.065),  # a stream runs all day
    "average_load_of_three_machines": lambda: group_percent("three"),
    "average_load_of_one_machine": lambda: group_percent("one"),
    "moves_of_algorithm_1": lambda: moves_from_one({"group": 6.0, "other": 1.0}),
    "moves_of_algorithm_1_to_one_machine": lambda: moves_from_one({"group": 1.0, "other": 1.0}),
    "machines_of_algorithm_2": lambda: 5 + instances_to_add(5, 1.6, THRESHOLDS),
    "machines_of_algorithm_2_after_shrinking": lambda: 8 + instances_to_add(8, 0.16, THRESHOLDS),
    "utility_percent_at_the_level": partial(
        utility_percent, ServiceLevel(latency_ms=100.0, max_utility=10.0), 100.0, None
    ),
}


@cache
def _computed(metric: str) -> float:
    return COMPUTATIONS[metric]()


def judge_exact(claim: Claim) -> LedgerRow:
    """Return the row: equal to the stated digits, or `not run` if it cannot be computed here."""
    try:
        value = _computed(claim.metric)
    except NotComputed as error:
        return LedgerRow(claim, None, None, None, 0, NOT_RUN, f"not computed: {error}", (), checks=True)
    equal = round(value) == claim.stated
    reason = f"computed, needs no run: {value:.4g} {'rounds' if equal else 'does not round'} to {claim.stated:g}"
    return LedgerRow(claim, value, value, value, 0, REPRODUCED if equal else DIFFERS, reason, (), checks=True)
