"""The nights of a suite: their records, the series of their numbers, the changes in them and the commits since.

night_records.append_night(folder, night)    put a night on record
night_records.read_history(folder)           every readable night -> History
findings.evaluate(history, settings)         History -> Findings (pure)
findings.review(folder, settings)            both; known change points are kept beside the nights
pages.write(folder, findings)                findings.json and the pages
"""
