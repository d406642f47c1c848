"""How often verdicts of the ledger would be wrong, by simulation: `python -m tests.calibration.claim_verdicts`
(decision 0035).

A simulated claim has blocks of one run of each variant in random order. The truth is put at the stated number, at the
edges of its region and beyond; the verdict is the product's own. Scatter: what runs on record show (throughput 1.1 % a
run in the micro-topologies, up to 6 % in page_load; times of convergence a third, in windows of ten seconds).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.claims import estimates
from analysis.claims.estimates import Estimated, Times
from analysis.claims.ledger_rows import DIFFERS, REPRODUCED
from analysis.claims.rules import judgement
from analysis.claims.statements import Region, load_claims

Array = npt.NDArray[np.float64]
SEED = 16


@dataclass(frozen=True)
class Noise:
    """Of logarithms: a run's standard deviation, `freedom` of Student's t (0: normal), what a block adds to both sides,
    and by how much each block lies higher than the one before."""

    spread: float = 0.011
    freedom: int = 0
    of_block: float = 0.0
    drift: float = 0.0
    quantum: float = 0.0
    fewest: float = 4.0  # quanta that a value has at least
    horizon: float = np.inf

    def sides(self, rng: np.random.Generator, truth: float, blocks: int, level: float) -> tuple[Array, Array]:
        """Values of the variant and of the baseline around `level`; runs of a block come in random order."""
        noise = (
            rng.standard_t(self.freedom, (2, blocks)) / np.sqrt(self.freedom / (self.freedom - 2))
            if self.freedom
            else rng.normal(size=(2, blocks))
        )
        times = np.arange(2 * blocks).reshape(blocks, 2)
        order = rng.permuted(times, axis=1).T / 2
        logs = self.spread * noise + self.of_block * rng.normal(size=blocks) + self.drift * order
        ratio = np.array([[1.0 + truth / 100.0], [1.0]])
        values = level * ratio * np.exp(logs)
        if self.quantum:
            values = np.maximum(np.round(values / self.quantum), self.fewest) * self.quantum
        return values[0], values[1]


NOISES = {
    "normal": Noise(),
    "page_load": Noise(spread=0.06),
    "heavy": Noise(spread=0.011, freedom=3),
    "drift": Noise(spread=0.011, drift=0.01),
    "blocks": Noise(spread=0.011, of_block=0.05),
}
TIMES = Noise(spread=0.3, quantum=10.0)
CUT = Noise(spread=0.3, quantum=10.0, horizon=300.0)
ZERO = Noise(spread=0.3, quantum=10.0, fewest=0.0)


@dataclass(frozen=True)
class Shares:
    reproduced: float
    differs: float

    @property
    def undecided(self) -> float:
        return 1.0 - self.reproduced - self.differs


Estimator = Callable[[Array, Array, Noise], Estimated | None]


def ratio(variant: Array, baseline: Array, noise: Noise) -> Estimated | None:
    return estimates.paired_ratio(variant.tolist(), baseline.tolist(), noise.quantum)


def own(variant: Array, baseline: Array, noise: Noise) -> Estimated | None:
    """Each run's gain over its own level before."""
    return estimates.own_number((100.0 * (variant / baseline - 1.0)).tolist())


def zero(variant: Array, baseline: Array, noise: Noise) -> Estimated | None:
    return estimates.mean_ratio(variant.tolist(), baseline.tolist(), noise.quantum)


def cut(variant: Array, baseline: Array, noise: Noise) -> Estimated | None:
    """As the ledger has it: paired where all got there, else the log-rank test."""
    if max(variant.max(), baseline.max()) <= noise.horizon:
        return ratio(variant, baseline, noise)
    top, bottom = (
        Times(tuple(np.minimum(side, noise.horizon).tolist()), tuple((side > noise.horizon).tolist()))
        for side in (variant, baseline)
    )
    return estimates.CensoredRatio(top, bottom)


def shares(
    truth: float, region: Region, blocks: int, noise: Noise, draws: int, level: float = 100.0,
    estimator: Estimator = ratio,
) -> Shares:  # fmt: skip
    """Of so many claims whose true number is `truth` (percent)."""
    rng = np.random.default_rng(SEED)
    said = [_verdict(estimator(*noise.sides(rng, truth, blocks, level), noise), region) for _ in range(draws)]
    return Shares(said.count(REPRODUCED) / draws, said.count(DIFFERS) / draws)


def _verdict(found: Estimated | None, region: Region) -> str:
    """No estimate (all of a baseline at zero): none."""
    return "" if found is None else judgement(found.p_inside(region), found.p_outside(region)).verdict


BLOCKS = (3, 4, 5, 6, 8, 10)
DRAWS = 10_000


def table(
    title: str, region: Region, truths: Sequence[tuple[str, float]], noise: Noise, level: float = 100.0,
    estimator: Estimator = ratio, draws: int = DRAWS,
) -> str:  # fmt: skip
    """Markdown; a cell is reproduced / differs in percent."""
    lines = [f"| {title} | {' | '.join(map(str, BLOCKS))} |", f"|---|{'---|' * len(BLOCKS)}"]
    for words, truth in truths:
        cells = (shares(truth, region, blocks, noise, draws, level, estimator) for blocks in BLOCKS)
        texts = (f"{100 * one.reproduced:.1f} / {100 * one.differs:.1f}" for one in cells)
        lines.append(f"| {words} | {' | '.join(texts)} |")
    return "\n".join(lines)


def main() -> None:
    claims = {claim.name: claim for claim in load_claims()}
    star, equal = claims["S03"].region, claims["S09/linear SP"].region
    truths = [
        ("as stated, +65", 65.0), ("at the edge, in", star.high - 0.01), ("at the edge, out", star.high + 0.01),
        ("what Stela's rule gives, +50", 50.0), ("none, 0", 0.0),
    ]  # fmt: skip
    for name, noise in NOISES.items():
        print(table(f"throughput, {name}", star, truths, noise), end="\n\n")
    times = [("as stated, 0", 0.0), ("at the edge, in", equal.high - 0.01), ("at the edge, out", equal.high + 0.01),
             ("half, −50", -50.0)]  # fmt: skip
    print(table("times of convergence around 200 s", equal, times, TIMES, 200.0), end="\n\n")
    print(table("times around 200 s, watched for 300 s", equal, times, CUT, 200.0, cut, DRAWS // 10), end="\n\n")
    gain = claims["S06/own gain"].region
    gains = [("as stated, +80", 80.0), ("at the edge, in", gain.high - 0.01), ("at the edge, out", gain.high + 0.01),
             ("none, 0", 0.0)]  # fmt: skip
    print(table("own gain", gain, gains, NOISES["normal"], estimator=own), end="\n\n")
    less = claims["S13/group 2"].region
    at_zero = [("as stated, −75", -75.0), ("at the edge, in", less.high - 0.1), ("at the edge, out", less.high + 0.1),
               ("none, 0", 0.0)]  # fmt: skip
    print(table("zero windows, 100 s of the baseline", less, at_zero, ZERO, 100.0, zero))


if __name__ == "__main__":
    main()
