"""Which way each metric is better, how two values of it are compared, and what it is called. The one table of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from analysis.metrics.steadiness import WINDOW_S


class Better(StrEnum):
    """Which way is better; `none`: a fact, not a merit."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"


class DifferenceKind(StrEnum):
    """`ratio`: in percent of the other value. `difference`: in its own unit, because it may be 0 or is a percentage."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


@dataclass(frozen=True)
class Metric:
    """`smallest`: the smallest difference worth naming, in `unit`, whatever it is in percent; 0 where any may be."""

    name: str
    better: Better
    difference_kind: DifferenceKind
    unit: str
    words: str
    smallest: float = 0.0


def _ratio(name: str, better: Better, unit: str, words: str, smallest: float = 0.0) -> Metric:
    return Metric(name, better, DifferenceKind.RATIO, unit, words, smallest)


def _difference(name: str, better: Better, unit: str, words: str, smallest: float) -> Metric:
    return Metric(name, better, DifferenceKind.DIFFERENCE, unit, words, smallest)


def _both_sides(
    make: Callable[..., Metric], name: str, better: Better, unit: str, words: str, *smallest: float
) -> tuple[Metric, ...]:
    """Before the event and after it."""
    return tuple(make(f"{name}_{side}", better, unit, f"{words} {side}", *smallest) for side in ("before", "after"))


HIGHER, LOWER, NONE = Better.HIGHER, Better.LOWER, Better.NONE
METRICS = {
    metric.name: metric
    for metric in (
        *_both_sides(_ratio, "throughput", HIGHER, "tuples/s", "throughput"),
        _difference("gain_percent", HIGHER, "points", "gain in throughput", 2.0),
        *_both_sides(_ratio, "spouts", HIGHER, "tuples/s", "emitted"),
        *_both_sides(_ratio, "due", NONE, "tuples/s", "offered"),
        # Times of convergence come in whole windows; the script's is where a window begins and may be 0.
        _ratio("convergence_sp_s", LOWER, "s", "convergence time (SP)", 20.0),
        _ratio("convergence_st_s", LOWER, "s", "convergence time (ST)", 20.0),
        _difference("convergence_script_s", LOWER, "s", "convergence time (script)", 20.0),
        _difference("downtime_s", LOWER, "s", "downtime", 2.0),
        _difference("longest_s", LOWER, "s", "longest silence", 2.0),
        _difference("windows_at_zero_s", LOWER, "s", "windows at zero", 10.0),
        _difference("lost_before", LOWER, "tuples", "tuples lost before", 10.0),
        _difference("lost_after", LOWER, "tuples", "tuples lost after", 50.0),
        _difference("lost_after_uncertainty", NONE, "tuples", "uncertainty of tuples lost after", 50.0),
        _difference("lost_after_percent", LOWER, "points", "share of tuples lost after", 0.5),
        _difference("missed_before", LOWER, "tuples", "tuples missed before", 10.0),
        _difference("missed_after", LOWER, "tuples", "tuples missed after", 50.0),
        _difference("late_before", LOWER, "tuples", "tuples emitted late before", 10.0),
        _difference("late_after", LOWER, "tuples", "tuples emitted late after", 50.0),
        # Of all tuples. In a comparison *after* is the same seconds on both sides (analysis.compare.latencies).
        *_both_sides(_ratio, "latency_all_p50_ms", LOWER, "ms", "median latency"),
        *_both_sides(_ratio, "latency_all_p95_ms", LOWER, "ms", "95 % latency"),
        # No merit of its own: what it takes from latency's verdict.
        *_both_sides(_difference, "untimed_percent", NONE, "points", "share of tuples without a latency", 0.5),
        *_both_sides(_ratio, "utility", HIGHER, "utility", "mean utility of the whole watch"),
        # A machine that works more is neither better nor worse by that alone; what all of them use is a cost.
        *_both_sides(_difference, "cpu_percent", NONE, "points", "CPU of quota", 2.0),
        *_both_sides(_difference, "cpu_spread_percent", NONE, "points", "spread of CPU", 5.0),
        *_both_sides(_difference, "cpu_steal_percent", NONE, "points", "CPU steal", 2.0),
        *_both_sides(_ratio, "cpu_imbalance", LOWER, "× the mean", "CPU of the busiest machine", 0.05),
        *_both_sides(_ratio, "network_mb_per_s", LOWER, "MB/s", "bytes between machines"),
        *_both_sides(_ratio, "network_busiest_mb_per_s", LOWER, "MB/s", "bytes a second of the busiest machine"),
        *_both_sides(_ratio, "network_imbalance", LOWER, "× the mean", "bytes of the busiest machine", 0.05),
        # How many tuples pass is the topology's; which of them leave a machine is the placement's.
        *_both_sides(_ratio, "traffic_per_s", NONE, "tuples/s", "tuples between tasks"),
        *_both_sides(_ratio, "between_machines_per_s", NONE, "tuples/s", "tuples between machines"),
        *_both_sides(_difference, "between_workers_percent", LOWER, "points", "share of tuples between workers", 2.0),
        *_both_sides(_difference, "between_machines_percent", LOWER, "points", "share of tuples between machines", 2.0),
        _ratio("processed_per_s_before", NONE, "tuples/s", "tuples processed before, ackers' too"),
        _ratio("processed_per_s_after", NONE, "tuples/s", "tuples processed after, ackers' too"),
        _ratio("published_emitted_per_s", HIGHER, "tuples/s", "emitted in the 180 s from the event on (MP)"),
        _ratio("published_network_mb_per_s", LOWER, "MB/s", "bytes between machines in the same 180 s (MP)"),
        _ratio("decision_ms", LOWER, "ms", "time of the decision", 5.0),
        _difference("rescheduled_percent", NONE, "points", "placed anew when asked", 1.0),
        _difference("payback_s", LOWER, "s", "until the bytes saved have paid for the event", 20.0),
        *_both_sides(_ratio, "cpu_cores", LOWER, "cores", "CPU of all machines"),
        *_both_sides(_ratio, "memory_mb", LOWER, "MB", "memory of all machines"),
        *_both_sides(_difference, "executors", NONE, "executors", "executors", 1.0),
        _difference("executors_moved", LOWER, "executors", "executors moved", 1.0),
        _difference("tasks_moved", LOWER, "tasks", "tasks moved", 1.0),
        _difference("tasks_moved_to_old_machines", LOWER, "tasks", "tasks moved to old machines", 1.0),
        _difference("instances_on_joined", NONE, "instances", "instances on joined machines", 1.0),
        _difference("instances_on_joined_over_expected", NONE, "instances", "instances on joined beyond SP II-B", 1.0),
        _difference("workers_before", NONE, "workers", "workers before", 1.0),
        _difference("workers_unaffected", NONE, "workers", "workers not concerned", 1.0),
        _difference("workers_restarted", LOWER, "workers", "workers restarted", 1.0),
        _difference("unaffected_workers_restarted", LOWER, "workers", "unaffected workers restarted", 1.0),
        _difference("machines_released", NONE, "machines", "machines released", 1.0),
        _difference("machines_given_back", NONE, "machines", "machines given back", 1.0),
        _difference("machines_joined", NONE, "machines", "machines joined", 1.0),
        _difference("attempts", LOWER, "attempts", "attempts at the event", 1.0),
        _difference("request_to_decision_s", LOWER, "s", "request to decision", 1.0),
        _difference("request_to_applied_s", LOWER, "s", "request to applied", 2.0),
        _difference("request_to_running_s", LOWER, "s", "request to last executor running", 3.0),
        _difference("rebalance_s", LOWER, "s", "Storm's rebalance", 3.0),
        _ratio("submit_to_loaded_s", LOWER, "s", "submit to all loaded", 5.0),
    )
}  # fmt: skip

CONVERGENCE = "convergence_"  # what the names of its three definitions begin with

# The few that a sentence or a first page is about; all others are read when these raise a question. Of the three
# definitions of convergence the first paper's.
PRIMARY = ("throughput_after", "convergence_sp_s", "downtime_s", "latency_all_p95_ms_after")


def metric(name: str) -> Metric:
    """What is known of a metric; one that is not in the table has no direction, so nothing is ever better in it."""
    return METRICS.get(name) or _difference(name, Better.NONE, "", name.replace("_", " "), 0.0)


def quantum(name: str) -> float:
    """The step of its values: whole windows, whole seconds, whole things; 0 for what is measured finely."""
    if name.startswith(CONVERGENCE) or name in ("windows_at_zero_s", "payback_s"):
        return WINDOW_S
    found = metric(name)
    whole = found.difference_kind is DifferenceKind.DIFFERENCE and found.unit not in ("points", "")
    return 1.0 if whole else 0.0
