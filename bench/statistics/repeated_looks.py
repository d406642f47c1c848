"""How often a wrong verdict is said of a claim whose interval is given again after each sitting, by simulation:
`python -m bench.statistics.repeated_looks` (docs/decisions/claims.md).

A sitting measures a block in a series of its own. The truth lies just outside the region of S03, or just inside; the
verdict is the product's own, without Holm's correction.
"""

from collections.abc import Collection

import numpy as np

from analysis.claims.measured_rows import VERDICTS_OF_PLACES
from analysis.claims.rows import DIFFERS, REPRODUCED
from analysis.claims.statements import load_claims
from analysis.stats import effect
from analysis.stats.effect import Interval
from bench.statistics.claim_verdicts import NOISES, SEED, Array

LOOKS = {
    "6": (6,),
    "12": (12,),
    "6, 9, 12": (6, 9, 12),
    "each of 6 to 12": range(6, 13),
    "each of 3 to 12": range(3, 13),
}
DRAWS = 2_000


def verdicts(truth: float, region: Interval, looks: Collection[int], draws: int) -> list[dict[int, str]]:
    """Of so many claims, by number of blocks."""
    rng = np.random.default_rng(SEED)
    return [_verdicts(*NOISES["normal"].sides(rng, truth, max(looks), 100.0), region, looks) for _ in range(draws)]


def _verdicts(variant: Array, baseline: Array, region: Interval, looks: Collection[int]) -> dict[int, str]:
    said = {}
    for blocks in looks:
        found = effect.paired_ratio(variant[:blocks].tolist(), baseline[:blocks].tolist(), series=(1,) * blocks)
        if found is not None:
            said[blocks] = VERDICTS_OF_PLACES[effect.judge(found, region).place]
    return said


def main() -> None:
    region = next(claim.region for claim in load_claims() if claim.name == "S03")
    every = range(3, 13)
    for words, truth, wrong in (("out", region.high + 0.01, REPRODUCED), ("in", region.high - 0.01, DIFFERS)):
        said = verdicts(truth, region, every, DRAWS)
        for looks, numbers in LOOKS.items():
            share = sum(any(of[blocks] == wrong for blocks in numbers) for of in said) / DRAWS
            print(f"just {words}, looks at {looks} blocks: {wrong} at some look in {100 * share:.1f} %")


if __name__ == "__main__":
    main()
