"""Simulated runs beside the real one that they stand for: every metric, its error, and the ranking of the variants.

A number that one side does not have is None, and has no error. A time that a run never reached is a bound (the horizon,
or how long it lasted until then), and an error is given only where both sides reached theirs. Latencies are of the
seconds that count on both sides: where queues grow, other seconds have other latencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from statistics import fmean, median

from analysis.metrics.definitions import JUDGED, DifferenceKind, metric
from analysis.metrics.latency_histogram import merged, percentile_ms
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import WHOLE_RUN, absent_machines, event_order
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, cluster, rows
from analysis.stats.effect import summary

RANKED = "throughput_after"
CLEARLY = 0.05  # of the larger: what two variants have to differ by in reality to be ranked at all
ALIKE = 0.005  # of the larger: simulated levels that lie nearer to one another have no order
LATENCY_MEAN, LATENCY_P95 = "latency_mean_ms", "latency_all_p95_ms"
LEAST_COMMON_S = 30.0  # that count on both sides; of less there is no latency
# Beside the metrics: of each machine, in points of its quota.
MACHINE_CPU = "machine_cpu_points"


@dataclass(frozen=True)
class SideNumber:
    """Number of a real run, or over the simulated ones that stand for it. `censored`: half of them or more never got
    there, and `value` is a bound. `low` to `high`: of these runs; `high` None: one never got there. `unsteady`: runs of
    these that were not steady on a side that the metric rests on."""

    value: float | None
    runs: int
    censored: bool = False
    low: float | None = None
    high: float | None = None
    unsteady: int = 0


@dataclass(frozen=True)
class Cell:
    """One metric of one real run at one event. `error`: in percent of the real value where the metric is a ratio's,
    else simulated less real in its own unit."""

    experiment: str
    topology: str
    variant: str
    run_id: str
    event_id: str
    metric: str
    real: SideNumber
    simulated: SideNumber

    @property
    def is_ratio(self) -> bool:
        return metric(self.metric).difference_kind is DifferenceKind.RATIO

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
        """Return whether the real value lies among what chance gives the simulated runs; None of fewer than three."""
        real, simulated = self.real, self.simulated
        if real.value is None or simulated.value is None or simulated.runs < 3:
            return None
        if real.censored:
            return simulated.high is None
        if simulated.low is None:  # none of them got there
            return False
        return simulated.low <= real.value and (simulated.high is None or real.value <= simulated.high)

    @property
    def is_bound(self) -> bool:
        """Return whether both sides have a value and one of them never got there."""
        return None not in (self.real.value, self.simulated.value) and (self.real.censored or self.simulated.censored)

    @property
    def words(self) -> str:
        return metric(self.metric).words

    @property
    def unit(self) -> str:
        return metric(self.metric).unit


@dataclass(frozen=True)
class MachineCell:
    """Mean CPU of one machine on one side of an event of a real run, in percent of its quota."""

    experiment: str
    run_id: str
    event_id: str
    phase: str
    machine: str
    real: float | None
    simulated: float | None


@dataclass(frozen=True)
class Ranking:
    """Variants by throughput after an event, the mean of their runs, best first. `tau`: Kendall's, of those that both
    sides have; None of fewer than two, or of equals in reality. `clear_pairs`: pairs that differ by CLEARLY in reality;
    `same_pairs`: of them, those that differ by ALIKE in the same order."""

    experiment: str
    topology: str
    event_id: str
    real: tuple[str, ...]
    simulated: tuple[str, ...]
    tau: float | None
    clear_pairs: int
    same_pairs: int


@dataclass(frozen=True)
class SeriesErrors:
    """How far simulated runs of one series are from its real ones. `runs`: complete real ones. `missing`: of them, by
    run, why it has no simulated counterpart.
    `failed_seeds`: how many of a run's seeds could not be simulated, and why, where others could."""

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


Reader = Callable[[str], list[Row]]
StandsFor = Mapping[str, str]  # run -> the real run that it stands for; a real one stands for itself


def judge(
    real: SeriesPaths, simulated: SeriesPaths, missing: Mapping[str, str], failed_seeds: Mapping[str, str],
    seeds: int = 1,
) -> SeriesErrors:  # fmt: skip
    """Both have been analysed. Of a real run there are so many simulated ones, with other seeds."""
    described = rows(real, "runs")
    experiment = next((row["experiment"] for row in described if row["experiment"]), real.root.parent.name)
    runs = complete(described)
    own = {row["run_id"]: row["run_id"] for row in runs}
    sides = ((partial(rows, real), own), (partial(rows, simulated), counterparts(runs, rows(simulated, "runs"), seeds)))
    cells = cells_of(experiment, {row["run_id"]: row["variant"] for row in runs}, *values_of_sides(sides))
    return SeriesErrors(
        experiment=experiment,
        series_id=real.root.name,
        cells=cells,
        machines=machine_cells(experiment, machine_means(real, own), machine_means(simulated, sides[1][1])),
        rankings=rankings(cells),
        runs=len(runs),
        missing=missing,
        failed_seeds=failed_seeds,
    )


def complete(described: Iterable[Row]) -> list[Row]:
    """Return the complete ones of the table `runs`."""
    return [row for row in described if row["status"] == "complete"]


def counterparts(real: Iterable[Row], simulated: Iterable[Row], seeds: int) -> dict[str, str]:
    """Return the real run of each complete simulated one: the first `seeds` ones stand for a variant's first."""
    runs = {(row["variant"], int(row["repetition"] or 1)): row["run_id"] for row in real}
    found = {row["run_id"]: (row["variant"], 1 + (int(row["repetition"]) - 1) // seeds) for row in complete(simulated)}
    return {run: runs[key] for run, key in found.items() if key in runs}


Key = tuple[str, str, str, str]  # topology, real run, event, metric
Values = Mapping[Key, SideNumber]


def values_of_sides(sides: Sequence[tuple[Reader, StandsFor]]) -> list[dict[Key, SideNumber]]:
    """Return those of each side, with its latencies over the seconds that count on both."""
    intervals = [read("intervals") for read, _ in sides]
    spans = common_spans(zip(intervals, (stands_for for _, stands_for in sides), strict=True))
    return [
        values_of(
            [
                *(row for row in read("measurements") if not row["metric"].startswith(LATENCY_P95)),
                *latencies(read("latency"), of_side, spans, stands_for),
            ],
            stands_for,
        )
        for (read, stands_for), of_side in zip(sides, intervals, strict=True)
    ]


def values_of(measured: Iterable[Row], stands_for: StandsFor) -> dict[Key, SideNumber]:
    """Return those of rows of `measurements`."""
    found: dict[Key, list[Row]] = {}
    for row in measured:
        if row["run_id"] in stands_for and row["metric"] in JUDGED:
            key = (row["topology"] or "", stands_for[row["run_id"]], row["event_id"], row["metric"])
            found.setdefault(key, []).append(row)
    return {key: over_runs(key[3], of_key) for key, of_key in found.items()}


def over_runs(name: str, of_runs: Sequence[Row]) -> SideNumber:
    """Return the mean; of times that may be cut off the median, in which a run that never got there is longer."""
    values, censored = [float(row["value"]) for row in of_runs], [bool(row["censored"]) for row in of_runs]
    unsteady = sum(row.get("steady") is False for row in of_runs)
    over = summary(values, censored, mean=not metric(name).bounded, unsteady=unsteady)
    low = min((value for value, never in zip(values, censored, strict=True) if not never), default=None)
    never = over.value is None
    return SideNumber(over.largest if never else over.value, over.runs, never, low, over.high, unsteady)


Side = tuple[str, str, str, str]  # real run, topology, event, side of it


def common_spans(sides: Iterable[tuple[Iterable[Row], StandsFor]]) -> dict[Side, tuple[float, float]]:
    """From when to when (s after the event) a side of an event counts in a real run and in all that stand for it: rows
    of `intervals`. Of at least LEAST_COMMON_S."""
    found: dict[Side, tuple[float, float]] = {}
    for intervals, stands_for in sides:
        for row in intervals:
            if row["run_id"] in stands_for:
                key = (stands_for[row["run_id"]], row["topology"] or "", row["event_id"], row["phase"])
                begin, end = found.get(key, (-math.inf, math.inf))
                found[key] = max(begin, float(row["start_s"])), min(end, float(row["end_s"]))
    return {key: span for key, span in found.items() if span[1] - span[0] >= LEAST_COMMON_S}


def latencies(
    latency: Iterable[Row], intervals: Iterable[Row], spans: Mapping[Side, tuple[float, float]], stands_for: StandsFor
) -> list[Row]:
    """Mean and 95 % of all tuples of each run in these seconds, as rows of `measurements`. `intervals`: of the same
    side, which say whether a run was steady."""
    steady = {(row["run_id"], row["topology"] or "", row["event_id"], row["phase"]): row["steady"] for row in intervals}
    windows: dict[tuple[str, str, str], list[Row]] = {}
    for row in latency:
        if row["run_id"] in stands_for and row["mean_ms"] is not None:
            windows.setdefault((row["run_id"], row["topology"] or "", row["event_id"]), []).append(row)
    found = []
    for (run_id, topology, event_id), of_run in windows.items():
        for (real, where, event, phase), (begin, end) in spans.items():
            if (real, where, event) != (stands_for[run_id], topology, event_id):
                continue
            inside = [row for row in of_run if begin <= row["window_s"] <= end - WINDOW_S]
            of = {"run_id": run_id, "topology": topology, "event_id": event_id, "censored": False}
            of["steady"] = steady.get((run_id, topology, event_id, phase))
            found += [{**of, "metric": f"{name}_{phase}", "value": value} for name, value in _latencies(inside)]
    return found


def _latencies(windows: Sequence[Row]) -> Iterable[tuple[str, float]]:
    if tuples := sum(row["n"] for row in windows):
        yield LATENCY_MEAN, sum(row["n"] * row["mean_ms"] for row in windows) / tuples
    if windows and all(row.get("buckets") is not None for row in windows):
        highest = percentile_ms(merged((row["buckets"], row["counts"]) for row in windows), 0.95)
        if highest is not None:
            yield LATENCY_P95, highest


NOTHING = SideNumber(None, 0)


def cells_of(experiment: str, variants: Mapping[str, str], real: Values, simulated: Values) -> tuple[Cell, ...]:
    """A cell for whatever one side has. `variants`: of the real runs."""
    keys = sorted({*real, *simulated}, key=lambda key: (key[0], event_order(key[2]), key[1], JUDGED.index(key[3])))
    return tuple(
        Cell(experiment, key[0], variants[key[1]], *key[1:], real.get(key, NOTHING), simulated.get(key, NOTHING))
        for key in keys
    )


MachineKey = tuple[str, str, str, str]  # real run, event, phase, machine


def machine_cells(
    experiment: str, real: Mapping[MachineKey, float], simulated: Mapping[MachineKey, float]
) -> tuple[MachineCell, ...]:
    """Machines of workers; the simulator has no master."""
    keys = sorted({*real, *simulated}, key=lambda key: (key[0], event_order(key[1]), key[2] != "before", key[3]))
    return tuple(MachineCell(experiment, *key, real.get(key), simulated.get(key)) for key in keys)


def machine_means(paths: SeriesPaths, stands_for: StandsFor) -> dict[MachineKey, float]:
    """CPU in percent of a machine's quota, on each side of an event: the mean over the runs that stand for a real one.
    Without the master, and without machines that have not joined yet or have left."""
    cpu, events = (rows(paths, name, topology=cluster(paths)) for name in ("cpu", "scale_events"))
    absent = absent_machines(events, rows(paths, "machines"))
    values: dict[MachineKey, list[float]] = {}
    for row in cpu:
        counts = row["run_id"] in stands_for and row["event_id"] != WHOLE_RUN and row["joins_at_scale"] is not None
        gone = absent.get((row["run_id"], row["event_id"], row["phase"]), set())
        if counts and row["machine"] not in gone and row["utilisation_mean"] is not None:
            key = (stands_for[row["run_id"]], row["event_id"], row["phase"], row["machine"])
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
    real, simulated = (_means(cells, side) for side in ("real", "simulated"))
    both = sorted(set(real) & set(simulated))
    clear = [(a, b) for a, b in combinations(both, 2) if _differ(real[a], real[b], CLEARLY)]
    same = sum(
        (real[a] - real[b]) * (simulated[a] - simulated[b]) > 0 and _differ(simulated[a], simulated[b], ALIKE)
        for a, b in clear
    )
    tau = kendall_tau([real[name] for name in both], [simulated[name] for name in both])
    return Ranking(*key, _best_first(real), _best_first(simulated), tau, len(clear), same)


def _means(cells: Sequence[Cell], side: str) -> dict[str, float]:
    """Return the means of a variant's runs that both sides have; of all that this side has, where there are none."""
    found: dict[str, list[float]] = {}
    paired = {cell.variant for cell in cells if None not in (cell.real.value, cell.simulated.value)}
    for cell in cells:
        value = getattr(cell, side).value
        is_pair = None not in (cell.real.value, cell.simulated.value)
        if value is not None and (is_pair or cell.variant not in paired):
            found.setdefault(cell.variant, []).append(value)
    return {variant: fmean(values) for variant, values in found.items()}


def _differ(a: float, b: float, share: float) -> bool:
    return abs(a - b) > share * max(abs(a), abs(b))


def _best_first(values: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(values, key=lambda name: -values[name]))


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two rankings of the same things; None of fewer than two, or where `a` has no order. 0
    where only `b` has none."""
    from scipy.stats import kendalltau

    if len({*a}) < 2:
        return None
    return float(kendalltau(a, b).statistic) if len({*b}) > 1 else 0.0


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of one metric over all real runs and events that have one: sizes without their sign, the mean with it.
    `missing`: cells without an error: one side has no number, or a real one of 0. `bounds`: of these, those in which a
    side never got there. `unsteady`: cells with an error of which a run was not steady. `inside` of `ranges`: real
    values among what the simulated runs have by chance; `expected` if real runs were of the model too."""

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
    expected: float = 0.0
    bounds: int = 0
    unsteady: int = 0


def summaries(judgements: Sequence[SeriesErrors]) -> list[ErrorSummary]:
    """Return them in the order of JUDGED, then that of machines."""
    cells = [cell for each in judgements for cell in each.cells]
    found = []
    for name in JUDGED:
        mine = [cell for cell in cells if cell.metric == name]
        if mine:
            ranged = [cell for cell in mine if cell.is_inside is not None]
            errors = _errors(name, mine[0].words, "%" if mine[0].is_ratio else mine[0].unit,
                             [cell.error for cell in mine])  # fmt: skip
            found.append(replace(
                errors,
                inside=sum(bool(cell.is_inside) for cell in ranged),
                ranges=len(ranged),
                # Of n + 1 values that are alike one is as likely the least, or the most, as any other.
                expected=sum((cell.simulated.runs - 1) / (cell.simulated.runs + 1) for cell in ranged),
                bounds=sum(cell.is_bound for cell in mine),
                unsteady=sum(
                    cell.error is not None and bool(cell.real.unsteady or cell.simulated.unsteady) for cell in mine
                ),
            ))  # fmt: skip
    machines = [each for judgement in judgements for each in judgement.machines]
    if machines:
        of_machines = [None if m.real is None or m.simulated is None else m.simulated - m.real for m in machines]
        found.append(_errors(MACHINE_CPU, "CPU of each machine", "points", of_machines))
    return found


def _errors(name: str, words: str, unit: str, errors: Sequence[float | None]) -> ErrorSummary:
    known = [error for error in errors if error is not None]
    if not known:
        return ErrorSummary(name, words, unit, 0, None, None, None, len(errors))
    sizes = [abs(error) for error in known]
    return ErrorSummary(name, words, unit, len(known), median(sizes), max(sizes), fmean(known),
                        len(errors) - len(known))  # fmt: skip
