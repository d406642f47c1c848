"""Simulated runs beside the real ones that they stand for: every metric, its error, and the ranking of the variants.

A number that one side does not have is None, and has no error. A time that a run never reached is a bound (the horizon,
or how long it lasted until then), and an error is given only where both sides reached theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from statistics import fmean, median

from analysis.metrics.metric_directions import CONVERGENCE, DifferenceKind, metric
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import WHOLE_RUN, event_order
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, rows

RANKED = "throughput_after"
CLEARLY = 0.05  # of the larger: what two variants have to differ by in reality to be ranked at all
LATENCY_MEAN = "latency_mean_ms"
# What is judged, in the order of the page.
JUDGED = (
    "throughput_before", "throughput_after", "gain_percent", "convergence_sp_s", "convergence_st_s", "downtime_s",
    "lost_after", "request_to_running_s", "submit_to_loaded_s", "cpu_percent_before", "cpu_percent_after",
    f"{LATENCY_MEAN}_before", f"{LATENCY_MEAN}_after", "latency_all_p95_ms_before", "latency_all_p95_ms_after",
)  # fmt: skip
WORDS = {f"{LATENCY_MEAN}_before": "mean latency before", f"{LATENCY_MEAN}_after": "mean latency after"}
# Times that the end of a run may cut off.
CUT_OFF = ("downtime_s", "request_to_running_s")
# Beside the metrics: of each machine, in points of its quota.
MACHINE_CPU = "machine_cpu_points"


@dataclass(frozen=True)
class Value:
    """Over runs of one variant. `censored`: half of them or more never got there, and `value` is a bound. `low` to
    `high`: of these runs; `high` None: one never got there."""

    value: float | None
    runs: int
    censored: bool = False
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Cell:
    """One metric of one variant at one event. `error`: in percent of the real value where the metric is a ratio's, else
    simulated less real in its own unit."""

    experiment: str
    topology: str
    variant: str
    event_id: str
    metric: str
    real: Value
    simulated: Value

    @property
    def is_ratio(self) -> bool:
        return self.metric.startswith(LATENCY_MEAN) or metric(self.metric).difference_kind is DifferenceKind.RATIO

    @property
    def error(self) -> float | None:
        real, simulated = self.real.value, self.simulated.value
        if real is None or simulated is None or self.real.censored or self.simulated.censored:
            return None
        if not self.is_ratio:
            return simulated - real
        return 100.0 * (simulated / real - 1.0) if real else None

    @property
    def is_inside(self) -> bool | None:
        """Whether the real value lies among what chance gives the simulated runs; None of fewer than three."""
        real, simulated = self.real, self.simulated
        if real.value is None or simulated.value is None or simulated.runs < 3:
            return None
        if real.censored:
            return simulated.high is None
        if simulated.low is None:  # none of them got there
            return False
        return simulated.low <= real.value and (simulated.high is None or real.value <= simulated.high)

    @property
    def words(self) -> str:
        return WORDS.get(self.metric) or metric(self.metric).words

    @property
    def unit(self) -> str:
        return "ms" if self.metric.startswith(LATENCY_MEAN) else metric(self.metric).unit


@dataclass(frozen=True)
class MachineCell:
    """Mean CPU of one machine on one side of an event, in percent of its quota, over the runs of a variant."""

    experiment: str
    variant: str
    event_id: str
    phase: str
    machine: str
    real: float | None
    simulated: float | None


@dataclass(frozen=True)
class Ranking:
    """Variants by throughput after an event, best first. `tau`: Kendall's, of those that both sides have; None of
    fewer than two. `clear_pairs`: pairs that differ by CLEARLY in reality; `same_pairs`: of them, in the same order."""

    experiment: str
    topology: str
    event_id: str
    real: tuple[str, ...]
    simulated: tuple[str, ...]
    tau: float | None
    clear_pairs: int
    same_pairs: int


@dataclass(frozen=True)
class Judgement:
    """Of one series. `runs`: complete real ones. `missing`: of them, by run, why it has no simulated counterpart;
    where others of its variant have one, its numbers are left out. `failed_seeds`: how many of a run's seeds could not
    be simulated, and why, where others could."""

    experiment: str
    series_id: str
    cells: tuple[Cell, ...]
    machines: tuple[MachineCell, ...]
    rankings: tuple[Ranking, ...]
    runs: int
    missing: Mapping[str, str]
    failed_seeds: Mapping[str, str] = field(default_factory=dict)

    @property
    def judged_runs(self) -> int:
        return self.runs - len(self.missing)

    @property
    def judged_variants(self) -> frozenset[str]:
        """Of which both sides have a number."""
        return frozenset(
            cell.variant for cell in self.cells if cell.real.value is not None and cell.simulated.value is not None
        )


def judge(
    real: SeriesPaths, simulated: SeriesPaths, missing: Mapping[str, str], failed_seeds: Mapping[str, str]
) -> Judgement:
    """Both have been analysed. A run of the one may be several of the other, with other seeds."""
    variants, simulated_variants = (complete_runs(paths) for paths in (real, simulated))
    experiment = next((row["experiment"] for row in rows(real, "runs") if row["experiment"]), real.root.parent.name)
    of_sides = ((real, with_counterpart(variants, missing)), (simulated, simulated_variants))
    sides = [values_of(partial(rows, paths), of_side) for paths, of_side in of_sides]
    cells = cells_of(experiment, *sides)
    return Judgement(
        experiment=experiment,
        series_id=real.root.name,
        cells=cells,
        machines=machine_cells(experiment, *(machine_means(rows(paths, "cpu"), of) for paths, of in of_sides)),
        rankings=rankings(cells),
        runs=len(variants),
        missing=missing,
        failed_seeds=failed_seeds,
    )


def complete_runs(paths: SeriesPaths) -> dict[str, str]:
    """The variant of each complete run."""
    return {row["run_id"]: row["variant"] for row in rows(paths, "runs") if row["status"] == "complete"}


def with_counterpart(variants: Mapping[str, str], missing: Collection[str]) -> dict[str, str]:
    """The variant of each real run that simulated ones stand for; of a variant without any, all."""
    judged = {run: variant for run, variant in variants.items() if run not in missing}
    return judged | {run: variant for run, variant in variants.items() if variant not in judged.values()}


Reader = Callable[[str], list[Row]]
Key = tuple[str, str, str, str]  # topology, variant, event, metric
Values = Mapping[Key, Value]


def values_of(read: Reader, variants: Mapping[str, str]) -> dict[Key, Value]:
    """`variants`: of the runs that count."""
    found: dict[Key, list[Row]] = {}
    for row in [*read("measurements"), *mean_latencies(read("latency"), read("intervals"))]:
        if row["run_id"] in variants and row["metric"] in JUDGED:
            key = (row["topology"] or "", variants[row["run_id"]], row["event_id"], row["metric"])
            found.setdefault(key, []).append(row)
    return {key: over_runs(key[3], of_key) for key, of_key in found.items()}


def over_runs(name: str, of_runs: Sequence[Row]) -> Value:
    """The mean; of times that may be cut off the median, in which a run that never got there is the longest."""
    values = [math.inf if row["censored"] else float(row["value"]) for row in of_runs]
    ends = tuple(None if math.isinf(end) else end for end in (min(values), max(values)))
    if not name.startswith(CONVERGENCE) and name not in CUT_OFF:
        mean = fmean(row["value"] for row in of_runs)
        return Value(mean, len(of_runs), low=ends[0], high=ends[1])
    middle = median(values)
    if math.isinf(middle):
        return Value(max(row["value"] for row in of_runs), len(of_runs), True, *ends)
    return Value(middle, len(of_runs), False, *ends)


def mean_latencies(latency: Iterable[Row], intervals: Iterable[Row]) -> list[Row]:
    """Of all tuples of the part of each side that counts, as rows of `measurements`."""
    windows: dict[tuple[str, str, str], list[Row]] = {}
    for row in latency:
        windows.setdefault((row["run_id"], row["topology"], row["event_id"]), []).append(row)
    found = []
    for span in intervals:
        inside = [
            row
            for row in windows.get((span["run_id"], span["topology"], span["event_id"]), ())
            if span["start_s"] <= row["window_s"] <= span["end_s"] - WINDOW_S and row["mean_ms"] is not None
        ]
        tuples = sum(row["n"] for row in inside)
        if tuples:
            value = sum(row["n"] * row["mean_ms"] for row in inside) / tuples
            of = {name: span[name] for name in ("run_id", "topology", "event_id")}
            found.append({**of, "metric": f"{LATENCY_MEAN}_{span['phase']}", "value": value, "censored": False})
    return found


NOTHING = Value(None, 0)


def cells_of(experiment: str, real: Values, simulated: Values) -> tuple[Cell, ...]:
    """A cell for whatever one side has."""
    keys = sorted({*real, *simulated}, key=lambda key: (key[0], event_order(key[2]), key[1], JUDGED.index(key[3])))
    return tuple(Cell(experiment, *key, real.get(key, NOTHING), simulated.get(key, NOTHING)) for key in keys)


MachineKey = tuple[str, str, str, str]  # variant, event, phase, machine


def machine_cells(
    experiment: str, real: Mapping[MachineKey, float], simulated: Mapping[MachineKey, float]
) -> tuple[MachineCell, ...]:
    """Machines of workers; the simulator has no master."""
    keys = sorted({*real, *simulated}, key=lambda key: (key[0], event_order(key[1]), key[2] != "before", key[3]))
    return tuple(MachineCell(experiment, *key, real.get(key), simulated.get(key)) for key in keys)


def machine_means(found: Iterable[Row], variants: Mapping[str, str]) -> dict[MachineKey, float]:
    """CPU in percent of a machine's quota, on each side of an event: the mean over runs of each run's mean. `found`:
    rows of the table `cpu`; `variants`: of the runs that count. The master is left out."""
    values: dict[MachineKey, list[float]] = {}
    for row in found:
        counts = row["run_id"] in variants and row["event_id"] != WHOLE_RUN and row["joins_at_scale"] is not None
        if counts and row["utilisation_mean"] is not None:
            key = (variants[row["run_id"]], row["event_id"], row["phase"], row["machine"])
            values.setdefault(key, []).append(100.0 * row["utilisation_mean"])
    return {key: fmean(of_key) for key, of_key in values.items()}


def rankings(cells: Sequence[Cell]) -> tuple[Ranking, ...]:
    """One a topology and event."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.metric == RANKED and cell.event_id != WHOLE_RUN:
            groups.setdefault((cell.experiment, cell.topology, cell.event_id), []).append(cell)
    return tuple(_ranking(key, group) for key, group in groups.items())


def _ranking(key: tuple[str, str, str], cells: Sequence[Cell]) -> Ranking:
    real = {cell.variant: cell.real.value for cell in cells if cell.real.value is not None}
    simulated = {cell.variant: cell.simulated.value for cell in cells if cell.simulated.value is not None}
    both = sorted(set(real) & set(simulated))
    clear = [
        (a, b) for a, b in combinations(both, 2) if abs(real[a] - real[b]) > CLEARLY * max(abs(real[a]), abs(real[b]))
    ]
    same = sum((real[a] - real[b]) * (simulated[a] - simulated[b]) > 0 for a, b in clear)
    tau = kendall_tau([real[name] for name in both], [simulated[name] for name in both])
    return Ranking(*key, _best_first(real), _best_first(simulated), tau, len(clear), same)


def _best_first(values: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(values, key=lambda name: -values[name]))


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's tau-b of two rankings of the same things; None of fewer than two, or where one side has no order."""
    signs = [(_sign(a[i] - a[j]), _sign(b[i] - b[j])) for i, j in combinations(range(min(len(a), len(b))), 2)]
    ordered_a, ordered_b = sum(x != 0 for x, _ in signs), sum(y != 0 for _, y in signs)
    if not ordered_a or not ordered_b:
        return None
    return sum(x * y for x, y in signs) / math.sqrt(ordered_a * ordered_b)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


@dataclass(frozen=True)
class ErrorSummary:
    """Of one metric over all variants and events that have an error: sizes without their sign, and the mean with it.
    `missing`: cells that one side lacks. `inside` of `ranges`: real values among what the simulated runs have by
    chance."""

    metric: str
    words: str
    unit: str
    cells: int
    median: float | None
    worst: float | None
    bias: float | None
    missing: int
    inside: int = 0
    ranges: int = 0


def summaries(judgements: Sequence[Judgement]) -> list[ErrorSummary]:
    """In the order of JUDGED, then that of machines."""
    cells = [cell for each in judgements for cell in each.cells]
    found = []
    for name in JUDGED:
        mine = [cell for cell in cells if cell.metric == name]
        if mine:
            unit = "%" if mine[0].is_ratio else mine[0].unit
            summary = ErrorSummary(name, mine[0].words, unit, 0, None, None, None, 0)
            inside = [cell.is_inside for cell in mine if cell.is_inside is not None]
            summary = replace(summary, inside=sum(inside), ranges=len(inside))
            found.append(_summary(summary, [cell.error for cell in mine]))
    machines = [each for judgement in judgements for each in judgement.machines]
    if machines:
        errors = [None if m.real is None or m.simulated is None else m.simulated - m.real for m in machines]
        summary = ErrorSummary(MACHINE_CPU, "CPU of each machine", "points", 0, None, None, None, 0)
        found.append(_summary(summary, errors))
    return found


def _summary(empty: ErrorSummary, errors: Sequence[float | None]) -> ErrorSummary:
    known = [error for error in errors if error is not None]
    if not known:
        return replace(empty, missing=len(errors))
    sizes = [abs(error) for error in known]
    return replace(
        empty, cells=len(known), median=median(sizes), worst=max(sizes), bias=fmean(known),
        missing=len(errors) - len(known),
    )  # fmt: skip
