"""The claims of the papers, as data (`*.yaml`), and the ledger that sets measurements beside them.

statements     a claim, its region, the files that state them; `publications`: figures and tables of the papers
specs          the parts of an experiment that claims need
pools          the series by which a claim is judged
ledger_rows    values of runs, and a row of the ledger
measured_rows  one claim + runs -> its row; `exact`, with `metis_call`: claims that need no run
assumptions    the basis of bounds: levels by the closed form (`capacity`), noise, the baseline's time
limitations    results that are impossible in an experiment, or say little there
rules          one claim -> its row with the notes that no reader may overlook; claims that follow from others
ledger         all claims -> the ledger, corrected for many tests
simulated_rows, sweep_rows  numbers of the simulator in place of verdicts
"""

from analysis.claims.ledger import evaluate, evaluate_newest, judge, judge_all
from analysis.claims.ledger_rows import LedgerRow, RunValue, SeriesConditions
from analysis.claims.pools import BlockPool, kept_series, pools_of_claims
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
