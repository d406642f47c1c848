"""Suites that are measured every night, a night's findings, and the search for the commit that made a number worse."""
