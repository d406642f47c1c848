"""The simulator's results for each claim: its number, the range over seeds, and what can come out; no verdict
(docs/decisions/claims.md). Pure, but for `read_sweep` and `with_sweeps`.

Runs of one model differ by its own noise alone. An interval over them can be made as narrow as desired, and says
nothing about the distance of the model from Storm: that is for calibrations to say (docs/simulator.md).

A paper that ran each of several clusters a few times states means over these clusters, their largest number, or how far
runs of one cluster lie apart. In a sweep a point is a cluster and a seed is a run. A claim's number is taken seed by
seed: for each point the ratio of both variants' runs of that seed, and of these what the claim states (their mean, the
lowest or the highest).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.claims import limitations, measured_rows, rules
from analysis.claims.exact import judge_exact
from analysis.claims.measured_rows import PUBLISHED_RUNS, best_of_three
from analysis.claims.rows import (  # fmt: skip
    NO_VERDICT,
    NOT_RUN,
    LedgerRow,
    RunValue,
    SeriesConditions,
    failed_note,
    percent_over,
    ratio_of,
)
from analysis.claims.rules import BY_TRAFFIC, RESCHEDULED, moved_text
from analysis.claims.statements import RATIOS, SPREADS, Claim, ClaimKind
from analysis.errors import RecordError
from analysis.numerals import number
from analysis.record import small_tables
from analysis.record.event_timeline import WHOLE_RUN
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


def simulated_rows(claims: Sequence[Claim], measured: SeriesConditions) -> list[LedgerRow]:
    """Return a row a claim, in their order. `low` and `high` are the smallest and the largest number of a seed; a
    computation keeps its verdict, because it rests on no run."""
    rows_by_name = {
        claim.name: simulated_row(claim, measured) for claim in claims if claim.kind not in rules.DERIVED_KINDS
    }
    for claim in claims:
        if claim.kind in rules.DERIVED_KINDS:
            sources = [rows_by_name[name] for name in claim.of]
            row = rules.derived_numbers(claim, sources)
            if row.verdict != NOT_RUN:
                experiments = measured.for_claim(claim).experiments
                reason = limitations.reason_derived(claim, [each.claim for each in sources], experiments)
                gaps = [each.claim.name for each in sources if each.measured is None]
                notes = [row.reason, f"no number of {', '.join(gaps)}" if gaps else "", reason or ""]
                row = replace(row, verdict=NO_VERDICT, reason="; ".join(filter(None, notes)))
            rows_by_name[claim.name] = row
    return [rows_by_name[claim.name] for claim in claims]


def simulated_row(claim: Claim, measured: SeriesConditions) -> LedgerRow:
    """Return the row of a claim that does not follow from others."""
    if claim.kind is ClaimKind.EXACT:
        return judge_exact(claim)
    measured = measured.for_claim(claim)
    row = measured_rows.measured_row(claim, measured)
    if row.verdict == NOT_RUN:
        return row
    numbers = numbers_of_seeds(claim, measured)
    sides = {name: measured.of(claim, name) for name in (claim.variant, claim.baseline) if name}
    basis = row.reason if row.measured is None else ""  # why there is no range
    if any(value.censored for values in sides.values() for value in values):
        basis = "; ".join(f"{name}: {measured_rows.times_text(values)}" for name, values in sides.items())
    elif claim.kind is ClaimKind.ONLY:
        levels = {name: measured.of(claim, name) for name in claim.variants}
        basis = f"in order: {measured_rows.ranking_text(levels)}"
    experiments = measured.experiments.get(claim.experiment, ())
    notes = [
        basis,
        f"{row.unsteady} of {len(row.run_ids)} runs were not steady" if row.unsteady else "",
        failed_note(claim, measured),
        rules.moved_note(claim, measured),
        *dict.fromkeys(limitations.possible_words(claim, each) for each in experiments),
    ]
    return replace(
        row, low=min(numbers, default=None), high=max(numbers, default=None), verdict=NO_VERDICT,
        reason="; ".join(filter(None, notes)), estimate=None, p=None, direction=None, checks=False,
    )  # fmt: skip


def numbers_of_seeds(claim: Claim, measured: SeriesConditions) -> list[float]:
    """Return one number a seed, in the claim's unit: a block has one seed, which all of its variants share. None if a
    run of any seed never got there: the others would be the quick ones."""
    variant_values = measured.of(claim, claim.variant)
    if claim.kind is ClaimKind.ADDED_AT_LEAST:
        additions = measured_rows.added_in_blocks(claim, measured)
        sides = list(zip(additions.variant, additions.baseline, strict=True))
        return [percent_over(one, other) for one, other in sides] if min(additions.baseline, default=0.0) > 0.0 else []
    if claim.kind not in RATIOS:
        return [] if any(value.censored for value in variant_values) else [value.value for value in variant_values]
    pairs = measured_rows.pairs_of_blocks(variant_values, measured.of(claim, claim.baseline))
    ratios = [ratio for one, other in pairs if (ratio := ratio_of(one, other)) is not None]
    return ratios if len(ratios) == len(pairs) else []


# --- sweeps ----------------------------------------------------------------------------------------------------------

OVER: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": fmean, "lowest": min, "highest": max}
DEMAND = "demand"  # metric of claims about a search's result, with the event e0
Seed = tuple[Values, int]  # the swept seeds of a point, and the repetition
OfSeeds = Mapping[Seed, RunValue]
# Columns that are read from a sweep's tables.
SWEEP_COLUMNS = {
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


def read_sweep(paths: SeriesPaths, metrics: Collection[str]) -> SweepRuns:
    """Return these metrics of an analysed sweep, and where anything moved. Raises RecordError for a damaged one."""
    document = read_json(paths.root / SWEEP_FILE)
    small_tables.check(paths, SWEEP_COLUMNS)
    points = [split_values(point["values"]) for point in document["points"]]
    runs = {run["run_id"]: run for run in rows(paths, "runs") if run["status"] == "complete"}
    values: dict[tuple[str, str, str], dict[Values, dict[Seed, RunValue]]] = defaultdict(lambda: defaultdict(dict))
    for row in sorted(measurements(paths), key=lambda row: str(row["run_id"])):
        run = runs.get(row["run_id"])
        if run is not None and row["metric"] in (*metrics, RESCHEDULED):
            fields, seeds = points[point_of(row["run_id"]) - 1]
            value = RunValue(row["run_id"], row["value"], row["censored"], steady=row["steady"])
            seed = seeds, int(run["repetition"] or 1)
            values[run["variant"], row["metric"], row["event_id"]][fields][seed] = value
    fields_of_points = tuple(dict.fromkeys(fields for fields, _ in points))
    if results := document.get("search", {}).get("results"):  # points are the combinations that were searched
        fields_of_points = tuple(dict.fromkeys(split_values(result["fields"])[0] for result in results))
        values = defaultdict(lambda: defaultdict(dict))
        for result in (each for each in results if each["value"] is not None):
            fields = split_values(result["fields"])[0]
            values[result["variant"], DEMAND, WHOLE_RUN][fields][(), 1] = RunValue("", result["value"])
    failed = len({row["point"] for row in document.get("failures", ())})
    code_counts = document.get(OTHER_CODE, {})
    remarks = [f"{failed} of {len(document['points'])} points failed"] if failed else []
    if is_mixed(code_counts, len(runs)):
        remarks.append(f"{sum(code_counts.values())} of {len(runs)} runs are of other code")
    remarks += [result["sentence"] for result in results or ()]
    by_traffic = frozenset(run["variant"] for run in runs.values() if run.get("policy") in BY_TRAFFIC)
    return SweepRuns(document["experiment"], paths.root.name, fields_of_points, values, by_traffic, "; ".join(remarks))


def with_sweeps(ledger: Iterable[LedgerRow], folders: Sequence[Path]) -> list[LedgerRow]:
    """Return the ledger with the results of these sweeps for the claims about them, or the reason why one cannot be
    read."""
    ledger_list = list(ledger)
    claims = [row.claim for row in ledger_list if row.claim.simulated]
    metrics = {name for claim in claims for name in (claim.metric, claim.best_by) if name}
    sweeps: dict[str, SweepRuns | str] = {}
    for folder in sorted(folders):
        try:
            sweep = read_sweep(SeriesPaths(folder), metrics)
        except RecordError as error:
            sweeps.setdefault(experiment_of(folder), str(error))
        else:
            sweeps[sweep.name] = sweep

    def with_sweep(row: LedgerRow) -> LedgerRow:
        runs = sweeps.get(row.claim.experiment, "") if row.claim.simulated else ""
        if isinstance(runs, SweepRuns):
            return sweep_row(row.claim, runs)
        return replace(row, reason=runs) if runs else row

    return list(map(with_sweep, ledger_list))


def row_without_sweep(claim: Claim) -> LedgerRow:
    reason = f"no sweep of {claim.experiment} is analysed here: barograph sweep {claim.experiment}"
    return LedgerRow(claim, None, None, None, 0, NOT_RUN, reason, ())


def sweep_row(claim: Claim, sweep: SweepRuns) -> LedgerRow:
    """Return the row; `low` and `high` are of the seeds, or for a spread of the points."""
    numbers = _numbers(claim, sweep)
    if isinstance(numbers, str):
        return LedgerRow(claim, None, None, None, 0, NOT_RUN, f"{sweep.words}: {numbers}", ())
    if claim.kind in SPREADS:
        each = [_spread(by_seed) for by_seed in numbers.values()]
    else:
        seeds = sorted(next(iter(numbers.values())))  # all points have the same
        each = [OVER[claim.over]([by_seed[seed] for by_seed in numbers.values()]) for seed in seeds]
    best = _best_of_three(claim, sweep)
    notes = [
        f"{sweep.words}: {_points_text(claim, numbers)}",
        "" if best is None else f"the best of the first three seeds, as published: {_text(claim, best)}",
        _unsteady_text(claim, sweep),
        moved_text(
            {
                name: _values_about(claim, sweep.of(name, RESCHEDULED, claim.event))
                for name in claim.variants
                if name in sweep.by_traffic
            }
        ),
    ]
    middle = max(each) if claim.kind is ClaimKind.LARGEST_SPREAD else fmean(each)
    fewest = min(len(by_seed) for by_seed in numbers.values())
    reason = "; ".join(filter(None, notes))
    return LedgerRow(claim, middle, min(each), max(each), fewest, NO_VERDICT, reason, (), best_of_three=best)


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
    pairs = {pair for point in points for pair in point}
    if gaps := [f"{path} {value}" for path, texts in claim.points for value in texts if (path, value) not in pairs]:
        return f"the sweep has no point with {', '.join(gaps)}"
    is_spread, result, unreached = claim.kind in SPREADS, dict[Values, dict[Seed, float]](), []
    for point in points:
        runs = runs_of_variant.get(point, {})
        if is_spread:  # as many runs as the source had: with more they lie further apart
            runs = {seed: runs[seed] for seed in sorted(runs, key=_order)[:PUBLISHED_RUNS]}
        other_runs = {seed: run for seed, run in other.get(point, {}).items() if seed in runs}
        values = [*runs.values(), *other_runs.values()]
        if censored := sum(value.censored for value in values):
            unreached.append(f"{censored} of {len(values)} runs at {_point_text(claim, point)}")
        numbers = {
            seed: (ratio_of(run, other_runs[seed]) if seed in other_runs else None)
            if claim.kind in RATIOS
            else run.value
            for seed, run in runs.items()
        }
        result[point] = {seed: value for seed, value in numbers.items() if value is not None}
    if unreached:
        return f"longer than was watched, so only larger than a number: {', '.join(unreached)}"
    least = PUBLISHED_RUNS if is_spread else 1
    if scarce := [_point_text(claim, point) for point, by_seed in result.items() if len(by_seed) < least]:
        return f"too few seeds at {', '.join(scarce)}"
    if is_spread:
        return result
    if not (common := set.intersection(*(set(by_seed) for by_seed in result.values()))):
        return "no seed has a number at every point"
    return {point: {s: value for s, value in by_seed.items() if s in common} for point, by_seed in result.items()}


def _order(seed: Seed) -> Any:
    """Return a key that sorts by number: 2 before 10."""
    fields, repetition = seed
    return [json.loads(text) for _, text in fields], repetition


def _is_about(claim: Claim, point: Values) -> bool:
    fields = dict(point)
    return all(fields.get(path) in texts for path, texts in claim.points)


def _values_about(claim: Claim, by_point: Mapping[Values, OfSeeds]) -> list[RunValue]:
    return [value for point, runs in by_point.items() if _is_about(claim, point) for value in runs.values()]


def _spread(of_seeds: Mapping[Seed, float]) -> float:
    """Return the range of a point's first three seeds, in percent of their mean."""
    values = list(of_seeds.values())
    return 100.0 * (max(values) - min(values)) / fmean(values) if max(values) > min(values) else 0.0


def _best_of_three(claim: Claim, sweep: SweepRuns) -> float | None:
    """Return the number as MP took it: for each point the best run of either side by throughput, over all points the
    stated one."""
    if claim.best_by is None or claim.kind not in RATIOS:
        return None
    percents = []
    for point in sweep.about(claim):
        bests = []
        for variant in (claim.variant, claim.baseline):
            values, ranks = (
                sweep.of(variant, metric, claim.event).get(point, {}) for metric in (claim.metric, claim.best_by)
            )
            blocks = {seed: ("", place) for place, seed in enumerate(sorted({*values, *ranks}, key=_order))}
            in_blocks = (
                [replace(value, block=blocks[seed]) for seed, value in side.items()] for side in (values, ranks)
            )
            bests.append(best_of_three(*in_blocks))
        top, bottom = bests
        if top is None or bottom is None or bottom <= 0.0:
            return None
        percents.append(percent_over(top, bottom))
    return OVER[claim.over](percents) if percents else None


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
    values = [
        value
        for variant in (claim.variant, claim.baseline)
        if variant
        for value in _values_about(claim, sweep.of(variant, claim.metric, claim.event))
    ]
    count = sum(value.steady is False for value in values)
    return f"{count} of {len(values)} runs were not steady" if count else ""
