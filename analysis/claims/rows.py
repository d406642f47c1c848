"""The data of the ledger: values of runs, and a row per claim."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from analysis.claims.statements import Claim
from analysis.metrics.definitions import place_words
from analysis.stats.effect import Effect
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from barograph.errors import ConfigurationError
from barograph.plan.experiment import WHOLE_CLUSTER, Experiment
from scheduler_plugins.model import SINKS

REPRODUCED, DIFFERS, UNDECIDED = "reproduced", "differs", "undecided"
NOT_TESTABLE, NOT_RUN = "not testable here", "not run"
NO_VERDICT = "no verdict"  # of simulated runs
VERDICTS = (REPRODUCED, DIFFERS, UNDECIDED, NOT_TESTABLE, NOT_RUN)
SAME, OPPOSITE, NONE = "same", "opposite", "none"
BLOCKS_OF_A_VERDICT = 6  # fewer give an indication
Key = tuple[str, ...]  # experiment, variant, metric, event, and of several topologies which
BlockId = tuple[str, int]  # series and block


@dataclass(frozen=True)
class RunValue:
    """A metric of one run; a censored one is the horizon it reached. `steady`: whether the sides that it rests on were;
    None: it rests on none, or was not tested. `order`: the place of the run in its series, if known."""

    run_id: str
    value: float
    censored: bool = False
    block: BlockId = ("", 0)
    steady: bool | None = None
    order: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The end of a run. `blame`: whose failure it was, None if nothing failed."""

    run_id: str
    status: str
    blame: str | None = None
    message: str | None = None

    @property
    def counts(self) -> bool:
        return self.status == "complete"


@dataclass(frozen=True)
class SeriesConditions:
    """Complete runs: (experiment, variant, metric, event) -> values; how all runs of (experiment, variant) ended; the
    request of each experiment's series; and the names of the topologies that its runs have, with `all` last if
    a run has several. Without it runs have one each, maybe not all the same, as in other people's logs.

    `by_claim`: the conditions of claims that are judged by other series.
    """

    values: Mapping[Key, Sequence[RunValue]]
    outcomes: Mapping[tuple[str, str], Sequence[Outcome]] = field(default_factory=dict)
    experiments: Mapping[str, Sequence[Experiment]] = field(default_factory=dict)
    topologies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_claim: Mapping[str, "SeriesConditions"] = field(default_factory=dict)
    throughput: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict)  # by experiment and topology

    def place(self, experiment: str, topology: str | None) -> str:
        """Return where throughput is measured, in words; empty at the sinks."""
        places = self.throughput.get(experiment, {})
        names = {
            *chain.from_iterable(values for name, values in places.items() if topology in (None, WHOLE_CLUSTER, name))
        }
        return place_words(sorted(names)) if names - {SINKS} else ""

    def for_claim(self, claim: Claim) -> "SeriesConditions":
        """Return the conditions by which the claim is judged."""
        return self.by_claim.get(claim.name, self)

    def of(self, claim: Claim, variant: str | None) -> Sequence[RunValue]:
        """Return values. Raises ConfigurationError for a claim without a topology, or with an unknown one, if runs have
        several."""
        names = self.topologies.get(claim.experiment, ())
        if names and claim.topology not in (names if WHOLE_CLUSTER in names else (None, *names)):
            raise ConfigurationError(
                f"claim {claim.name}: topology is {claim.topology!r}; allowed of {claim.experiment}: {', '.join(names)}"
            )
        topology_key = (claim.topology,) if WHOLE_CLUSTER in names and claim.topology else ()
        return self.values.get((claim.experiment, variant or "", claim.metric, claim.event, *topology_key), [])


@dataclass(frozen=True)
class LedgerRow:
    """One claim: stated beside measured. `low`, `high`: the 95 % interval, None without one, infinite if it is open.

    `runs`: of the variant that has fewest; `blocks`: under the interval. `measured` None with runs: they give
    no number, and `reason` says why. `p`: of a wrong verdict, `p_holm`: among all claims of its
    experiment. `floor`: the narrowest half-width that runs of one variant allow, in percent. `unsteady`: how many of
    the runs were not steady; they count, with their substitute for a steady part. `direction`: whether the measurement
    goes the stated way (`none`: it goes nowhere), None if no way is stated.

    For simulated runs `low` and `high` are the smallest and the largest number of a seed (simulated_rows.py and
    sweep_rows.py).

    `best_of_three`: the number as the source took it, from the best of each variant's first three runs.

    `notes`: the parts of the reason that no reader may overlook, whatever the verdict.

    `series`: by series, how many of its blocks the number uses; empty for derived claims.
    """

    claim: Claim
    measured: float | None
    low: float | None
    high: float | None
    runs: int
    verdict: str
    reason: str
    run_ids: tuple[str, ...]
    estimate: Effect | None = None
    p: float | None = None
    p_holm: float | None = None
    direction: str | None = None
    unsteady: int = 0
    checks: bool = False  # of each run or a computation: no estimate, so there is no uncertainty
    best_of_three: float | None = None
    notes: tuple[str, ...] = ()
    series: tuple[tuple[str, int], ...] = ()

    @property
    def blocks(self) -> int:
        return self.estimate.blocks if self.estimate else 0

    @property
    def floor(self) -> float | None:
        return self.estimate.floor if self.estimate else None

    @property
    def is_models(self) -> bool:
        """Return whether the row is the simulator's, which estimates nothing."""
        return self.verdict == NO_VERDICT

    @property
    def is_indication(self) -> bool:
        """Return whether this is a verdict of fewer than six blocks, or one that is not certain among all claims of its
        experiment."""
        if self.verdict not in (REPRODUCED, DIFFERS) or self.checks:
            return False
        return self.runs < BLOCKS_OF_A_VERDICT or self.p_holm is None or self.p_holm >= 0.05

    @property
    def verdict_text(self) -> str:
        if self.is_indication:
            return f"{self.verdict} (indication)"
        if self.verdict == UNDECIDED and self.low is None and self.runs < MINIMUM_BLOCKS:
            return f"{self.runs} run{'' if self.runs == 1 else 's'}: no interval"
        return self.verdict


def percent_over(above: float, below: float) -> float:
    """Return by how many percent `above` is more than `below`."""
    return 100.0 * (above / below - 1.0)


def ratio_of(own: RunValue, other: RunValue) -> float | None:
    """Return the ratio in percent over the other; None if one of the two is censored or the other is not above 0."""
    if own.censored or other.censored or other.value <= 0.0:
        return None
    return percent_over(own.value, other.value)


def series_lengths(values: Iterable[RunValue]) -> tuple[int, ...]:
    """Return how many of these values each series has, in the order of the blocks: runs of two series are no
    neighbours."""
    return tuple(len(list(group)) for _, group in groupby(values, key=lambda value: value.block[0]))


def row_without_runs(claim: Claim, measured: SeriesConditions, variants: Sequence[str]) -> LedgerRow:
    """Return the row if a variant has no complete run; it names the variants and the runs that were left out."""
    omissions = [
        f"{run.run_id} ({run.status}: {run.message or 'no reason recorded'})"
        for variant in variants
        for run in measured.outcomes.get((claim.experiment, variant), ())
        if not run.counts
    ]
    reason = f"no complete run of {', '.join(variants)} in {claim.experiment} measured {claim.metric}"
    if omissions:
        reason += f"; left out: {', '.join(omissions)}"
    return LedgerRow(claim, None, None, None, 0, NOT_RUN, reason, ())


def with_note(row: LedgerRow, note: str) -> LedgerRow:
    """Return the row, with the note if there is one."""
    return replace(row, reason=f"{row.reason}; {note}", notes=(*row.notes, note)) if note else row


def failed_note(claim: Claim, measured: SeriesConditions, name_of: Callable[[str], str] = str) -> str:
    """Return how many runs of the claim's variants failed, and whose failures they were: the remaining runs are a
    selection.

    A failure after which the run was repeated does not count, unless it was that of the system under test; nor does an
    incomplete run, which the series will repeat.
    """
    notes = []
    for variant in claim.variants:
        outcomes = [run for run in measured.outcomes.get((claim.experiment, variant), ()) if run.status != "incomplete"]
        failed = Counter((run.blame or run.status).replace("_", " ") for run in outcomes if not run.counts)
        if failed:
            blame_counts = ", ".join(f"{name} {number}" for name, number in failed.most_common())
            notes.append(f"{failed.total()} of {len(outcomes)} runs of {name_of(variant)} failed: {blame_counts}")
    return ", ".join(notes)


def failures_of(claim: Claim, measured: SeriesConditions, variant: str) -> tuple[int, int]:
    """Return how many of a variant's runs the system under test failed, and how many are a result."""
    outcomes = measured.outcomes.get((claim.experiment, variant), ())
    failed = sum(run.blame == "system_under_test" for run in outcomes)
    return failed, failed + sum(run.counts for run in outcomes)


def failed_share(claim: Claim, measured: SeriesConditions, variant: str) -> float:
    failed, runs = failures_of(claim, measured, variant)
    return failed / runs if failed else 0.0
