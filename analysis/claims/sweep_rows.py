"""Results of simulated sweeps for the claims about them: a number, its range over seeds, and the number
of each point; no verdict (docs/decisions/claims.md).

A paper that ran each of several clusters a few times states means over these clusters, their largest number, or how far
runs of one cluster lie apart. Here a point is a cluster and a seed is a run. A claim's number is taken seed by seed:
for each point the ratio of both variants' runs of that seed, and of these what the claim states (their mean, the lowest
or the highest). Runs of one model differ by its own noise alone, so the range over seeds is no interval.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.claims.ledger_rows import NO_VERDICT, NOT_RUN, LedgerRow, RunValue, percent_over, ratio_of
from analysis.claims.measured_rows import PUBLISHED_RUNS, best_of_three
from analysis.claims.rules import BY_TRAFFIC, RESCHEDULED, moved_text
from analysis.claims.statements import RATIOS, SPREADS, Claim, ClaimKind
from analysis.errors import RecordError
from analysis.numerals import number
from analysis.record import small_tables
from analysis.record.event_timeline import event_id_of
from analysis.record.files import SeriesPaths, experiment_of, read_json
from analysis.record.small_tables import rows
from analysis.record.sweep_record import (
    OTHER_CODE,
    SWEEP_FILE,
    Values,
    is_mixed,
    measurements,
    point_of,
    split_values,
)

OVER: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "lowest": min, "highest": max}
Seed = tuple[Values, int]  # the swept seeds of a point, and the repetition
OfSeeds = Mapping[Seed, RunValue]
# Columns that are read from a sweep's tables.
NEEDED = {
    "runs": ("run_id", "variant", "status", "repetition"),
    "measurements": ("run_id", "topology", "metric", "value", "censored", "steady"),
}


@dataclass(frozen=True)
class SweepRuns:
    """Complete runs of a sweep: variant, metric, event -> point -> seed -> value. `points`: all of its file, in its
    order, also those without a complete run. `by_traffic`: variants whose policy is one of BY_TRAFFIC. `remarks`:
    what no reader may overlook."""

    name: str
    sweep_id: str
    points: Sequence[Values]
    values: Mapping[tuple[str, str, str], Mapping[Values, OfSeeds]]
    by_traffic: frozenset[str] = frozenset()
    remarks: str = ""

    @property
    def words(self) -> str:
        """Return the beginning of a row's reason."""
        return f"simulated, {self.sweep_id}{f' ({self.remarks})' if self.remarks else ''}"

    def about(self, claim: Claim) -> list[Values]:
        return [point for point in self.points if _is_about(claim, point)]

    def of(self, variant: str | None, metric: str, event: str) -> Mapping[Values, OfSeeds]:
        return self.values.get((variant or "", metric, event), {})


def read(paths: SeriesPaths, metrics: Collection[str]) -> SweepRuns:
    """Return these metrics of an analysed sweep, and where anything moved. Raises RecordError for a damaged one."""
    document = read_json(paths.root / SWEEP_FILE)
    small_tables.check(paths, NEEDED)
    points = [split_values(point["values"]) for point in document["points"]]
    runs = {run["run_id"]: run for run in rows(paths, "runs") if run["status"] == "complete"}
    values_by_key: dict[tuple[str, str, str], dict[Values, dict[Seed, RunValue]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for row in sorted(measurements(paths), key=lambda row: str(row["run_id"])):
        run = runs.get(row["run_id"])
        if run is not None and row["metric"] in (*metrics, RESCHEDULED):
            fields, seeds = points[point_of(row["run_id"]) - 1]
            value = RunValue(row["run_id"], row["value"], row["censored"], steady=row["steady"])
            values_by_key[run["variant"], row["metric"], event_id_of(row)][fields][
                seeds, int(run["repetition"] or 1)
            ] = value
    fields_of_points = tuple(dict.fromkeys(fields for fields, _ in points))
    values = {key: dict(by_point) for key, by_point in values_by_key.items()}
    by_traffic = frozenset(run["variant"] for run in runs.values() if run.get("policy") in BY_TRAFFIC)
    return SweepRuns(
        document["experiment"], paths.root.name, fields_of_points, values, by_traffic, _remarks(document, len(runs))
    )


def _remarks(document: Mapping[str, Any], runs: int) -> str:
    failed = len({row["point"] for row in document.get("failures", ())})
    code_counts = document.get(OTHER_CODE, {})
    return "; ".join([
        *([f"{failed} of {len(document['points'])} points failed"] if failed else []),
        *([f"{sum(code_counts.values())} of {runs} runs are of other code"] if is_mixed(code_counts, runs) else []),
    ])  # fmt: skip


def with_sweeps(ledger: Iterable[LedgerRow], folders: Sequence[Path]) -> list[LedgerRow]:
    """Return the ledger with the results of these sweeps for the claims about them, or the reason why one cannot be
    read."""
    ledger_list = list(ledger)
    metrics = {
        name for row in ledger_list if row.claim.simulated for name in (row.claim.metric, row.claim.best_by) if name
    }
    sweeps: dict[str, SweepRuns] = {}
    errors: dict[str, str] = {}
    for folder in sorted(folders):
        try:
            sweep = read(SeriesPaths(folder), metrics)
        except RecordError as error:
            errors[experiment_of(folder)] = str(error)
        else:
            sweeps[sweep.name] = sweep
    return [_with_sweep(row, sweeps, errors) if row.claim.simulated else row for row in ledger_list]


def _with_sweep(row: LedgerRow, sweeps: Mapping[str, SweepRuns], damaged: Mapping[str, str]) -> LedgerRow:
    name = row.claim.experiment
    if name in sweeps:
        return sweep_row(row.claim, sweeps[name])
    return replace(row, reason=damaged[name]) if name in damaged else row


def row_without_sweep(claim: Claim) -> LedgerRow:
    reason = f"no sweep of {claim.experiment} is analysed here: barograph sweep {claim.experiment}"
    return LedgerRow(claim, None, None, None, 0, NOT_RUN, reason, ())


def sweep_row(claim: Claim, sweep: SweepRuns) -> LedgerRow:
    """Return the row; `low` and `high` are of the seeds, or for a spread of the points."""
    numbers = _numbers(claim, sweep)
    if isinstance(numbers, str):
        return LedgerRow(claim, None, None, None, 0, NOT_RUN, f"{sweep.words}: {numbers}", ())
    each = [_spread(by_seed) for by_seed in numbers.values()] if claim.kind in SPREADS else _by_seed(claim, numbers)
    best = _best_of_three(claim, sweep)
    notes = [
        f"{sweep.words}: {_points_text(claim, numbers)}",
        "" if best is None else f"the best of the first three seeds, as published: {_text(claim, best)}",
        _unsteady_text(claim, sweep),
        _moved_text(claim, sweep),
    ]
    middle = max(each) if claim.kind is ClaimKind.LARGEST_SPREAD else fmean(each)
    seeds = min(len(by_seed) for by_seed in numbers.values())
    reason = "; ".join(filter(None, notes))
    return LedgerRow(claim, middle, min(each), max(each), seeds, NO_VERDICT, reason, (), best_of_three=best)


Numbers = Mapping[Values, Mapping[Seed, float]]


def _numbers(claim: Claim, sweep: SweepRuns) -> Numbers | str:
    """Return the numbers of each of the claim's points and of each seed; or why there are none: a statement about all
    points is no number of the remaining ones, nor one about times of those runs that were short enough to be seen.
    Except for spreads they are of the seeds that all points have."""
    runs_of_variant = sweep.of(claim.variant, claim.metric, claim.event)
    other = sweep.of(claim.baseline, claim.metric, claim.event)
    points = sweep.about(claim)
    if not any(point in runs_of_variant for point in points):
        place = ", ".join(f"{path} of {', '.join(runs)}" for path, runs in claim.points)
        return f"no complete run of {claim.variant} measured {claim.metric}{f' at {place}' if place else ''}"
    if gaps := _absent(claim, points):
        return f"the sweep has no point with {', '.join(gaps)}"
    values, count = {point: runs_of_variant.get(point, {}) for point in points}, 1
    if claim.kind in SPREADS:  # as many runs as the source had: with more they lie further apart
        count = PUBLISHED_RUNS
        values = {
            point: {seed: runs[seed] for seed in sorted(runs, key=_order)[:count]} for point, runs in values.items()
        }
    other_runs = {
        point: {seed: run for seed, run in other.get(point, {}).items() if seed in values[point]} for point in points
    }
    if message := _unreached_text(claim, {p: [*values[p].values(), *other_runs[p].values()] for p in points}):
        return message
    result = {
        point: {
            seed: one for seed, value in runs.items()
            if (one := _number(claim, value, other_runs[point].get(seed))) is not None
        }
        for point, runs in values.items()
    }  # fmt: skip
    scarce = [_point_text(claim, point) for point, runs in result.items() if len(runs) < count]
    if scarce:
        return f"too few seeds at {', '.join(scarce)}"
    return result if claim.kind in SPREADS else _of_common_seeds(result)


def _unreached_text(claim: Claim, runs: Mapping[Values, Sequence[RunValue]]) -> str:
    """Return which points have runs whose value is the end of their watch; empty if none has."""
    counts = {point: sum(value.censored for value in values) for point, values in runs.items()}
    parts = [f"{number} of {len(runs[point])} runs at {_point_text(claim, point)}"
             for point, number in counts.items() if number]  # fmt: skip
    return f"longer than was watched, so only larger than a number: {', '.join(parts)}" if parts else ""


def _of_common_seeds(found: Numbers) -> Numbers | str:
    """Keep only seeds that every point has."""
    seeds = set.intersection(*(set(by_seed) for by_seed in found.values()))
    if not seeds:
        return "no seed has a number at every point"
    return {
        point: {seed: value for seed, value in by_seed.items() if seed in seeds} for point, by_seed in found.items()
    }


def _order(seed: Seed) -> Any:
    """Return a key that sorts by number: 2 before 10."""
    fields, repetition = seed
    return [json.loads(text) for _, text in fields], repetition


def _absent(claim: Claim, about: Sequence[Values]) -> list[str]:
    """Return values that the claim names and no point has."""
    pairs = {pair for point in about for pair in point}
    return [f"{path} {value}" for path, texts in claim.points for value in texts if (path, value) not in pairs]


def _is_about(claim: Claim, point: Values) -> bool:
    fields = dict(point)
    return all(fields.get(path) in texts for path, texts in claim.points)


def _number(claim: Claim, own: RunValue, other: RunValue | None) -> float | None:
    if claim.kind not in RATIOS:
        return own.value
    return None if other is None else ratio_of(own, other)


def _by_seed(claim: Claim, numbers: Numbers) -> list[float]:
    """Return the stated number of the points, seed by seed."""
    seeds = sorted(next(iter(numbers.values())))
    return [OVER[claim.over]([by_seed[seed] for by_seed in numbers.values()]) for seed in seeds]


def _spread(of_seeds: Mapping[Seed, float]) -> float:
    """Return the range of a point's first three seeds, in percent of their mean."""
    values = list(of_seeds.values())
    return 100.0 * (max(values) - min(values)) / fmean(values) if max(values) > min(values) else 0.0


def _best_of_three(claim: Claim, sweep: SweepRuns) -> float | None:
    """Return the number as MP took it: for each point the best run of either side by throughput, over all points the
    stated one."""
    if claim.best_by is None or claim.kind not in RATIOS:
        return None
    sides = []
    for variant in (claim.variant, claim.baseline):
        values, ranks = (sweep.of(variant, metric, claim.event) for metric in (claim.metric, claim.best_by))
        side = {}
        for point in sweep.about(claim):
            runs, rank_runs = values.get(point, {}), ranks.get(point, {})
            seeds = sorted({*runs, *rank_runs}, key=_order)
            side[point] = best_of_three(_in_blocks(runs, seeds), _in_blocks(rank_runs, seeds))
        sides.append(side)
    top, other = sides
    pairs = [(top[point], other[point]) for point in top]
    percents = [percent_over(one, two) for one, two in pairs if one is not None and two is not None and two > 0.0]
    return OVER[claim.over](percents) if percents and len(percents) == len(pairs) else None


def _in_blocks(of_seeds: OfSeeds, seeds: Sequence[Seed]) -> list[RunValue]:
    """Return values with a block for each seed and repetition; `seeds`: all of the point, in order."""
    return [replace(value, block=("", seeds.index(seed))) for seed, value in of_seeds.items()]


# --- words ------------------------------------------------------------------------------------------------------------


def _points_text(claim: Claim, numbers: Numbers) -> str:
    """Return `machines.before 10: −42.0, 20: −35.1`, for each point the mean, or its spread."""
    each = {p: _spread(by_seed) if claim.kind in SPREADS else fmean(by_seed.values()) for p, by_seed in numbers.items()}
    return ", ".join(f"{_point_text(claim, point)}: {_text(claim, value)}" for point, value in each.items())


def _point_text(claim: Claim, point: Values) -> str:
    """Return the value of the first swept field; the others follow it, or are in the file."""
    return f"{point[0][0].rpartition('.')[2]} {point[0][1]}" if point else claim.experiment


def _text(claim: Claim, value: float) -> str:
    return number(value, 1, signed=claim.is_signed)


def _unsteady_text(claim: Claim, sweep: SweepRuns) -> str:
    values: list[Any] = [
        value
        for variant in (claim.variant, claim.baseline) if variant
        for point, runs in sweep.of(variant, claim.metric, claim.event).items() if _is_about(claim, point)
        for value in runs.values()
    ]  # fmt: skip
    count = sum(value.steady is False for value in values)
    return f"{count} of {len(values)} runs were not steady" if count else ""


def _moved_text(claim: Claim, sweep: SweepRuns) -> str:
    names = [name for name in claim.variants if name in sweep.by_traffic]
    return moved_text({
        name: [
            value
            for point, runs in sweep.of(name, RESCHEDULED, claim.event).items() if _is_about(claim, point)
            for value in runs.values()
        ]
        for name in names
    })  # fmt: skip
