"""The claims of the papers, as data (`*.yaml`), and the ledger that sets what was measured beside what is stated."""

from analysis.claims.ledger import evaluate, evaluate_newest, judge, judge_all
from analysis.claims.ledger_rows import Conditions, LedgerRow, Value
from analysis.claims.pools import Pool, kept_series, pools_of_claims
from analysis.claims.statements import FAMILIES, Claim, Kind, load_claims

__all__ = [
    "FAMILIES", "Claim", "Conditions", "Kind", "LedgerRow", "Pool", "Value", "evaluate", "evaluate_newest", "judge",
    "judge_all", "kept_series", "load_claims", "pools_of_claims",
]  # fmt: skip
