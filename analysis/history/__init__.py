"""The nights of a suite: their records, the series that they make, what changed in them and since which commit.

append(folder, night)          put a night on record
nights(folder)                 every night that can be read -> History
evaluate(history, settings)    what the history says -> Findings (pure)
review(folder, settings)       both; what Otava said before is kept beside the nights
pages.write(folder, findings)  findings.json and the pages
"""

from analysis.history.findings import Findings, evaluate, review
from analysis.history.night import Night
from analysis.history.regressions import Finding, Kind, Status
from analysis.history.settings import Accepted, Renames, Rule, Settings
from analysis.history.store import History, append, nights

__all__ = [
    "Accepted", "Finding", "Findings", "History", "Kind", "Night", "Renames", "Rule", "Settings", "Status", "append",
    "evaluate", "nights", "review",
]  # fmt: skip
