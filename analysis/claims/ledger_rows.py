"""What the ledger is made of: values by run, the conditions they were measured under, A/A floors, and the rows.

The A/A floor says by how much the testbed differs from itself, from repetitions of the same variant in a series.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.claims.statements import Claim
from analysis.stats.same_code_floors import Floor, largest_difference

REPRODUCED, DIFFERS, NOT_RUN = "reproduced", "differs", "not run"
UNDECIDED = "undecided"  # the text of NOT_RUN where there is an interval
SAME, OPPOSITE, NONE = "same", "opposite", "none"
AT_LEAST, AT_MOST = "at least", "at most"
MINIMUM_RUNS = 3  # of each variant, for an interval
SEED = 20260101  # of the bootstrap, so that the same runs give the same interval
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Value:
    """A metric of one run; a censored one is the horizon it reached. `steady`: whether the sides that it rests on were;
    None: it rests on none, or nobody tested it.

    `same`: what runs have in common that should measure the same (series, policy, parameters); "" is the variant alone.
    """

    run_id: str
    value: float
    censored: bool = False
    same: str = ""
    steady: bool | None = None


@dataclass(frozen=True)
class Conditions:
    """Complete runs: (experiment, variant, metric, event) -> values; and the runs left out, with why."""

    values: Mapping[Key, Sequence[Value]]
    exclusions: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)

    def of(self, claim: Claim, variant: str | None) -> Sequence[Value]:
        return self.values.get((claim.experiment, variant or "", claim.metric, claim.event), [])


@dataclass(frozen=True)
class LedgerRow:
    """One claim: stated beside measured. `low`/`high` None: no interval; infinite: open (censored).

    `floor_percent`: the largest difference between two runs of the same variant and series, over the variants compared;
    `floor_pairs` is the number of such pairs. `testbed_floor_percent`: the same over every series read, for the metric.
    `measured` None with runs: they give no number, and `reason` says why (neither side converged, a baseline at 0).
    `bound`: of a ratio with one side that never converged; `measured` is then what the ratio is at least, or at most.
    `unsteady`: how many of the runs were not steady; they count, with what stood for their steady part.
    `direction`: whether what was measured goes the way that is stated (`none`: it goes nowhere), None where no way is.
    """

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
    floor_pairs: int = 0
    testbed_floor_percent: float | None = None
    direction: str | None = None
    bound: str | None = None
    unsteady: int = 0

    @property
    def sign_known(self) -> bool:
        """Whether the number is above or below 0; a ratio that is at least −10 % may be either."""
        if self.measured is None:
            return False
        return not (
            (self.bound == AT_LEAST and self.measured <= 0.0) or (self.bound == AT_MOST and self.measured >= 0.0)
        )

    @property
    def verdict_text(self) -> str:
        """The verdict, or why there is none although something was measured."""
        if self.verdict != NOT_RUN or not self.runs:
            return self.verdict
        if self.low is None and self.runs < MINIMUM_RUNS:
            return f"{self.runs} run{'s' if self.runs > 1 else ''}: no interval"
        return UNDECIDED


def ids_of_runs(values: Iterable[Value]) -> tuple[str, ...]:
    return tuple(value.run_id for value in values)


def row_without_runs(claim: Claim, measured: Conditions, variants: Sequence[str]) -> LedgerRow:
    """The row where a variant has no complete run; it names the variants and the runs that were left out."""
    exclusions = [run for variant in variants for run in measured.exclusions.get((claim.experiment, variant), [])]
    reason = f"no complete run of {', '.join(variants)} in {claim.experiment} measured {claim.metric}"
    if exclusions:
        reason += f"; left out: {', '.join(exclusions)}"
    return LedgerRow(claim, None, None, None, 0, NOT_RUN, reason, ())


Group = tuple[str, str]


def claim_floor(claim: Claim, measured: Conditions, variants: Iterable[str]) -> Floor | None:
    """Over the variants compared, and over others of the experiment that are the same policy under another name."""
    groups = _groups(claim, measured)
    compared = {
        _group(claim.experiment, variant, value) for variant in variants for value in measured.of(claim, variant)
    }  # fmt: skip
    return largest_difference(claim.metric, (values for group, values in groups.items() if group in compared))


def testbed_floor(claim: Claim, measured: Conditions) -> Floor | None:
    """Over every series that was read, whatever its experiment."""
    return largest_difference(claim.metric, _groups(claim, measured).values())


def _groups(claim: Claim, measured: Conditions) -> dict[Group, list[float]]:
    """The claim's metric of all runs, by what should be the same; a censored value is only a bound and is left out."""
    groups: dict[Group, list[float]] = defaultdict(list)
    for (experiment, variant, metric, event), values in measured.values.items():
        if (metric, event) == (claim.metric, claim.event):
            for value in values:
                if not value.censored:
                    groups[_group(experiment, variant, value)].append(value.value)
    return groups


def _group(experiment: str, variant: str, value: Value) -> Group:
    return experiment, value.same or variant
