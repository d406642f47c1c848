"""How long a tuple waits before an executor that is not saturated: for others, and until it is noticed. Closed forms.

Judged tuple by tuple in bench/simulator/tuple_by_tuple.py.
"""

from __future__ import annotations

import numpy as np

from scheduler_plugins.simulator.layout import Floats

HIGHEST_UTILISATION = 0.98  # for Kingman's formula: above, the queue of the fluid itself says what waits
TINY = 1e-12


def queue_wait_s(busy: Floats, cv2: Floats, service_s: Floats) -> Floats:
    """Kingman's formula, of arrivals at random ("The single server queue in heavy traffic", 1961)."""
    load = np.minimum(busy, HIGHEST_UTILISATION)
    return np.asarray(load / (1.0 - load) * (1.0 + cv2) / 2 * service_s)


def idle_wait_s(rate: Floats, spin_s: Floats, sleep_s: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of how long a tuple waits until its executor looks, beside the wait for others.

    An executor without tuples looks again and again for `spin_s`, then sleeps `sleep_s` at a time until it finds some:
    a server with vacations (Fuhrmann and Cooper, "Stochastic decompositions in the M/G/1 queue with generalized
    vacations", 1985). Its wait is that of a queue without, and the rest of the sleep in which the tuple came: half of
    it on average, where it did not come before the first one. `rate`: tuples/s that come to it.
    """
    spun, slept = rate * spin_s, rate * sleep_s
    sleeps = np.where(
        slept > 1e-9, slept / np.maximum(-np.expm1(-slept), TINY), 1.0
    )  # rate x time until one finds some
    asleep = np.exp(-spun) * sleeps
    share = np.where(sleep_s > 0, asleep / (-np.expm1(-spun) + asleep), 0.0)
    mean = share * sleep_s / 2
    return np.asarray(mean), np.asarray(share * sleep_s**2 / 3 - mean**2)
