"""Calibration: the simulator's costs fitted to real runs, and judged on others: docs/simulator.md.

`sums` adds up a series' tables, `starts` finds the workers that started for each order, `fit` turns sums into costs,
`judgement` sets simulated runs beside real ones, `validation` keeps the result and puts it into sentences.
"""
