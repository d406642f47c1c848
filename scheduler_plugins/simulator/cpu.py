"""Sharing of a machine's cores among its threads, as a fair scheduler under a quota does it."""

from __future__ import annotations

import numpy as np

from scheduler_plugins.simulator.layout import Floats, Ints

MOST_ROUNDS = 50


def fair_level(demand: Floats, machine: Ints, cores: Floats) -> Floats:
    """Return, of each machine: how many cores its greediest threads get; infinity where there is enough for all.

    Max-min fairness: who wants less than the level gets what it wants, the others share the rest evenly, so that all
    cores are used. `demand` (cores) and `machine` are of threads, `cores` of machines; a thread on no machine has -1.
    """
    level = np.full(len(cores), np.inf)
    there = machine >= 0
    demand, machine = demand[there], machine[there]
    wanted = np.bincount(machine, demand, minlength=len(cores))
    short = wanted > cores
    if not short.any():
        return level
    rows = short[machine]
    demand, machine = demand[rows], machine[rows]
    threads = np.bincount(machine, minlength=len(cores))
    level[short] = np.maximum(cores[short], 0.0) / threads[short]
    for _ in range(MOST_ROUNDS):
        modest = demand <= level[machine]
        used = np.bincount(machine[modest], demand[modest], minlength=len(cores))
        greedy = np.bincount(machine[~modest], minlength=len(cores))
        higher = np.where(greedy > 0, (np.maximum(cores, 0.0) - used) / np.maximum(greedy, 1), np.inf)
        settled = ~short | (higher <= level * (1 + 1e-12)) | (greedy == 0)
        level = np.where(short & (greedy > 0), np.maximum(level, higher), level)
        if settled.all():
            break
    return level
