"""The nights of a suite: their records, the series that they make, what changed in them and since which commit.

    append(folder, night)          put a night on record
    nights(folder)                 every night that can be read -> History
    evaluate(history, settings)    what the history says -> Findings (pure)
    review(folder, settings)       both, and what was found before is kept beside the nights
    pages.write(folder, findings)  findings.json and the pages
"""

from analysis.history.night import Night
from analysis.history.settings import Accepted, Renames, Rule, Settings
from analysis.history.store import History, append, nights

__all__ = ["Accepted", "History", "Night", "Renames", "Rule", "Settings", "append", "nights"]
