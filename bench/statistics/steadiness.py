"""How often a series is called steady, and how often wrongly: the test's rates of error on made-up series.

  python -m bench.statistics.steadiness [once|watched]... [--series 2000] [--seed N]

Series are 10 s windows of a known shape with independent noise. Where the shape has no level, each verdict `steady` is
wrong; where it has a ramp or a dip, one whose steady part has so much of it that its true mean is more than 2 % off the
level. `once`: one look at so many windows, as the analysis has them. `watched`: a look at each window from 40 s on
until the ceiling, as the run step has them. docs/decisions/statistics.md has what this printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from analysis.metrics.steadiness import FEWEST_WINDOWS, WINDOW_S, is_steady
from bench.tables import markdown_table
from tests.support.series_with_answers import (
    CLIMB,
    GENTLE,
    HALVED,
    LEVEL_FROM_THE_START,
    RAMPS,
    TRENDS,
    Rates,
    Shape,
    series,
)

NOISE = (0.02, 0.05, 0.10)  # standard deviation of a window, as a share of its mean
WINDOWS = (4, 6, 9, 12, 30)
CEILINGS_S = (100, 150, 200)
SHAPES = (LEVEL_FROM_THE_START, *RAMPS, CLIMB, *TRENDS, GENTLE, HALVED)


def since(rates: Rates) -> int | None:
    """The first window of the steady part; None: not steady."""
    found = is_steady(rates.tolist(), WINDOW_S)
    return round(found.since_s / WINDOW_S) if found.steady and found.since_s is not None else None


def once(number: int, rng: np.random.Generator) -> str:
    rows = []
    for shape in SHAPES:
        for noise in NOISE:
            cells = []
            for windows in WINDOWS:
                found = [since(series(shape, noise, windows, rng)) for _ in range(number)]
                cells.append(_shares([(windows, begin) for begin in found if begin is not None], shape, number))
            rows.append([shape.name, f"{noise:.0%}", *cells])
    return markdown_table(
        "One look: called steady (of them wrongly), %", ["shape", "noise", *(f"{n} windows" for n in WINDOWS)], rows
    )


def watched(number: int, rng: np.random.Generator) -> str:
    rows = []
    for shape in SHAPES:
        for noise in NOISE:
            cells: list[str] = []
            for ceiling_s in CEILINGS_S:
                most = round(ceiling_s / WINDOW_S)
                looks = [_first_steady(series(shape, noise, most, rng)) for _ in range(number)]
                ends = [look for look in looks if look is not None]
                waited = sum(end for end, _ in ends) * WINDOW_S / len(ends) if ends else None
                cells.append(f"{_shares(ends, shape, number)}, {'–' if waited is None else f'{waited:.0f} s'}")
            rows.append([shape.name, f"{noise:.0%}", *cells])
    heads = ["shape", "noise", *(f"ceiling {s} s" for s in CEILINGS_S)]
    return markdown_table("Watched: ended steady (of them wrongly), %, after", heads, rows)


def _first_steady(rates: Rates) -> tuple[int, int] | None:
    """After how many windows the watch ends, and the first window of the steady part."""
    for seen in range(FEWEST_WINDOWS, len(rates) + 1):
        begin = since(rates[:seen])
        if begin is not None:
            return seen, begin
    return None


def _shares(steady: Sequence[tuple[int, int]], shape: Shape, number: int) -> str:
    """`steady`: windows seen, and the first of the steady part."""
    wrong = sum(shape.is_wrong(begin, seen) for seen, begin in steady)
    return f"{100 * len(steady) / number:.0f} ({100 * wrong / number:.0f})"


PARTS = {"once": once, "watched": watched}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.parts or PARTS:
        print(PARTS[name](options.series, np.random.default_rng(options.seed)), end="\n\n")


if __name__ == "__main__":
    main()
