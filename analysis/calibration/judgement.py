"""Simulated runs beside their real one: every metric, its error, and the ranking of the variants.

A number that one side does not have is None, and has no error. A time that a run never reached is a bound (the horizon,
or how long it lasted until then), and an error is given only if both sides reached theirs. Latencies are of the
seconds that count on both sides: if queues grow, other seconds have other latencies.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from statistics import fmean, median

from analysis.metrics.definitions import JUDGED, DifferenceKind, metric
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import WHOLE_RUN, absent_machines, event_order
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, cluster, rows, unit_of
from analysis.stats.effect import summary
from scheduler_plugins.service.latency_buckets import merged, percentile_ms

RANKED = "throughput_after"
CLEARLY = 0.05  # of the larger: difference that two variants need in reality to be ranked at all
ALIKE = 0.005  # of the larger: simulated levels that lie nearer to one another have no order
LATENCY_MEAN, LATENCY_P95 = "latency_mean_ms", "latency_all_p95_ms"
LEAST_COMMON_S = 30.0  # that count on both sides; with less there is no latency
# Beside the metrics: of each machine, in points of its quota.
MACHINE_CPU = "machine_cpu_points"


@dataclass(frozen=True)
class SideNumber:
    """Number of a real run, or over its simulated ones. `censored`: half of them or more never got
    there, and `value` is a bound. `low` to `high`: of these runs; `high` None: one never got there. `unsteady`: runs of
    these that were not steady on a side that the metric rests on."""

    value: float | None
    runs: int
    censored: bool = False
    low: float | None = None
    high: float | None = None
    unsteady: int = 0


@dataclass(frozen=True)
class ModelError:
    """A metric of one real run at one event. `error`: in percent of the real value if the metric is a ratio's,
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
        real, model = self.real.value, self.simulated.value
        if real is None or model is None or self.real.censored or self.simulated.censored:
            return None
        if not self.is_ratio:
            return model - real
        return 100.0 * (model / real - 1.0) if real else None

    @property
    def is_inside(self) -> bool | None:
        """Return whether the real value lies in the range of chance of the simulated runs; None with fewer than
        three."""
        real, model = self.real, self.simulated
        if real.value is None or model.value is None or model.runs < 3:
            return None
        if real.censored:
            return model.high is None
        if model.low is None:  # none of them got there
            return False
        return model.low <= real.value and (model.high is None or real.value <= model.high)

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
    sides have; None with fewer than two, or if they are equal in reality. `clear_pairs`: pairs that differ by CLEARLY
    in reality; `same_pairs`: of them, those that differ by ALIKE in the same order."""

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
    """The errors of simulated runs against the real ones of one series. `runs`: complete real ones. `missing`: by run,
    why it has no simulated counterpart. `failed_seeds`: how many of a run's seeds could not be simulated, and why, if
    others could."""

    experiment: str
    series_id: str
    cells: tuple[ModelError, ...]
    machines: tuple[MachineCell, ...]
    rankings: tuple[Ranking, ...]
    runs: int
    missing: Mapping[str, str]
    failed_seeds: Mapping[str, str] = field(default_factory=dict)

    @property
    def judged_runs(self) -> int:
        return self.runs - len(self.missing)


Reader = Callable[[str], list[Row]]
StandsFor = Mapping[str, str]  # run -> its real run; a real one maps to itself


def judge(
    real: SeriesPaths, simulated: SeriesPaths, missing: Mapping[str, str], failed_seeds: Mapping[str, str],
    seeds: int = 1,
) -> SeriesErrors:  # fmt: skip
    """Judge; both have been analysed. Each real run has `seeds` simulated ones, with different seeds."""
    table = rows(real, "runs")
    experiment = next((row["experiment"] for row in table if row["experiment"]), real.root.parent.name)
    runs = complete(table)
    identity = {row["run_id"]: row["run_id"] for row in runs}
    sides = (
        (partial(rows, real), identity),
        (partial(rows, simulated), counterparts(runs, rows(simulated, "runs"), seeds)),
    )
    cells = cells_of(experiment, {row["run_id"]: row["variant"] for row in runs}, *values_of_sides(sides))
    return SeriesErrors(
        experiment=experiment,
        series_id=real.root.name,
        cells=cells,
        machines=machine_cells(experiment, machine_means(real, identity), machine_means(simulated, sides[1][1])),
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
    keys = {row["run_id"]: (row["variant"], 1 + (int(row["repetition"]) - 1) // seeds) for row in complete(simulated)}
    return {run: runs[key] for run, key in keys.items() if key in runs}


Key = tuple[str, str, str, str]  # topology, real run, event, metric
Values = Mapping[Key, SideNumber]


def values_of_sides(sides: Sequence[tuple[Reader, StandsFor]]) -> list[dict[Key, SideNumber]]:
    """Return the values of each side, with its latencies over the seconds that count on both."""
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
    """Return the values of rows of `measurements`."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in measured:
        if row["run_id"] in stands_for and row["metric"] in JUDGED:
            key = (row["topology"] or "", stands_for[row["run_id"]], row["event_id"], row["metric"])
            groups[key].append(row)
    return {key: over_runs(key[3], of_key) for key, of_key in groups.items()}


def over_runs(name: str, of_runs: Sequence[Row]) -> SideNumber:
    """Return the mean; for times that may be cut off the median, in which a run that never got there is longer."""
    values, censored = [float(row["value"]) for row in of_runs], [bool(row["censored"]) for row in of_runs]
    count = sum(row.get("steady") is False for row in of_runs)
    total = summary(values, censored, mean=not metric(name).bounded, unsteady=count)
    low = min((value for value, is_censored in zip(values, censored, strict=True) if not is_censored), default=None)
    is_censored = total.value is None
    return SideNumber(total.largest if is_censored else total.value, total.runs, is_censored, low, total.high, count)


Side = tuple[str, str, str, str]  # real run, topology, event, side of it


def common_spans(sides: Iterable[tuple[Iterable[Row], StandsFor]]) -> dict[Side, tuple[float, float]]:
    """Return from when to when (s after the event) a side of an event counts in a real run and in all its simulated
    ones: rows of `intervals`, at least LEAST_COMMON_S long."""
    spans: dict[Side, tuple[float, float]] = {}
    for intervals, stands_for in sides:
        for row in intervals:
            if row["run_id"] in stands_for:
                key = (stands_for[row["run_id"]], row["topology"] or "", row["event_id"], row["phase"])
                begin, end = spans.get(key, (-math.inf, math.inf))
                spans[key] = max(begin, float(row["start_s"])), min(end, float(row["end_s"]))
    return {key: span for key, span in spans.items() if span[1] - span[0] >= LEAST_COMMON_S}


def latencies(
    latency: Iterable[Row], intervals: Iterable[Row], spans: Mapping[Side, tuple[float, float]], stands_for: StandsFor
) -> list[Row]:
    """Return mean and 95 % of all tuples of each run in these seconds, as rows of `measurements`. `intervals`: of the
    same side, which say whether a run was steady."""
    steady = {(row["run_id"], row["topology"] or "", row["event_id"], row["phase"]): row["steady"] for row in intervals}
    windows: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in latency:
        if row["run_id"] in stands_for and row["mean_ms"] is not None:
            windows[row["run_id"], row["topology"] or "", row["event_id"]].append(row)
    rows = []
    for (run_id, topology, event_id), of_run in windows.items():
        for (real, place, event, phase), (begin, end) in spans.items():
            selection = [row for row in of_run if begin <= row["window_s"] <= end - WINDOW_S]
            if (real, place, event) != (stands_for[run_id], topology, event_id) or not selection:
                continue
            values: dict[str, float | None] = {}
            if tuples := sum(row["n"] for row in selection):
                values[LATENCY_MEAN] = sum(row["n"] * row["mean_ms"] for row in selection) / tuples
            if all(row.get("buckets") is not None for row in selection):
                histogram = merged((row["buckets"], row["counts"]) for row in selection)
                values[LATENCY_P95] = percentile_ms(histogram, 0.95)
            fields = {"run_id": run_id, "topology": topology, "event_id": event_id, "censored": False,
                      "steady": steady.get((run_id, topology, event_id, phase))}  # fmt: skip
            rows += [
                {**fields, "metric": f"{name}_{phase}", "value": value}
                for name, value in values.items()
                if value is not None
            ]
    return rows


NOTHING = SideNumber(None, 0)


def cells_of(experiment: str, variants: Mapping[str, str], real: Values, simulated: Values) -> tuple[ModelError, ...]:
    """Return a cell for each value that one side has. `variants`: of the real runs."""
    keys = sorted({*real, *simulated}, key=lambda key: (key[0], event_order(key[2]), key[1], JUDGED.index(key[3])))
    return tuple(
        ModelError(experiment, key[0], variants[key[1]], *key[1:], real.get(key, NOTHING), simulated.get(key, NOTHING))
        for key in keys
    )


MachineKey = tuple[str, str, str, str]  # real run, event, phase, machine


def machine_cells(
    experiment: str, real: Mapping[MachineKey, float], simulated: Mapping[MachineKey, float]
) -> tuple[MachineCell, ...]:
    """Return the cells of workers' machines; the simulator has no master."""
    keys = sorted({*real, *simulated}, key=lambda key: (key[0], event_order(key[1]), key[2] != "before", key[3]))
    return tuple(MachineCell(experiment, *key, real.get(key), simulated.get(key)) for key in keys)


def machine_means(paths: SeriesPaths, stands_for: StandsFor) -> dict[MachineKey, float]:
    """Return CPU in percent of a machine's quota, on each side of an event: the mean over the simulated runs of a real
    one. Without the master, and without machines that have not joined yet or have left."""
    cpu, events = (rows(paths, name, topology=cluster(paths)) for name in ("cpu", "scale_events"))
    absences = absent_machines(events, rows(paths, "machines"))
    values: dict[MachineKey, list[float]] = defaultdict(list)
    for row in cpu:
        counts = row["run_id"] in stands_for and row["event_id"] != WHOLE_RUN and row["joins_at_scale"] is not None
        absentees = absences.get((unit_of(row), row["event_id"], row["phase"]), set())
        if counts and row["machine"] not in absentees and row["utilisation_mean"] is not None:
            key = (stands_for[row["run_id"]], row["event_id"], row["phase"], row["machine"])
            values[key].append(100.0 * row["utilisation_mean"])
    return {key: fmean(of_key) for key, of_key in values.items()}


def rankings(cells: Sequence[ModelError]) -> tuple[Ranking, ...]:
    """Return one ranking a topology and event."""
    groups: dict[tuple[str, str, str], list[ModelError]] = defaultdict(list)
    for cell in cells:
        if cell.metric == RANKED and cell.event_id != WHOLE_RUN:
            groups[cell.experiment, cell.topology, cell.event_id].append(cell)
    return tuple(_ranking(key, group) for key, group in groups.items())


def _ranking(key: tuple[str, str, str], cells: Sequence[ModelError]) -> Ranking:
    """Rank by the means of a variant's runs that both sides have; if there are none, of all that a side has."""
    paired = {cell.variant for cell in cells if None not in (cell.real.value, cell.simulated.value)}
    values: dict[str, dict[str, list[float]]] = {"real": defaultdict(list), "simulated": defaultdict(list)}
    for cell in cells:
        for side, value in (("real", cell.real.value), ("simulated", cell.simulated.value)):
            is_pair = None not in (cell.real.value, cell.simulated.value)
            if value is not None and (is_pair or cell.variant not in paired):
                values[side][cell.variant].append(value)
    real, simulation = ({name: fmean(of) for name, of in by_variant.items()} for by_variant in values.values())
    names = sorted(set(real) & set(simulation))
    pairs = [(a, b) for a, b in combinations(names, 2) if _differ(real[a], real[b], CLEARLY)]
    agreements = sum(
        (real[a] - real[b]) * (simulation[a] - simulation[b]) > 0 and _differ(simulation[a], simulation[b], ALIKE)
        for a, b in pairs
    )
    tau = kendall_tau([real[name] for name in names], [simulation[name] for name in names])
    best_first = [tuple(sorted(side, key=side.__getitem__, reverse=True)) for side in (real, simulation)]
    return Ranking(*key, best_first[0], best_first[1], tau, len(pairs), agreements)


def _differ(a: float, b: float, share: float) -> bool:
    return abs(a - b) > share * max(abs(a), abs(b))


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two rankings of the same things; None with fewer than two, or if `a` has no order. 0
    if only `b` has none."""
    from scipy.stats import kendalltau

    if len({*a}) < 2:
        return None
    return float(kendalltau(a, b).statistic) if len({*b}) > 1 else 0.0


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of one metric over all real runs and events that have one: sizes without their sign, the mean with it.
    `missing`: cells without an error: one side has no number, or a real one of 0. `bounds`: of these, those in which a
    side never got there. `unsteady`: cells with an error of which a run was not steady. `inside` of `ranges`: real
    values in the range of the simulated runs; `expected` if real runs followed the model too."""

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
    """Return the summaries in the order of JUDGED, then that of machines."""
    cells = [cell for each in judgements for cell in each.cells]
    result = []
    for name in JUDGED:
        group = [cell for cell in cells if cell.metric == name]
        if group:
            testable = [cell for cell in group if cell.is_inside is not None]
            errors = _errors(name, group[0].words, "%" if group[0].is_ratio else group[0].unit,
                             [cell.error for cell in group])  # fmt: skip
            result.append(replace(
                errors,
                inside=sum(bool(cell.is_inside) for cell in testable),
                ranges=len(testable),
                # Of n + 1 exchangeable values each is equally likely to be the least, or the most.
                expected=sum((cell.simulated.runs - 1) / (cell.simulated.runs + 1) for cell in testable),
                bounds=sum(cell.is_bound for cell in group),
                unsteady=sum(
                    cell.error is not None and bool(cell.real.unsteady or cell.simulated.unsteady) for cell in group
                ),
            ))  # fmt: skip
    machines = [each for judgement in judgements for each in judgement.machines]
    if machines:
        of_machines = [None if m.real is None or m.simulated is None else m.simulated - m.real for m in machines]
        result.append(_errors(MACHINE_CPU, "CPU of each machine", "points", of_machines))
    return result


def _errors(name: str, words: str, unit: str, errors: Sequence[float | None]) -> ErrorSummary:
    numbers = [error for error in errors if error is not None]
    if not numbers:
        return ErrorSummary(name, words, unit, 0, None, None, None, len(errors))
    sizes = [abs(error) for error in numbers]
    return ErrorSummary(name, words, unit, len(numbers), median(sizes), max(sizes), fmean(numbers),
                        len(errors) - len(numbers))  # fmt: skip
