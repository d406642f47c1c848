"""The metrics: name, unit and digits, the better direction, the comparison of two values,
the steady parts under them, and the tables, pages and judgements that use them. docs/metrics.md defines them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from analysis.metrics.steadiness import WINDOW_S
from scheduler_plugins.model import SINKS, SPOUTS


class Better(StrEnum):
    """The better direction; `none`: a fact, not a merit."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"


class DifferenceKind(StrEnum):
    """A kind of difference. `ratio`: in percent of the other value. `difference`: in its own unit, because it may be 0
    or is a percentage."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


UNITS_OF_COUNTS = (
    "",
    "utility",
    "tuples",
    "executors",
    "tasks",
    "instances",
    "workers",
    "machines",
    "attempts",
    "rounds",
    "actions",
)
DIGITS = {"tuples/s": 1, "points": 1, "ms": 1, "utility": 1, "MB/s": 3, "× the mean": 2}  # by unit; none for others


@dataclass(frozen=True)
class Metric:
    """A metric. `unit`: of a difference of two values. `smallest`: the smallest difference worth naming, in `unit`,
    whatever it is in percent; 0 if any may be. `decimals`: digits of a printed value, if its unit has others.
    `steady_sides`: the sides of the event whose steady parts it rests on; none for counts, times and placements.
    `is_sum`: the cluster's value is the sum of its topologies'. `bounded`: the end of a run may cut it off, and the
    value is then a lower bound."""

    name: str
    better: Better
    difference_kind: DifferenceKind
    unit: str
    words: str
    smallest: float = 0.0
    decimals: int | None = None
    steady_sides: tuple[str, ...] = ()
    is_sum: bool = False
    bounded: bool = False

    @property
    def digits(self) -> int:
        return DIGITS.get(self.unit, 0) if self.decimals is None else self.decimals

    @property
    def value_unit(self) -> str:
        """Return the unit of a value: percentages differ by points."""
        return "%" if self.unit == "points" else self.unit

    @property
    def heading(self) -> str:
        return self.words if self.unit in UNITS_OF_COUNTS else f"{self.words}, {self.value_unit}"


BEFORE, AFTER = ("before",), ("after",)


def _sides(metric: Metric) -> Iterator[Metric]:
    """Yield a metric that is counted over each whole side of an event."""
    for side in (*BEFORE, *AFTER):
        yield replace(metric, name=f"{metric.name}_{side}", words=f"{metric.words} {side}")


def _levels(metric: Metric) -> Iterator[Metric]:
    """Yield a metric of the steady part of each side."""
    for side, metric_of_side in zip((BEFORE, AFTER), _sides(metric), strict=True):
        yield replace(metric_of_side, steady_sides=side)


ATTAINED = {  # columns of the table `attainment`
    "attained_p5": "5th percentile", "attained_p15": "15th percentile", "attained_p50": "median",
    "attained_p90": "90th percentile", "attained_mean": "mean",
}  # fmt: skip
HIGHER, LOWER, NONE = Better.HIGHER, Better.LOWER, Better.NONE
RATIO, DIFFERENCE = DifferenceKind.RATIO, DifferenceKind.DIFFERENCE
METRICS = {
    metric.name: metric
    for metric in (
        *_levels(Metric("throughput", HIGHER, RATIO, "tuples/s", "throughput")),
        Metric("gain_percent", HIGHER, DIFFERENCE, "points", "gain in throughput", 2.0, steady_sides=BEFORE + AFTER),
        *_levels(Metric("spouts", HIGHER, RATIO, "tuples/s", "emitted")),
        *_levels(Metric("due", NONE, RATIO, "tuples/s", "offered")),
        # Times of convergence come in whole windows; the script's is the beginning of a window and may be 0.
        Metric("convergence_sp_s", LOWER, RATIO, "s", "convergence time (SP)", 20.0, steady_sides=AFTER,
               bounded=True),
        Metric("convergence_st_s", LOWER, RATIO, "s", "convergence time (ST)", 20.0, steady_sides=AFTER,
               bounded=True),
        Metric("convergence_script_s", LOWER, DIFFERENCE, "s", "convergence time (script)", 20.0, bounded=True),
        Metric("downtime_s", LOWER, DIFFERENCE, "s", "downtime", 2.0, bounded=True),
        Metric("longest_s", LOWER, DIFFERENCE, "s", "longest silence", 2.0, bounded=True),
        Metric("windows_at_zero_s", LOWER, DIFFERENCE, "s", "windows at zero", 10.0, bounded=True),
        Metric("lost_before", LOWER, DIFFERENCE, "tuples", "tuples lost before", 10.0, is_sum=True),
        Metric("lost_after", LOWER, DIFFERENCE, "tuples", "tuples lost after", 50.0, is_sum=True),
        Metric("lost_after_uncertainty", NONE, DIFFERENCE, "tuples", "uncertainty of tuples lost after", 50.0,
               is_sum=True),
        Metric("lost_after_percent", LOWER, DIFFERENCE, "points", "share of tuples lost after", 0.5),
        # By a limit on queues; in percent of what was sent to components that have one. Of `e0`: of the whole run.
        *(each for metric in (
            Metric("dropped", LOWER, DIFFERENCE, "tuples", "tuples dropped", 10.0, is_sum=True),
            Metric("dropped_percent", LOWER, DIFFERENCE, "points", "share of tuples dropped", 0.5),
        ) for each in (replace(metric, is_sum=False), *_sides(metric))),
        Metric("missed_before", LOWER, DIFFERENCE, "tuples", "tuples missed before", 10.0, is_sum=True),
        Metric("missed_after", LOWER, DIFFERENCE, "tuples", "tuples missed after", 50.0, is_sum=True),
        Metric("late_before", LOWER, DIFFERENCE, "tuples", "tuples emitted late before", 10.0, is_sum=True),
        Metric("late_after", LOWER, DIFFERENCE, "tuples", "tuples emitted late after", 50.0, is_sum=True),
        # Over all tuples. In a comparison *after* is the same seconds on both sides (analysis.compare.latencies).
        *_levels(Metric("latency_all_p50_ms", LOWER, RATIO, "ms", "median latency")),
        *_levels(Metric("latency_all_p95_ms", LOWER, RATIO, "ms", "95 % latency")),
        # No merit of its own: it can rule out latency's verdict.
        *_levels(Metric("untimed_percent", NONE, DIFFERENCE, "points", "share of tuples without a latency", 0.5)),
        *_sides(Metric("utility", HIGHER, RATIO, "utility", "mean utility of the whole watch")),
        # Of `e0` they are of the time from when a policy may first act.
        Metric("met_percent_after", HIGHER, DIFFERENCE, "points", "time with the service level met", 1.0),
        *(Metric(f"{name}_percent_after", HIGHER, DIFFERENCE, "points", f"attained share, {words}", 1.0)
          for name, words in ATTAINED.items()),
        Metric("time_to_max_utility_s", LOWER, DIFFERENCE, "s", "until the largest utility", 10.0, bounded=True),
        Metric("settling_s", LOWER, DIFFERENCE, "s", "until utility has settled", 20.0, bounded=True),
        Metric("overshoot_percent_after", LOWER, DIFFERENCE, "points", "best minute's attained share over the last's",
               5.0),
        Metric("rounds_after", NONE, DIFFERENCE, "rounds", "rounds of the policy", 1.0),
        Metric("actions_after", LOWER, DIFFERENCE, "actions", "actions of the policy", 1.0),
        Metric("executor_s_after", LOWER, RATIO, "s", "executor-seconds"),
        # Of a load that grows for minutes, from the event of its course on.
        Metric("saturation_rate", HIGHER, RATIO, "tuples/s", "offered rate that throughput follows", bounded=True),
        Metric("peak", HIGHER, RATIO, "tuples/s", "highest throughput of a minute"),
        Metric("end_level", HIGHER, RATIO, "tuples/s", "throughput of the last two minutes"),
        Metric("machine_seconds", LOWER, RATIO, "s", "machine-seconds"),
        Metric("utilisation_percent", NONE, DIFFERENCE, "points", "CPU of quota all the time", 2.0),
        # Over the seconds that count in a real and a simulated run; in no table.
        *_levels(Metric("latency_mean_ms", NONE, RATIO, "ms", "mean latency")),
        # A machine that works more is neither better nor worse by that alone; the total use is a cost.
        *_levels(Metric("cpu_percent", NONE, DIFFERENCE, "points", "CPU of quota", 2.0)),
        *_levels(Metric("cpu_spread_percent", NONE, DIFFERENCE, "points", "spread of CPU", 5.0)),
        *_levels(Metric("cpu_steal_percent", NONE, DIFFERENCE, "points", "CPU steal", 2.0)),
        *_levels(Metric("cpu_imbalance", LOWER, RATIO, "× the mean", "CPU of the busiest machine", 0.05)),
        *_levels(Metric("network_mb_per_s", LOWER, RATIO, "MB/s", "bytes between machines")),
        *_levels(Metric("network_busiest_mb_per_s", LOWER, RATIO, "MB/s", "bytes a second of the busiest machine")),
        *_levels(Metric("network_imbalance", LOWER, RATIO, "× the mean", "bytes of the busiest machine", 0.05)),
        # The number of tuples depends on the topology; how many of them leave a machine depends on the placement.
        *_levels(Metric("traffic_per_s", NONE, RATIO, "tuples/s", "tuples between tasks")),
        *_levels(Metric("between_machines_per_s", NONE, RATIO, "tuples/s", "tuples between machines")),
        *_levels(Metric("between_workers_percent", LOWER, DIFFERENCE, "points", "share of tuples between workers",
                        2.0)),
        *_levels(Metric("between_machines_percent", LOWER, DIFFERENCE, "points", "share of tuples between machines",
                        2.0)),
        *_levels(Metric("processed_per_s", NONE, RATIO, "tuples/s", "tuples processed (ackers' too)", decimals=0)),
        Metric("published_emitted_per_s", HIGHER, RATIO, "tuples/s", "emitted in the 180 s from the event on (MP)"),
        Metric("published_network_mb_per_s", LOWER, RATIO, "MB/s", "bytes between machines in the same 180 s (MP)"),
        Metric("decision_ms", LOWER, RATIO, "ms", "time of the decision", 5.0),
        Metric("rescheduled_percent", NONE, DIFFERENCE, "points", "placed anew when asked", 1.0),
        Metric("payback_s", LOWER, DIFFERENCE, "s", "until the bytes saved have paid for the event", 20.0),
        *_levels(Metric("cpu_cores", LOWER, RATIO, "cores", "CPU of all machines")),
        *_levels(Metric("memory_percent", NONE, DIFFERENCE, "points", "memory of limit", 2.0)),
        *_levels(Metric("memory_mb", LOWER, RATIO, "MB", "memory of all machines")),
        *_sides(Metric("executors", NONE, DIFFERENCE, "executors", "executors", 1.0)),
        Metric("executors_moved", LOWER, DIFFERENCE, "executors", "executors moved", 1.0),
        Metric("tasks_moved", LOWER, DIFFERENCE, "tasks", "tasks moved", 1.0),
        Metric("tasks_moved_to_old_machines", LOWER, DIFFERENCE, "tasks", "tasks moved to old machines", 1.0),
        Metric("instances_on_joined", NONE, DIFFERENCE, "instances", "instances on joined machines", 1.0),
        Metric("instances_on_joined_over_expected", NONE, DIFFERENCE, "instances", "instances on joined beyond SP II-B",
               1.0),
        Metric("workers_before", NONE, DIFFERENCE, "workers", "workers before", 1.0),
        Metric("workers_unaffected", NONE, DIFFERENCE, "workers", "workers not concerned", 1.0),
        Metric("workers_restarted", LOWER, DIFFERENCE, "workers", "workers restarted", 1.0),
        Metric("unaffected_workers_restarted", LOWER, DIFFERENCE, "workers", "unaffected workers restarted", 1.0),
        Metric("machines_released", NONE, DIFFERENCE, "machines", "machines released", 1.0),
        Metric("machines_given_back", NONE, DIFFERENCE, "machines", "machines given back", 1.0),
        Metric("machines_joined", NONE, DIFFERENCE, "machines", "machines joined", 1.0),
        Metric("attempts", LOWER, DIFFERENCE, "attempts", "attempts at the event", 1.0),
        Metric("request_to_decision_s", LOWER, DIFFERENCE, "s", "request to decision", 1.0),
        Metric("request_to_applied_s", LOWER, DIFFERENCE, "s", "request to applied", 2.0),
        Metric("request_to_running_s", LOWER, DIFFERENCE, "s", "request to last executor running", 3.0, bounded=True,
               decimals=1),
        Metric("rebalance_s", LOWER, DIFFERENCE, "s", "Storm's rebalance", 3.0, bounded=True, decimals=1),
        Metric("submit_to_loaded_s", LOWER, RATIO, "s", "submit to all loaded", 5.0, decimals=1),
    )
}  # fmt: skip

CONVERGENCE = "convergence_"  # prefix of the names of its three definitions
LEVELS_AND_TIMES = (  # of throughput, wherever the topology's is measured
    "throughput_before", "throughput_after", "gain_percent", "convergence_sp_s", "convergence_st_s",
    "convergence_script_s", "downtime_s", "longest_s", "windows_at_zero_s",
)  # fmt: skip
LATENCIES = {"latency_all_p50_ms": 0.50, "latency_all_p95_ms": 0.95}  # the share of all tuples for each
LATENCY_COLUMNS = {"latency_all_p50_ms": "p50_ms", "latency_all_p95_ms": "p95_ms"}  # of the table `interval_latency`

# The few in a sentence or on a first page; readers look at the others if these raise a question. Of the three
# definitions of convergence the first paper's.
PRIMARY = ("throughput_after", "convergence_sp_s", "downtime_s", "latency_all_p95_ms_after")
# The same of a cluster whose topologies have service levels, in comparisons.
PRIMARY_OF_LEVELS = ("utility_after", "met_percent_after", "attained_p5_percent_after")
# The tables of runs in a report, by title.
RUN_TABLES = {
    "Throughput and convergence": (
        "throughput_before", "throughput_after", "gain_percent", "due_after", "spouts_after", "convergence_sp_s",
        "convergence_st_s", "convergence_script_s",
    ),
    "Interruption, placement and load": (
        "downtime_s", "lost_after", "dropped_after", "dropped_percent_after", "missed_after", "late_after",
        "executors_moved", "tasks_moved", "workers_restarted",
        "unaffected_workers_restarted", "latency_all_p95_ms_before", "latency_all_p50_ms_after",
        "latency_all_p95_ms_after", "cpu_percent_after",
    ),
    "Traffic between machines": (
        "between_machines_percent_before", "between_machines_percent_after", "between_workers_percent_after",
        "network_mb_per_s_before", "network_mb_per_s_after", "network_imbalance_after", "cpu_imbalance_after",
        "processed_per_s_after", "published_emitted_per_s", "published_network_mb_per_s", "payback_s",
    ),
    "Service levels": (
        "utility_before", "utility_after", "met_percent_after", "attained_p5_percent_after",
        "attained_p50_percent_after", "attained_mean_percent_after", "time_to_max_utility_s", "settling_s",
        "actions_after", "executor_s_after",
    ),
    "Growing load": ("saturation_rate", "peak", "end_level", "machine_seconds", "utilisation_percent"),
    "How long it took": ("decision_ms", "submit_to_loaded_s", "request_to_running_s", "rebalance_s"),
}  # fmt: skip
# On the page of a sweep.
SWEPT = (
    "throughput_after", "gain_percent", "convergence_sp_s", "network_mb_per_s_after", "between_machines_percent_after",
    "cpu_spread_percent_after", "cpu_imbalance_after", "latency_all_p95_ms_after", "published_emitted_per_s",
    "published_network_mb_per_s", "saturation_rate", "peak", "end_level", "machine_seconds",
)  # fmt: skip
# For judging simulated runs by real ones.
JUDGED = (
    "throughput_before", "throughput_after", "gain_percent", "convergence_sp_s", "convergence_st_s", "downtime_s",
    "lost_after", "request_to_running_s", "submit_to_loaded_s", "cpu_percent_before", "cpu_percent_after",
    "latency_mean_ms_before", "latency_mean_ms_after", "latency_all_p95_ms_before", "latency_all_p95_ms_after",
)  # fmt: skip
# For comparing policies on a recorded run.
OUTCOMES = (
    "throughput_before", "throughput_after", "gain_percent", "downtime_s", "lost_after", "convergence_sp_s",
    "convergence_st_s", "convergence_script_s", "latency_all_p95_ms_after", "workers_restarted", "executors_moved",
    "tasks_moved",
)  # fmt: skip
# For panels of the first event, drawn run by run.
DRAWN = (
    "published_emitted_per_s", "published_network_mb_per_s", "network_mb_per_s_after", "processed_per_s_after",
    "spouts_after",
)  # fmt: skip


def metric(name: str) -> Metric:
    """Return a metric by its name; one that is not in the table has no direction, so no value is better in it."""
    return METRICS.get(name) or Metric(name, NONE, DIFFERENCE, "", name.replace("_", " "))


def place_words(places: Iterable[str] = ()) -> str:
    """Return where throughput is measured, such as `at the sinks`; `places`: column `throughput` of `topologies`."""
    names = dict.fromkeys(places) or [SINKS]
    return " and ".join(f"at the {name}" if name in (SINKS, SPOUTS) else f"at {name}" for name in names)


def quantum(name: str) -> float:
    """Return the step of its values: whole windows, whole seconds, whole things; 0 for finely measured ones."""
    if name.startswith(CONVERGENCE) or name in (
        "windows_at_zero_s",
        "payback_s",
        "time_to_max_utility_s",
        "settling_s",
    ):
        return WINDOW_S
    definition = metric(name)
    is_whole = definition.difference_kind is DIFFERENCE and definition.unit not in ("points", "")
    return 1.0 if is_whole else 0.0
