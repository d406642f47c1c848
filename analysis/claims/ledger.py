"""Claims + measurements -> ledger rows with a verdict.

The rule. `reproduced` and `differs` rest on a 95 % bootstrap interval over runs, which needs at least 3 complete runs
of each variant compared. With fewer there is a measurement but no interval, hence no verdict: the row stays `not run`,
and its reason says so, with the direction seen. A claim about each run (`every_run`) is a check, not an estimate: one
run is enough. A censored convergence time is a lower bound: where one decides a median, the interval is open on that
side and only a conclusion that holds over the whole open interval is drawn.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from analysis import statistics
from analysis.claims.statements import Claim, Kind, load_claims
from analysis.record import SeriesPaths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPRODUCED, DIFFERS, NOT_RUN = "reproduced", "differs", "not run"
MINIMUM_RUNS = 3
SEED = 20260101
EPSILON = 1e-9


@dataclass(frozen=True)
class Value:
    """A metric of one run; a censored one is the horizon it reached."""

    run_id: str
    value: float
    censored: bool = False


@dataclass(frozen=True)
class Conditions:
    """What was measured in complete runs: (experiment, variant, metric) -> values; and the runs left out, with why."""

    values: Mapping[tuple[str, str, str], Sequence[Value]]
    left_out: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerRow:
    """One claim: stated beside measured. `low`/`high` None: no interval; infinite: open (censored)."""

    claim: Claim
    measured: float | None
    low: float | None
    high: float | None
    runs: int
    verdict: str
    reason: str
    run_ids: tuple[str, ...]
    p_holm: float | None = None
    p_value: float | None = None
    cliffs_delta: float | None = None
    floor_percent: float | None = None

    @property
    def verdict_text(self) -> str:
        """The verdict, or why there is none although something was measured."""
        if self.verdict == NOT_RUN and self.runs:
            return f"{self.runs} run{'s' if self.runs > 1 else ''}: no interval" if self.low is None else "undecided"
        return self.verdict


def evaluate(spark: "SparkSession", series_dirs: Sequence[Path | str], family: str = "stela") -> list[LedgerRow]:
    """The ledger of a family over one or more series; repetitions of the same experiment are pooled."""
    claims = load_claims(family)
    return judge_all(claims, conditions(spark, [SeriesPaths(Path(folder)) for folder in series_dirs]))


def conditions(spark: "SparkSession", series: Sequence[SeriesPaths]) -> Conditions:
    """Measurements by experiment and variant; collected, for they are bounded by runs x metrics."""
    from analysis import tables

    values: dict[tuple[str, str, str], list[Value]] = defaultdict(list)
    left_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    for paths in series:
        runs = {row.run_id: row for row in tables.read(spark, paths, "runs").collect()}
        for run in runs.values():
            if run.status != "complete":
                left_out[run.experiment or "", run.variant or ""].append(
                    f"{run.run_id} ({run.status}: {run.failure_message or 'no reason recorded'})"
                )
        for row in tables.read(spark, paths, "measurements").orderBy("run_id").collect():
            run = runs[row.run_id]
            if run.status == "complete":
                name = run.run_id if len(series) == 1 else f"{run.series_id}/{run.run_id}"
                values[run.experiment, run.variant, row.metric].append(Value(name, row.value, row.censored))
    return Conditions(dict(values), dict(left_out))


def judge_all(claims: Sequence[Claim], measured: Conditions) -> list[LedgerRow]:
    """Every claim, with Holm's correction over the claims that were tested."""
    rows = [judge(claim, measured) for claim in claims]
    tested = [i for i, row in enumerate(rows) if row.p_value is not None]
    corrected = statistics.holm([rows[i].p_value or 0.0 for i in tested])
    for i, p_holm in zip(tested, corrected, strict=True):
        rows[i] = replace(rows[i], p_holm=p_holm)
    return rows


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """One claim's row."""
    own = measured.values.get((claim.experiment, claim.variant, claim.metric), [])
    other = measured.values.get((claim.experiment, claim.baseline or "", claim.metric), [])
    if not own or (claim.baseline and not other):
        return _not_run(claim, measured, bool(own))
    if claim.kind is Kind.EVERY_RUN:
        return _every_run(claim, own)
    if claim.kind is Kind.OWN_AT_MOST:
        return _own(claim, own)
    return _ratio(claim, own, other)


def _not_run(claim: Claim, measured: Conditions, have_own: bool) -> LedgerRow:
    missing = claim.baseline if have_own and claim.baseline else claim.variant
    left = measured.left_out.get((claim.experiment, missing), [])
    reason = f"no complete run of {missing} in {claim.experiment} measured {claim.metric}"
    if left:
        reason += f"; left out: {', '.join(left)}"
    return LedgerRow(claim, None, None, None, 0, NOT_RUN, reason, ())


def _every_run(claim: Claim, own: Sequence[Value]) -> LedgerRow:
    values = [value.value for value in own]
    against = [value for value in own if abs(value.value - claim.stated) > EPSILON]
    verdict = DIFFERS if against else REPRODUCED
    reason = f"{claim.stated:g} in {'the one run' if len(own) == 1 else f'each of {len(own)} runs'}"
    if against:
        reason = "not so in " + ", ".join(f"{value.run_id} ({value.value:g})" for value in against)
    worst = max(values, key=lambda value: abs(value - claim.stated))
    return LedgerRow(claim, worst, min(values), max(values), len(own), verdict, reason, _ids(own))


def _own(claim: Claim, own: Sequence[Value]) -> LedgerRow:
    values = [value.value for value in own]
    if len(values) < MINIMUM_RUNS:
        return _no_interval(claim, median(values), own, len(own))
    found = statistics.median_interval(values, SEED)
    verdict, reason = _condition(found.high <= claim.stated, f"at most {claim.stated:g}")
    return LedgerRow(claim, found.point, found.low, found.high, len(own), verdict, reason, _ids(own))


def _ratio(claim: Claim, own: Sequence[Value], other: Sequence[Value]) -> LedgerRow:
    top, bottom = [value.value for value in own], [value.value for value in other]
    runs = min(len(own), len(other))
    ids = _ids([*own, *other])
    if median(bottom) <= 0.0 or min(bottom) <= 0.0:
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, f"{claim.baseline} has a run at 0: no ratio", ids)
    point = 100.0 * (median(top) / median(bottom) - 1.0)
    if runs < MINIMUM_RUNS:
        return _no_interval(claim, point, [*own, *other], runs)
    found = statistics.median_ratio_interval(top, bottom, SEED)
    low, high = 100.0 * (found.low - 1.0), 100.0 * (found.high - 1.0)
    # A median is a bound where half or more of its runs are: the interval is then open on that side.
    high = inf if _censored(own) else high
    low = -100.0 if _censored(other) else low
    floor = statistics.same_against_itself(bottom)
    verdict, reason = _compare(claim, point, low, high, floor)
    censored = sum(value.censored for value in own), sum(value.censored for value in other)
    if any(censored):
        reason += (
            f"; never converged (taken at the horizon): {censored[0]} of {len(own)} {claim.variant}, "
            f"{censored[1]} of {len(other)} {claim.baseline}"
        )
    return LedgerRow(
        claim, point, low, high, runs, verdict, reason, ids,
        p_value=statistics.mann_whitney(top, bottom), cliffs_delta=statistics.cliffs_delta(top, bottom),
        floor_percent=floor,
    )  # fmt: skip


def _compare(claim: Claim, point: float, low: float, high: float, floor: float | None) -> tuple[str, str]:
    open_ended = high == inf or low <= -100.0
    if claim.kind is Kind.RATIO_ABOVE:
        if low <= claim.stated < high and open_ended:
            return NOT_RUN, "undecided: too many runs never converged"
        return _condition(low > claim.stated, f"above {claim.stated:g}")
    if low <= claim.stated <= high:
        if open_ended:
            return NOT_RUN, "undecided: too many runs never converged, so the interval is open"
        return REPRODUCED, "the stated value lies inside the interval"
    return DIFFERS, _difference(claim.stated, point, floor)


def _difference(stated: float, point: float, floor: float | None) -> str:
    """In words: how a measured percentage differs from the stated one."""
    if floor is not None and abs(point) <= floor:
        return f"no difference: {point:+.1f} % is within the {floor:.1f} % by which the baseline differs from itself"
    if stated == 0.0:
        return f"{'higher' if point > 0 else 'lower'}, where about equal was stated"
    if stated * point < 0.0:
        return "the opposite direction"
    return f"the same direction, but {'larger' if abs(point) > abs(stated) else 'smaller'}"


def _condition(holds: bool, words: str) -> tuple[str, str]:
    if holds:
        return REPRODUCED, f"{words} over the whole interval"
    return DIFFERS, f"not {words} over the whole interval"


def _no_interval(claim: Claim, point: float, values: Iterable[Value], runs: int) -> LedgerRow:
    way = ""
    if claim.kind in (Kind.RATIO, Kind.RATIO_ABOVE) and claim.stated:
        way = f"; the {'same' if claim.stated * point > 0 else 'opposite'} direction"
    reason = f"{runs} run{'s' if runs > 1 else ''}: no interval ({MINIMUM_RUNS} of each variant are needed){way}"
    return LedgerRow(claim, point, None, None, runs, NOT_RUN, reason, _ids(values))


def _censored(values: Sequence[Value]) -> bool:
    return 2 * sum(value.censored for value in values) >= len(values)


def _ids(values: Iterable[Value]) -> tuple[str, ...]:
    return tuple(value.run_id for value in values)
