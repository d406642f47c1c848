"""The simulator's results for each claim: its number, the range over seeds, and what can come out; no verdict
(docs/decisions/claims.md). Pure.

Runs of one model differ by its own noise alone. An interval over them can be made as narrow as desired, and says
nothing about the distance of the model from Storm: that is for calibrations to say (docs/simulator.md).
"""

from collections.abc import Sequence
from dataclasses import replace

from analysis.claims import limitations, measured_rows, rules
from analysis.claims.exact import judge_exact
from analysis.claims.ledger_rows import (  # fmt: skip
    NO_VERDICT,
    NOT_RUN,
    LedgerRow,
    RunValue,
    SeriesConditions,
    failed_note,
    percent_over,
    ratio_of,
)
from analysis.claims.statements import RATIOS, Claim, ClaimKind


def simulated_rows(claims: Sequence[Claim], measured: SeriesConditions) -> list[LedgerRow]:
    """Return a row a claim, in their order. `low` and `high` are the smallest and the largest number of a seed; a
    computation keeps its verdict, because it rests on no run."""
    rows_by_name = {
        claim.name: simulated_row(claim, measured) for claim in claims if claim.kind not in rules.DERIVED_KINDS
    }
    for claim in claims:
        if claim.kind in rules.DERIVED_KINDS:
            sources = [rows_by_name[name] for name in claim.of]
            rows_by_name[claim.name] = _derived_row(claim, sources, measured.for_claim(claim))
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
    moves = rules.moved_note(claim, measured)
    notes = [
        _without_number(claim, row, measured), _unsteady_note(row), failed_note(claim, measured), moves,
        _possible(claim, measured),
    ]  # fmt: skip
    return replace(
        row,
        low=min(numbers, default=None),
        high=max(numbers, default=None),
        verdict=NO_VERDICT,
        reason="; ".join(filter(None, notes)),
        estimate=None,
        p=None,
        direction=None,
        checks=False,
    )


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


def _without_number(claim: Claim, row: LedgerRow, measured: SeriesConditions) -> str:
    """Return why there is no range."""
    sides = {name: measured.of(claim, name) for name in (claim.variant, claim.baseline) if name}
    if any(value.censored for values in sides.values() for value in values):
        return "; ".join(f"{name}: {measured_rows.times_text(values)}" for name, values in sides.items())
    if claim.kind is ClaimKind.ONLY:
        return f"in order: {measured_rows.ranking_text(_levels(claim, measured))}"
    return row.reason if row.measured is None else ""


def _levels(claim: Claim, measured: SeriesConditions) -> dict[str, Sequence[RunValue]]:
    return {name: measured.of(claim, name) for name in (claim.variant, *claim.others)}


def _unsteady_note(row: LedgerRow) -> str:
    return f"{row.unsteady} of {len(row.run_ids)} runs were not steady" if row.unsteady else ""


def _possible(claim: Claim, measured: SeriesConditions) -> str:
    """Return where the number can lie in this experiment, by what is known before a run."""
    texts = [limitations.possible_words(claim, each) for each in measured.experiments.get(claim.experiment, ())]
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _derived_row(claim: Claim, sources: Sequence[LedgerRow], measured: SeriesConditions) -> LedgerRow:
    """Return the row; `low` and `high` are the smallest and the largest number of the claims that it is about."""
    row = rules.derived_numbers(claim, sources)
    if row.verdict == NOT_RUN:
        return row
    reason = limitations.reason_derived(claim, [each.claim for each in sources], measured.experiments)
    gaps = [each.claim.name for each in sources if each.measured is None]
    notes = [row.reason, f"no number of {', '.join(gaps)}" if gaps else "", reason or ""]
    return replace(row, verdict=NO_VERDICT, reason="; ".join(filter(None, notes)))
