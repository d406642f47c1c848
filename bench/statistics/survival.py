"""Coverage of the intervals of a ratio of times, by simulation: `python -m bench.statistics.survival`.

Times are log-normal: a median of 200 s, a standard deviation of 40 % in logarithms, in steps of 10 s (a window; many
are equal) or not. Both sides are watched for the same time, within which a share of b never gets there. Seeded.
"""

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np

from analysis.stats.survival import Times, ratio_interval, ratio_p
from bench.tables import markdown_table, percent_text

MEDIAN_S, SPREAD = 200.0, 0.4
SIZES = (4, 6, 10)
SHARES = (0.0, 0.2, 0.5)  # of b's times, beyond the horizon
RATIOS = (1.0, 0.5)
STEPS = (0.0, 10.0)
SEED = 16


@dataclass(frozen=True)
class Cell:
    """`ratio`: the true one. `step`: in which times are measured, s; 0: as they are."""

    runs: int
    censored: float
    ratio: float
    step: float

    @property
    def horizon_s(self) -> float:
        from scipy.stats import norm

        if self.censored == 0.0:
            return np.inf
        horizon = MEDIAN_S * float(np.exp(SPREAD * norm.isf(self.censored)))
        return 10.0 * round(horizon / 10.0)


@dataclass(frozen=True)
class Shares:
    """Of simulated pairs: `covered` the true ratio, `bounded` on both sides, `called` different at 5 %; `width`: the
    median of high / low where bounded."""

    covered: float
    bounded: float
    called: float
    width: float | None


def draw(rng: np.random.Generator, cell: Cell, ratio: float) -> tuple[list[float], list[bool]]:
    """Times or horizons, and which are horizons."""
    times = ratio * MEDIAN_S * np.exp(SPREAD * rng.standard_normal(cell.runs))
    if cell.step:
        times = cell.step * np.ceil(times / cell.step)
    return np.minimum(times, cell.horizon_s).tolist(), (times > cell.horizon_s).tolist()


def shares(rng: np.random.Generator, cell: Cell, number: int) -> Shares:
    covered = bounded = called = 0
    widths = []
    for _ in range(number):
        drawn = [draw(rng, cell, ratio) for ratio in (cell.ratio, 1.0)]
        pair = [Times(tuple(times), tuple(censored)) for times, censored in drawn]
        found = ratio_interval(pair[0], pair[1])
        covered += found.low <= cell.ratio <= found.high
        called += 2 * min(ratio_p(pair[0], pair[1], 1.0, "less"), ratio_p(pair[0], pair[1], 1.0, "greater")) <= 0.05
        if found.low > 0.0 and found.high < np.inf:
            bounded += 1
            widths.append(found.high / found.low)
    return Shares(covered / number, bounded / number, called / number, float(np.median(widths)) if widths else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=1000, help="simulated, of each row")
    number, rng = parser.parse_args().pairs, np.random.default_rng(SEED)
    lines = []
    for size, censored, ratio, step in product(SIZES, SHARES, RATIOS, STEPS):
        found = shares(rng, Cell(size, censored, ratio, step), number)
        lines.append([
            f"{size} v {size}", percent_text(censored), f"{ratio:g}", f"{step:g} s" if step else "none",
            percent_text(found.covered), percent_text(found.bounded),
            "–" if found.width is None else f"{found.width:.2f}", percent_text(found.called),
        ])  # fmt: skip
    headings = ["runs", "of b's never, %", "true ratio", "steps", "covered, %", "bounded on both sides, %",
                "high / low, median", "called different at 5 %, %"]  # fmt: skip
    print(markdown_table(f"95 % intervals of the ratio of times, {number} pairs a row", headings, lines))


if __name__ == "__main__":
    main()
