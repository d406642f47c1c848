"""The claims of the papers, as data (`*.yaml`), and the ledger that sets what was measured beside what is stated."""

from analysis.claims.ledger import Conditions, LedgerRow, evaluate, judge
from analysis.claims.statements import FAMILIES, Claim, Kind, load_claims

__all__ = ["FAMILIES", "Claim", "Conditions", "Kind", "LedgerRow", "evaluate", "judge", "load_claims"]
