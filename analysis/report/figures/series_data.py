"""Data of the figures: small series, bounded by windows x runs and machines x runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from analysis.metrics.definitions import DRAWN, place_words
from analysis.metrics.steadiness import WINDOW_S
from analysis.record import event_timeline
from analysis.record.event_timeline import FIRST_EVENT, EventMark, event_order
from analysis.record.files import SeriesPaths, is_unthrottled
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row, by_run, cluster, rows


@dataclass(frozen=True)
class RateLine:
    """Rates of one run over its windows; `starts_s` relative to the first event."""

    run_id: str
    variant: str
    starts_s: tuple[float, ...]
    rates: tuple[float | None, ...]


@dataclass(frozen=True)
class EventTime:
    """Seconds after an event of one run until convergence by a definition, or at zero throughput. Censored: the run had
    not converged, or was still at zero, when its watch ended, and `seconds` is the length of the watch."""

    run_id: str
    variant: str
    seconds: float
    censored: bool = False
    event_id: str = FIRST_EVENT
    definition: str = ""


@dataclass(frozen=True)
class MachineUtilisation:
    """Utilisation of one machine before the first event or after the last one, as fractions of its quota.

    `left`: it was released in between; later measurements of it do not belong to the cluster.
    """

    run_id: str
    variant: str
    phase: str
    machine: str
    joined: bool
    p10: float | None
    p50: float | None
    p90: float | None
    left: bool = False


@dataclass(frozen=True)
class Level:
    """Mean throughput of one run in the part that counts, before the first event and after the last one."""

    run_id: str
    variant: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class RunNumber:
    """A measurement of one run; `block`: of the series."""

    run_id: str
    variant: str
    block: int
    value: float


@dataclass(frozen=True)
class RunTraffic:
    """Rates from task to task in one run on one side of the first event, tuples/s, and a slot of each task: if it had
    several, the one with the busiest pair. `machines`: rates from machine to machine, of the tuples whose way is
    known, each by the places of its tasks at that time."""

    run_id: str
    variant: str
    phase: str
    rates: Mapping[tuple[int, int], float]
    slots: Mapping[int, str]
    machines: Mapping[tuple[str, str], float]

    @property
    def between_percent(self) -> float | None:
        """Return the metric `between_machines_percent`."""
        total = sum(self.machines.values())
        between = sum(rate for (one, other), rate in self.machines.items() if one != other)
        return 100.0 * between / total if total > 0.0 else None


@dataclass(frozen=True)
class GroupLoad:
    """CPU of a group of machines in a window, as a fraction of its quota, and its number of machines."""

    run_id: str
    variant: str
    group: str
    window_s: float
    machines: int
    utilisation: float


@dataclass(frozen=True)
class SeriesData:
    """The data of the figures, from complete runs with an event only; variants in the order of the figures."""

    variants: tuple[str, ...]
    totals: tuple[RateLine, ...]
    due: tuple[RateLine, ...]  # of runs whose spouts are throttled by their rate
    times: tuple[EventTime, ...]
    loads: tuple[MachineUtilisation, ...]
    levels: tuple[Level, ...]
    downtimes: tuple[EventTime, ...] = ()
    marks: tuple[EventMark, ...] = ()  # of all runs
    axis_s: tuple[float, float] | None = None  # of the runs, if a topology was not present all the time
    experiment: str = ""
    numbers: Mapping[str, tuple[RunNumber, ...]] = field(default_factory=dict)  # by metric, of `DRAWN`
    traffic: tuple[RunTraffic, ...] = ()  # of one run of each variant
    topology: str | None = None  # the drawn one of several; None: the only one, or the cluster
    groups: tuple[GroupLoad, ...] = ()  # of machines
    of_model: bool = False  # the runs were simulated: they scatter by the model's noise, which needs no interval
    place: str = place_words()  # where throughput is measured

    @property
    def own_marks(self) -> list[EventMark]:
        """Return the marks without changes of other topologies' input."""
        return [mark for mark in self.marks if self.topology is None or mark.input_of in ("", self.topology)]

    def renamed(self, variants: Sequence[str], names: Mapping[str, str], by: str = "variant") -> SeriesData:
        """Return the throughput of these variants: of the runs whose variant or run_id (`by`) has a name."""

        def lines(every: Iterable[Any]) -> tuple[Any, ...]:
            return tuple(replace(each, variant=names[key]) for each in every if (key := getattr(each, by)) in names)

        return replace(
            self, variants=tuple(variants), totals=lines(self.totals), due=lines(self.due), levels=lines(self.levels),
            times=(), loads=(), downtimes=(),
        )  # fmt: skip

    def level_after(self, variant: str) -> float | None:
        """Return the median over the variant's runs."""
        levels = [level.after for level in self.levels if level.variant == variant and level.after is not None]
        return median(levels) if levels else None

    def label(self, event_id: str) -> str:
        """Return the event in two or three words, or its id if no run has more."""
        return next((mark.label for mark in self.marks if mark.event_id == event_id), event_id)


def collect(paths: SeriesPaths, topology: str | None = None) -> SeriesData:
    """Read the tables of metrics.build and the events of the runs that count. `topology`: the drawn one of several;
    None: the only one, or the cluster."""
    machines = cluster(paths)
    read = partial(rows, paths, topology=topology or machines)
    runs = rows(paths, "runs")
    complete = {row["run_id"]: row["variant"] for row in runs if row["status"] == "complete"}
    scaled_ids = {row["run_id"] for row in read("zeros") if row["scaled"]}
    variants = {run_id: variant for run_id, variant in complete.items() if run_id in scaled_ids}

    def counted(table: Iterable[Row]) -> list[Row]:
        return sorted((row for row in table if row["run_id"] in variants), key=lambda row: row["run_id"])

    windows = [row for row in counted(read("throughput")) if row["complete"]]
    paced = {run_id for run_id in variants if not is_unthrottled(paths.run(run_id))}
    times = (
        EventTime(row["run_id"], variants[row["run_id"]], row["horizon_s"] if row["time_s"] is None else row["time_s"],
                  row["censored"], row["event_id"], row["definition"])
        for row in counted(read("convergence"))
    )  # fmt: skip
    downtimes = (
        EventTime(row["run_id"], variants[row["run_id"]], row["downtime_s"], row["lasts"], row["event_id"])
        for row in counted(read("downtime")) if row["downtime_s"] is not None
    )  # fmt: skip
    absent_machines: set[tuple[str, str]] = set()  # when their run ended
    for event in sorted(rows(paths, "scale_events", topology=machines), key=lambda event: float(event["zero_s"])):
        absent_machines -= {(event["run_id"], machine) for machine in event["joined"] or ()}
        absent_machines |= {(event["run_id"], machine) for machine in event["released"] or ()}
    cpu = rows(paths, "cpu", topology=machines) if topology in (None, machines) else []
    loads = (
        MachineUtilisation(row["run_id"], variants[row["run_id"]], row["phase"], row["machine"],
                           bool(row["joins_at_scale"]), row["utilisation_p10"], row["utilisation_p50"],
                           row["utilisation_p90"], (row["run_id"], row["machine"]) in absent_machines)
        for row in _outer_phases(counted(cpu))
    )  # fmt: skip
    means: dict[str, dict[str, float | None]] = {}
    for row in _outer_phases(counted(read("intervals"))):
        means.setdefault(row["run_id"], {})[row["phase"]] = row["mean"]
    of_cluster = rows(paths, "throughput", topology=machines) if machines else []
    starts = [row["window_s"] for row in of_cluster if row["complete"]]
    return SeriesData(
        order_variants(set(complete.values())), _lines(windows, "total", variants),
        _lines((row for row in windows if row["run_id"] in paced), "due", variants),
        tuple(sorted(times, key=lambda time: (time.run_id, time.event_id, time.definition))),
        tuple(sorted(loads, key=lambda load: (load.run_id, load.phase, load.machine))),
        tuple(Level(name, variants[name], side.get("before"), side.get("after")) for name, side in means.items()),
        tuple(downtimes),
        tuple(mark for run_id in sorted(variants) for mark in event_timeline.planned_marks(paths.run(run_id))),
        (min(starts), max(starts) + WINDOW_S) if starts else None,
        experiment=next((row["experiment"] for row in runs if row["experiment"]), ""),
        numbers=_numbers(read("measurements"), runs),
        traffic=_traffic(paths, variants, topology or machines),
        groups=tuple(
            GroupLoad(row["run_id"], variants[row["run_id"]], row["group"], row["window_s"], row["machines"],
                      row["utilisation_mean"])
            for row in counted(rows(paths, "group_windows", topology=machines))
            if topology in (None, machines) and row["utilisation_mean"] is not None
        ),
        topology=None if topology == machines else topology,
        of_model=any(map(is_simulated, runs)),
        place=place_words(row["throughput"] for row in rows(paths, "topologies")
                          if topology in (None, machines, row["topology"])),
    )  # fmt: skip


def order_variants(variants: set[str]) -> tuple[str, ...]:
    """Sort baselines first, and the papers' proposals last, so that they are drawn over the others; `tasks_4` before
    `tasks_12`."""

    def order(name: str) -> tuple[bool, bool, str, int, str]:
        word, _, number = name.rpartition("_")
        numbered = (word, int(number)) if number.isdecimal() else (name, 0)
        return not name.startswith("even"), name.startswith(("stela", "metis")), *numbered, name

    return tuple(sorted(variants, key=order))


def _lines(windows: Iterable[Row], scope: str, variants: Mapping[str, str]) -> tuple[RateLine, ...]:
    scope_rows = (row for row in windows if row["scope"] == scope)
    windows_by_run = by_run(sorted(scope_rows, key=lambda row: row["window_s"]))
    return tuple(
        RateLine(run_id, variants[run_id], tuple(p["window_s"] for p in points), tuple(p["rate"] for p in points))
        for run_id, points in sorted(windows_by_run.items())
    )


def _outer_phases(table: Iterable[Row]) -> list[Row]:
    """Return for each run the rows before its first event and after its last one."""
    outer = []
    for rows_of_run in by_run(table).values():
        ids = sorted({row["event_id"] for row in rows_of_run}, key=event_order)
        edge = {"before": ids[0], "after": ids[-1]}
        outer += [row for row in rows_of_run if row["event_id"] == edge.get(row["phase"])]
    return outer


def _numbers(table: Iterable[Row], runs: Iterable[Row]) -> dict[str, tuple[RunNumber, ...]]:
    complete = {row["run_id"]: row for row in runs if row["status"] == "complete"}
    numbers: dict[str, tuple[RunNumber, ...]] = {}
    for row in sorted(table, key=lambda row: str(row["run_id"])):
        run = complete.get(row["run_id"])
        if run and row["metric"] in DRAWN and row["event_id"] == FIRST_EVENT and not row["censored"]:
            block = int(run.get("block") or run.get("repetition") or 0)
            number = RunNumber(run["run_id"], run["variant"], block, row["value"])
            numbers[row["metric"]] = (*numbers.get(row["metric"], ()), number)
    return numbers


def _traffic(paths: SeriesPaths, variants: Mapping[str, str], topology: str | None) -> tuple[RunTraffic, ...]:
    """Return the traffic of the first run of each variant."""
    first = {variant: run_id for run_id, variant in sorted(variants.items(), reverse=True)}
    table = rows(paths, "task_traffic", runs=list(first.values()), topology=topology) if first else []
    by_side: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(table, key=lambda row: float(row["tuples_per_s"])):
        if row["event_id"] == FIRST_EVENT:
            by_side.setdefault((row["run_id"], row["phase"]), []).append(row)
    return tuple(
        run_traffic(run_id, variants[run_id], phase, pairs) for (run_id, phase), pairs in sorted(by_side.items())
    )


def run_traffic(run_id: str, variant: str, phase: str, pairs: Iterable[Row]) -> RunTraffic:
    """Return the sums of pairs of tasks; rows ascend by rate, so that the last of several slots is the busiest."""
    rates: dict[tuple[int, int], float] = {}
    slots: dict[int, str] = {}
    machines: dict[tuple[str, str], float] = {}
    for row in pairs:
        rates[row["from"], row["to"]] = rates.get((row["from"], row["to"]), 0.0) + row["tuples_per_s"]
        ends = ((row["from"], row["from_slot"]), (row["to"], row["to_slot"]))
        slots |= {task: slot for task, slot in ends if slot is not None}
        if row["to_machine"] is not None:
            pair = (row["from_machine"], row["to_machine"])
            machines[pair] = machines.get(pair, 0.0) + row["tuples_per_s"]
    return RunTraffic(run_id, variant, phase, rates, slots, machines)
