"""Sweeps: many simulated experiments of one file, side by side in processes, each a series of its own.

`folder` is what is on disk, `point` does one point in a process of `barograph.pool`. Errors are `barograph.errors`'.
"""
