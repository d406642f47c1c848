"""How many blocks would show a difference of a given size, if the blocks scatter as those seen so far."""

from math import ceil, sqrt

POWER = 0.8
MOST = 999  # more are not worth naming
FEWEST = 3


def blocks(deviation: float, goal: float, level: float) -> int | None:
    """The fewest blocks that find `goal` in 80 % of the cases at `level`; their interval is narrower than ± goal then.

    `deviation`: of one block's difference, on the axis of `goal`. None: more than MOST, or nothing to go by.
    """
    if goal <= 0.0:
        return None
    if _enough(deviation, goal, level, FEWEST):
        return FEWEST
    if not _enough(deviation, goal, level, MOST):
        return None
    too_few, enough = FEWEST, MOST
    while enough - too_few > 1:  # power only grows with more blocks
        middle = ceil((too_few + enough) / 2)
        if _enough(deviation, goal, level, middle):
            enough = middle
        else:
            too_few = middle
    return enough


def _enough(deviation: float, goal: float, level: float, number: int) -> bool:
    error = deviation / sqrt(number)
    return error == 0.0 or power(goal / error, number, level) >= POWER


def power(shift: float, number: int, level: float) -> float:
    """Of Student's paired test for a difference of `shift` standard errors."""
    from scipy.stats import norm, t

    bound = float(t.ppf(1 - level / 2, number - 1))
    # A normal approximation: scipy's noncentral t is nan far out, where the answer is plainly 1.
    return float(norm.sf((bound * (1 - 1 / (4 * (number - 1))) - shift) / sqrt(1 + bound**2 / (2 * (number - 1)))))
