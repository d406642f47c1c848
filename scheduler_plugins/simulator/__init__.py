"""A Storm cluster as a queueing model: deterministic for a seed, on a clock of its own.

`work` says what components do to tuples and what machines can do, `layout` turns what runs into arrays, `flow` moves
tuples through them for one step, `cpu` shares cores, `world` has machines, workers and time, `lines` writes what the
workers and probes of a real cluster would have written. docs/decisions/0038 says what is modelled and why so.
"""
