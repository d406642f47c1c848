"""Ledger rows as readers see them: numbers with units, intervals, and the table of a page."""

from collections.abc import Sequence
from math import isfinite

from markupsafe import Markup, escape

from analysis.claims.rows import LedgerRow
from analysis.claims.rules import DERIVED_KINDS
from analysis.claims.statements import SPREADS, ClaimKind
from analysis.compare.sentence import p_text
from analysis.numerals import MISSING, number, with_unit
from analysis.record.small_tables import Row
from analysis.report.page import Block, Sentence
from analysis.report.table import BREAK, Heading, ResultTable, badge, columns, joined, small
from barograph.plan.experiment import SIMULATED

# 1: an interval that touched the stated number counted as reproduced. 2: a verdict had to be certain among all
# claims of the file, not only of its experiment.
LEDGER_VERSION = 4
SIMULATED_VERSION = 3  # of a simulated series; in earlier versions its claims had verdicts
COUNTED_THINGS = ("workers", "tasks", "instances")
KINDS_WITHOUT_INTERVAL = (ClaimKind.EVERY_RUN, ClaimKind.EXACT, ClaimKind.SPAN, ClaimKind.LOWEST)


def ledger_version(*, simulated: bool) -> int:
    """Return the version of a claims.json."""
    return SIMULATED_VERSION if simulated else LEDGER_VERSION


def measured_text(row: LedgerRow) -> str:
    """Return the measured value; a dash if nothing was measured (the reason is given elsewhere)."""
    if row.measured is None:
        return MISSING
    return quantity_text(row.measured, row.claim.unit, row.claim.is_signed)


def quantity_text(value: float | None, unit: str, signed: bool = False) -> str:
    """Format a number of a ledger with its unit; an open end of an interval is an infinity sign."""
    is_whole = value is not None and isfinite(value) and value == int(value)
    of_one = unit.removesuffix("s") if value == 1.0 and unit in COUNTED_THINGS else unit
    return with_unit(number(value, 0 if is_whole else 1, signed=signed), of_one)


def interval_text(row: LedgerRow) -> str:
    """Return the interval of an estimate; a check of every run, a computation and a derived claim have none."""
    if row.claim.kind in KINDS_WITHOUT_INTERVAL or row.is_models:
        return MISSING
    return range_text(row)


def range_text(row: LedgerRow) -> str:
    """Return the low and the high end of an interval, or of the model's range."""
    if row.low is None or row.high is None:
        return MISSING
    low, high = (quantity_text(end, "", row.claim.is_signed) for end in (row.low, row.high))
    return low if low == high else f"{low} to {high}"


def model_text(row: LedgerRow) -> str:
    """Return `the model gives +50 % (+49.1 to +50.8 over 6 seeds); stated about +65 %`; for a computation its own
    words. For a claim about how far seeds lie apart the range is over the points of its sweep."""
    statement = f"; stated {statement_text(row)}"
    if row.claim.kind is ClaimKind.EXACT and row.measured is not None:
        return f"computed: {measured_text(row)}{statement}: {row.verdict}"
    if not row.is_models:
        return f"{row.verdict}{statement}"
    if row.measured is None:
        return f"the model gives no number{statement}"
    return f"the model gives {measured_text(row)} ({_range_words(row)}){statement}"


def _range_words(row: LedgerRow) -> str:
    seeds = f"{row.runs} seed{'' if row.runs == 1 else 's'}"
    if row.claim.kind in DERIVED_KINDS:
        return f"{range_text(row)} over its claims"
    if row.claim.kind in SPREADS:
        return f"{range_text(row)} over the points, of the first {seeds} of each"
    if row.low is None or row.runs == 1:
        return seeds
    return f"the same with {seeds}" if row.low == row.high else f"{range_text(row)} over {seeds}"


def statement_text(row: LedgerRow) -> str:
    """Return the source's statement, in the form in which the claim is compared."""
    claim = row.claim
    prefix = "about " if claim.about else ""
    number_text = prefix + quantity_text(claim.stated, claim.unit, claim.is_signed and claim.stated != 0)
    ends = f"{quantity_text(claim.stated, '', True)} to {quantity_text(claim.stated_high, claim.unit, True)}"
    return {
        ClaimKind.RATIO_ABOVE: f"more than {number_text}",
        ClaimKind.RATIO_AT_MOST: f"at most {number_text}",
        ClaimKind.OWN_AT_MOST: f"at most {number_text}",
        ClaimKind.ADDED_AT_LEAST: f"at least {number_text}",
        ClaimKind.OWN_AT_LEAST: f"at least {number_text}",
        ClaimKind.OWN_BELOW: f"below {number_text}",
        ClaimKind.ONLY: f"alone above {number_text}",
        ClaimKind.SPAN: prefix + ends,
    }.get(claim.kind, number_text)


def _region_text(row: LedgerRow) -> str:
    """Return where the whole interval has to lie."""
    is_signed = row.claim.kind not in SPREADS
    low, high = (quantity_text(end, "", is_signed) for end in (row.claim.region.low, row.claim.region.high))
    if not isfinite(row.claim.region.low):
        return f"below {high}"
    return f"above {low}" if not isfinite(row.claim.region.high) else f"{low} to {high}"


def ledger_row(row: LedgerRow, *, simulated: bool = False) -> Row:
    """Return a row for the table and for claims.json. `simulated`: the runs were, which does not matter to an exact
    claim; the model's range has the keys `lowest` and `highest` instead of an interval's `low` and `high`."""

    def finite(*ends: float | None) -> list[float | None]:
        return [end if end is not None and isfinite(end) else None for end in ends]

    ends, region = finite(row.low, row.high), row.claim.region
    low, high = (None, None) if row.is_models else ends
    has_region = not row.is_models and row.claim.stated_over is None  # else it has no verdict, whatever its number is
    further: Row = {}
    if simulated:
        further = {"model_text": model_text(row), "range_text": range_text(row)}
    if (simulated or row.claim.simulated) and row.claim.kind is ClaimKind.EXACT:
        further = {**further, "range_text": MISSING}
    elif simulated or row.claim.simulated:
        further = {**further, "lowest": ends[0], "highest": ends[1], SIMULATED: True}
    return {
        "id": row.claim.name,
        "experiment": row.claim.experiment,
        "source": row.claim.source,
        "statement": row.claim.statement,
        "stated": row.claim.stated,
        "stated_text": statement_text(row),
        "measured": row.measured,
        "measured_text": measured_text(row),
        "low": low,
        "high": high,
        "interval_text": interval_text(row),
        "region": finite(region.low, region.high) if has_region else [None, None],
        "region_text": _region_text(row) if has_region and row.claim.within is not None else MISSING,
        "runs": row.runs,
        "blocks": row.blocks or row.runs,
        "unsteady": row.unsteady,
        "verdict": row.verdict,
        "verdict_text": row.verdict_text,
        "indication": row.is_indication,
        "reason": row.reason,
        "p": row.p,
        "p_holm": row.p_holm,
        "direction": row.direction,
        "floor_percent": row.floor,
        "run_ids": list(row.run_ids),
        **({"series_blocks": dict(row.series)} if len(row.series) > 1 else {}),
        **({"notes": list(row.notes)} if row.notes else {}),
        **({} if row.best_of_three is None else {"best_of_three": row.best_of_three}),
        **({} if row.claim.topology is None else {"topology": row.claim.topology}),
        **further,
    }


MODEL_NOTE = (
    "A range is over seeds; of what follows from other claims it is over these, and of how far seeds lie apart over"
    " the points of the sweep. What the simulator gives is no evidence about Storm: runs differ by their seed alone,"
    " so there is no verdict, no interval and no p-value. How far the simulator was from measured runs is said above,"
    " as far as it is known."
)


def _statement(row: Row) -> str:
    reason = [BREAK, small(row["reason"], "reason")] if row["reason"] else []
    return joined([f"{row['statement']} ", small(f"({row['source']})"), *reason])


def _verdict(row: Row) -> str:
    css = row["verdict"].replace(" ", "-") + " indication" * row["indication"]
    direction = "no" if row["direction"] == "none" else row["direction"]
    note = [BREAK, small(f"{direction} direction", "reason")] if direction else []
    return joined([badge(row["verdict_text"], css), *note])


def _of_model(row: Row) -> str:
    if row.get(SIMULATED):
        return str(row["measured_text"] if row["runs"] else row["verdict"])
    return str(row["verdict"] if row["measured"] is None else f"computed: {row['measured_text']}")


CLAIM = Heading("claim", lambda row: Markup("/<wbr>").join(map(escape, row["id"].split("/"))))
STATEMENT = Heading("statement", _statement, css="wide")
MEASURED_COLUMNS = (
    CLAIM, Heading("verdict", _verdict), STATEMENT,
    *columns("stated = stated_text /n k; has to lie = region_text /n k; measured = measured_text /n k"),
    *columns("95 % interval = interval_text /n k; blocks /n k"),
    Heading("p (Holm)", lambda row: p_text(row["p_holm"]), css="n k"),
)  # fmt: skip
MODEL_COLUMNS = (  # of simulated runs: no verdict, no interval, no p
    CLAIM, STATEMENT, Heading("the model gives", _of_model, css="n k"),
    Heading("range", lambda row: row["range_text"] if row.get(SIMULATED) else None, css="n k"),
    Heading("seeds", lambda row: row["runs"] if row.get(SIMULATED) else None, css="n k"),
    *columns("stated = stated_text /n k"),
)  # fmt: skip


def ledger_blocks(ledger: Sequence[Row], *, simulated: bool) -> list[Block]:
    """Return the table of claims; on a narrow screen each row becomes a block."""
    if simulated:
        return [ResultTable(MODEL_COLUMNS, ledger, css="blocks", name="claims"), Sentence(MODEL_NOTE, "small")]
    return [ResultTable(MEASURED_COLUMNS, ledger, css="blocks", name="claims")]
