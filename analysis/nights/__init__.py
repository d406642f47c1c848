"""The nights of a suite: their records, the series that they make, what changed in them and since which commit.

night_records.append_night(folder, night)    put a night on record
night_records.read_history(folder)           every night that can be read -> History
findings.evaluate(history, settings)         what the history says -> Findings (pure)
findings.review(folder, settings)            both; change points that are known are kept beside the nights
pages.write(folder, findings)                findings.json and the pages
"""
