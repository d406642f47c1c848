"""The nights of a suite: their records, the series that they make, what changed in them and since which commit.

append_night(folder, night)    put a night on record
read_history(folder)           every night that can be read -> History
evaluate(history, settings)    what the history says -> Findings (pure)
review(folder, settings)       both; change points that are known are kept beside the nights
pages.write(folder, findings)  findings.json and the pages
"""

from analysis.nights.findings import Findings, evaluate, review
from analysis.nights.night_records import History, Night, append_night, read_history
from analysis.nights.regressions import Finding, Kind, Status
from analysis.nights.settings import Accepted, Renames, Settings
from analysis.stats.change_points import Rule

__all__ = [
    "Accepted",
    "Finding",
    "Findings",
    "History",
    "Kind",
    "Night",
    "Renames",
    "Rule",
    "Settings",
    "Status",
    "append_night",
    "evaluate",
    "read_history",
    "review",
]
