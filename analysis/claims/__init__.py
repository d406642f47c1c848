"""The claims of the papers, as data (`*.yaml`), and the ledger that sets what was measured beside what is stated."""

from analysis.claims.ledger import evaluate, evaluate_newest, judge, judge_all, series_of_claims
from analysis.claims.ledger_rows import Conditions, LedgerRow, Value
from analysis.claims.statements import FAMILIES, Claim, Kind, load_claims

__all__ = [
    "FAMILIES", "Claim", "Conditions", "Kind", "LedgerRow", "Value", "evaluate", "evaluate_newest", "judge",
    "judge_all", "load_claims", "series_of_claims",
]  # fmt: skip
