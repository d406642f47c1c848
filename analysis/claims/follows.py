"""Claims that follow from others: their numbers come from the rows of the claims they name."""

from collections.abc import Mapping, Sequence

from analysis.claims.rows import DIFFERS, NOT_RUN, REPRODUCED, LedgerRow
from analysis.claims.statements import ABOUT_SHARE, Claim, Kind
from analysis.numerals import number

FOLLOWING = (Kind.SPAN, Kind.LOWEST)


def follow(claim: Claim, rows: Mapping[str, LedgerRow]) -> LedgerRow:
    """`low` and `high` span the numbers found. Without an interval behind every number there is no verdict."""
    sources = [rows[name] for name in claim.of]
    found = [row for row in sources if row.measured is not None]
    if not found:
        return LedgerRow(claim, None, None, None, 0, NOT_RUN, f"none of {', '.join(claim.of)} was measured", ())
    verdict, reason = _span(claim, found) if claim.kind is Kind.SPAN else _lowest(claim, found)
    unsure = [row.claim.name for row in sources if row.low is None]
    if unsure:
        verdict, reason = NOT_RUN, f"{reason}; no interval for {', '.join(unsure)}"
    numbers = [row.measured for row in found if row.measured is not None]
    best = min(numbers) if claim.kind is Kind.LOWEST else max(numbers)
    run_ids = tuple(dict.fromkeys(run_id for row in found for run_id in row.run_ids))
    runs = min(row.runs for row in found)
    return LedgerRow(claim, best, min(numbers), max(numbers), runs, verdict, reason, run_ids)


def _span(claim: Claim, found: Sequence[LedgerRow]) -> tuple[str, str]:
    top = claim.stated if claim.stated_high is None else claim.stated_high
    slack = ABOUT_SHARE if claim.about else 0.0
    low, high = claim.stated - slack * abs(claim.stated), top + slack * abs(top)
    outside = [row for row in found if row.measured is not None and not low <= row.measured <= high]
    if outside:
        return DIFFERS, f"outside {claim.stated:g} to {top:g}: {_numbers(outside)}; inside: {_numbers(found, outside)}"
    return REPRODUCED, f"all within {claim.stated:g} to {top:g}: {_numbers(found)}"


def _lowest(claim: Claim, found: Sequence[LedgerRow]) -> tuple[str, str]:
    lowest = min(found, key=lambda row: row.measured or 0.0)
    low, high = lowest.low, lowest.high
    inside = low is not None and high is not None and low <= claim.stated + claim.resolution
    inside = inside and high is not None and claim.stated - claim.resolution <= high
    words = f"lowest is {lowest.claim.name}, of {_numbers(found)}"
    return (REPRODUCED if inside else DIFFERS), words


def _numbers(rows: Sequence[LedgerRow], without: Sequence[LedgerRow] = ()) -> str:
    shown = [f"{row.claim.name} {number(row.measured, 1, signed=True)}" for row in rows if row not in without]
    return ", ".join(shown) or "none"
