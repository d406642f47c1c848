"""The claims of the papers, as data (`*.yaml`), and the ledger that sets what was measured beside what is stated.

statements     a claim, its region, the files that state them; `publications`: figures and tables of the papers
specs          what is read of an experiment
pools          which series a claim is judged by
ledger_rows    values of runs, and a row of the ledger
measured_rows  one claim + runs -> its row; `exact`, with `metis_call`: claims that need no run
assumptions    what bounds rest on: levels by the closed form (`capacity`), noise, the baseline's time
limitations    what cannot come out in an experiment, or says little there
rules          one claim -> its row with what no reader may overlook; claims that follow from others
ledger         all claims -> the ledger, corrected for many tests
simulated_rows, sweep_rows  what the simulator gives in the place of verdicts
"""

from analysis.claims.ledger import evaluate, evaluate_newest, judge, judge_all
from analysis.claims.ledger_rows import Conditions, LedgerRow, RunValue
from analysis.claims.pools import Pool, kept_series, pools_of_claims
from analysis.claims.statements import FAMILIES, Claim, Kind, load_claims

__all__ = [
    "FAMILIES", "Claim", "Conditions", "Kind", "LedgerRow", "Pool", "RunValue", "evaluate", "evaluate_newest", "judge",
    "judge_all", "kept_series", "load_claims", "pools_of_claims",
]  # fmt: skip
