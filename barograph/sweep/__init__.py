"""Sweeps: many simulated experiments of one file, side by side in processes, each a series of its own.

`folder` is what is on disk, `point` does one point, `pool` has the processes. Errors are `barograph.errors`'.
"""
