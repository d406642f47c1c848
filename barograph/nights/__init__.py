"""Suites that are measured every night, the findings of a night, and the search for the commit that made a number
worse."""
