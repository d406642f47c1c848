"""The claims of the papers, as data (`*.yaml`), and the ledger that sets measurements beside them.

A claim passes these files in this order; all hand on one type of row and ask one judge (analysis/stats/effect.py):

statements      a claim and its region, read from the papers' files; `publications`: their figures and tables
pools           the series by which a claim is judged
rows            values of runs, and a row of the ledger
measured_rows   one claim + runs -> its row; `exact`: claims that need no run
limitations     results that are impossible in an experiment, or say little there; their basis are `assumptions` (levels
                by the closed form of `capacity`, noise, the baseline's time)
rules           the row with the notes that no reader may overlook; claims that follow from others
simulated_rows  numbers of the simulator and of its sweeps in place of verdicts
ledger          all claims -> the ledger, corrected for many tests
"""

from analysis.claims.ledger import evaluate, evaluate_newest, judge, judge_all
from analysis.claims.pools import BlockPool, kept_series, pools_of_claims
from analysis.claims.rows import LedgerRow, RunValue, SeriesConditions
from analysis.claims.statements import FAMILIES, Claim, ClaimKind, load_claims

__all__ = [
    "FAMILIES",
    "BlockPool",
    "Claim",
    "ClaimKind",
    "LedgerRow",
    "RunValue",
    "SeriesConditions",
    "evaluate",
    "evaluate_newest",
    "judge",
    "judge_all",
    "kept_series",
    "load_claims",
    "pools_of_claims",
]  # fmt: skip
