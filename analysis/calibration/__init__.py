"""The simulator's costs fitted to real runs, and judged on others: docs/simulator.md.

`sums` adds up what a series' tables say, `starts` finds which workers started for what, `fit` turns sums into costs,
`judgement` sets simulated runs beside real ones, `validation` keeps what came of it and says it in sentences.
"""
