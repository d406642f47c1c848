"""Claims with one right answer: a computation (name -> function), by the code that schedules."""

from collections.abc import Callable
from functools import cache
from math import comb

from analysis.claims.ledger_rows import DIFFERS, NOT_RUN, REPRODUCED, LedgerRow
from analysis.claims.metis_call import NotComputed, crossing_beyond_bare_percent
from analysis.claims.statements import Claim
from scheduler_plugins.model import Component, Edge, Executor, Topology
from scheduler_plugins.policies import etp
from scheduler_plugins.policies.scaling import executors_for_new_machines
from scheduler_plugins.policies.stela import StelaParameters, assign_executors

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
    names = ["feed", *PROCESSING_RATES]
    components = tuple(
        _operator(name, number, 2 if name in room else 1) for number, name in zip(range(1, 99, 2), names, strict=False)
    )
    pairs = [("feed", "1"), *((source, target) for source, targets in CHILDREN.items() for target in targets)]
    edges = tuple(Edge(source, "default", target, "shuffle", INPUT_RATES.get(target, 1.0)) for source, target in pairs)
    return Topology("ten-1", "ten", 1, components, edges)


def _operator(name: str, first_task: int, tasks: int) -> Component:
    executors = (Executor(first_task, first_task + tasks - 1),)
    ids = tuple(range(first_task, first_task + tasks))
    if name == "feed":
        return Component(name, "spout", ids, executors, emitted_per_s=INPUT_RATES["1"])
    return Component(name, "bolt", ids, executors, executed_per_s=PROCESSING_RATES[name])


def etp_percent(operator: str) -> float:
    return 100.0 * etp.measured_etps(ten_operators(), RULES)[operator]


def order_mismatches() -> float:
    """Return at how many of the four places the congested operator served next differs from the printed order."""
    queue, order = set(INPUT_RATES), []
    for _ in ETP_ORDER:
        (operator,) = assign_executors(ten_operators(frozenset(queue)), 1, RULES)
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


COMPUTATIONS: dict[str, Callable[[], float]] = {
    "etp_of_operator_1": lambda: etp_percent("1"),
    "etp_of_operator_3": lambda: etp_percent("3"),
    "etp_of_operator_4": lambda: etp_percent("4"),
    "etp_of_operator_6": lambda: etp_percent("6"),
    "etp_order_misplaced": order_mismatches,
    "slots_of_star_for_1": lambda: slots_of_star(1),
    "slots_of_star_for_2": lambda: slots_of_star(2),
    "slots_of_star_for_4": lambda: slots_of_star(4),
    "chance_of_both_best": chance_of_both_best_percent,
    "crossing_beyond_bare_metis": crossing_beyond_bare_percent,
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
