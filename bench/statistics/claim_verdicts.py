"""How often verdicts of the ledger would be wrong, by simulation: `python -m bench.statistics.claim_verdicts`
(docs/decisions/claims.md).

A simulated claim has blocks of one run of each variant in random order. The truth is put at the stated number, just in
and just out of its region, and elsewhere; the verdict is the product's own. Scatter of throughput: from the quietest to
the noisiest topology on record (`bench.statistics.level_scatter`); of times of convergence a third, in windows of ten
seconds.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

import numpy as np
import numpy.typing as npt

from analysis.claims import measured_rows, rules
from analysis.claims.measured_rows import VERDICTS_OF_PLACES
from analysis.claims.rows import DIFFERS, REPRODUCED, UNDECIDED, Key, LedgerRow, RunValue, SeriesConditions
from analysis.claims.statements import Claim, load_claims
from analysis.stats import effect
from analysis.stats.effect import LEVEL, Effect, Interval
from analysis.stats.survival import Times

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
    low_baseline: float = 0.0  # share by which every value of the baseline is low: no noise, a fault

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
        ratio = np.array([[1.0 + truth / 100.0], [1.0 - self.low_baseline]])
        values = level * ratio * np.exp(logs)
        if self.quantum:
            values = np.maximum(np.round(values / self.quantum), self.fewest) * self.quantum
        return values[0], values[1]


SPREADS = {f"{percent:g} % a run": Noise(spread=percent / 100.0) for percent in (1.1, 2, 4, 8)}
FEWER_SPREADS = {words: noise for words, noise in SPREADS.items() if noise.spread != 0.02}
NOISES = {
    "normal": Noise(),
    "heavy": Noise(freedom=3),
    "drift": Noise(drift=0.01),
    "blocks": Noise(of_block=0.05),
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


# --- one claim -------------------------------------------------------------------------------------------------------

Estimator = Callable[[Array, Array, Noise], Effect | None]


@dataclass(frozen=True)
class Said:
    """A verdict, and the p that it would be given wrongly."""

    verdict: str
    p: float | None


Simulated = Callable[[np.random.Generator, int], Said]  # the verdict on one claim, of so many blocks
NO_ESTIMATE = Said("", None)  # all of a baseline at zero


def ratio(variant: Array, baseline: Array, noise: Noise) -> Effect | None:
    return effect.paired_ratio(variant.tolist(), baseline.tolist(), noise.quantum)


def apart(variant: Array, baseline: Array, noise: Noise) -> Effect | None:
    """The same where each block is a series of its own: no run has a neighbour, so there is no floor."""
    alone = (1,) * len(variant)
    return effect.paired_ratio(variant.tolist(), baseline.tolist(), noise.quantum, alone)


def own(variant: Array, baseline: Array, noise: Noise) -> Effect | None:
    """Each run's gain over its own level before."""
    return effect.own_number(_gains(variant, baseline).tolist())


def _gains(after: Array, before: Array) -> Array:
    return np.asarray(100.0 * (after / before - 1.0))


def zero(variant: Array, baseline: Array, noise: Noise) -> Effect | None:
    return effect.mean_ratio(variant.tolist(), baseline.tolist(), noise.quantum)


def cut(variant: Array, baseline: Array, noise: Noise) -> Effect | None:
    """As the ledger has it: paired where all got there, else the log-rank test."""
    if max(variant.max(), baseline.max()) <= noise.horizon:
        return ratio(variant, baseline, noise)
    top, bottom = (
        Times(tuple(np.minimum(side, noise.horizon).tolist()), tuple((side > noise.horizon).tolist()))
        for side in (variant, baseline)
    )
    return effect.TimeRatio(top, bottom)


def single(
    truth: float, region: Interval, noise: Noise, level: float = 100.0, estimator: Estimator = ratio
) -> Simulated:
    """A number of its own, in percent."""

    def verdict(rng: np.random.Generator, blocks: int) -> Said:
        found = estimator(*noise.sides(rng, truth, blocks, level), noise)
        return NO_ESTIMATE if found is None else _said(effect.judge(found, region))

    return verdict


def only(claim: Claim, truths: Sequence[float], noise: Noise) -> Simulated:
    """`truths`: the gain of the claim's variant and those of the others."""

    def verdict(rng: np.random.Generator, blocks: int) -> Said:
        gains = [_gains(*noise.sides(rng, truth, blocks, 100.0)) for truth in truths]
        values: dict[Key, list[RunValue]] = {
            (claim.experiment, variant, claim.metric, claim.event): _values(of)
            for variant, of in zip(claim.variants, gains, strict=True)
        }
        return _of_row(measured_rows.measured_row(claim, SeriesConditions(values)))

    return verdict


def derived(claim: Claim, truths: Sequence[float], noise: Noise, level: float = 100.0) -> Simulated:
    """A span, or a lowest number; `truths`: the ratios that the claims in its `of` are about."""
    sources = [CLAIMS[name] for name in claim.of]

    def verdict(rng: np.random.Generator, blocks: int) -> Said:
        rows = {
            source.name: _row(source, ratio(*noise.sides(rng, truth, blocks, level), noise))
            for source, truth in zip(sources, truths, strict=True)
        }
        return _of_row(rules.judge_derived(claim, rows, SeriesConditions({})))

    return verdict


def _row(claim: Claim, found: Effect | None) -> LedgerRow:
    """What a claim that follows from this one takes of it; its own verdict is no part of that."""
    blocks = found.blocks if found else 0
    return LedgerRow(claim, found.point if found else None, None, None, blocks, UNDECIDED, "", (), estimate=found)


CLAIMS = {claim.name: claim for claim in load_claims()}


def _values(numbers: Array) -> list[RunValue]:
    return [
        RunValue(f"r{block}", number, block=("simulated", block)) for block, number in enumerate(numbers.tolist(), 1)
    ]


def _of_row(row: LedgerRow) -> Said:
    return Said(row.verdict, row.p)


def _said(judged: effect.PlaceTest) -> Said:
    return Said(VERDICTS_OF_PLACES[judged.place], judged.p)


# --- many of them ----------------------------------------------------------------------------------------------------


def beside(claim: Claim) -> int:
    """Over how many claims, it among them, Holm's correction runs, as the ledger has it."""
    return sum(each.is_estimated and each.experiment == claim.experiment for each in load_claims(claim.family))


def shares(
    truth: float, region: Interval, blocks: int, noise: Noise, draws: int, level: float = 100.0,
    estimator: Estimator = ratio,
) -> Shares:  # fmt: skip
    """Of so many claims whose true number is `truth` (percent)."""
    return counted(verdicts(single(truth, region, noise, level, estimator), blocks, draws))


def verdicts(simulated: Simulated, blocks: int, draws: int) -> list[Said]:
    rng = np.random.default_rng(SEED)
    return [simulated(rng, blocks) for _ in range(draws)]


def counted(said: Sequence[Said], among: int = 1) -> Shares:
    """`among`: only verdicts count whose p is below 5 % by so many, as in the first step of Holm's correction."""
    firm = [each.verdict for each in said if each.p is not None and each.p < LEVEL / among]
    return Shares(firm.count(REPRODUCED) / len(said), firm.count(DIFFERS) / len(said))


# --- the table -------------------------------------------------------------------------------------------------------

BLOCKS = (3, 4, 6, 10)
FIRM_BLOCKS = 6
BESIDE = 0.01  # how far beside an edge
TENTH, QUARTER = 0.1, 0.25  # of the draws, where a verdict takes long


@dataclass(frozen=True)
class Case:
    """A claim under one noise: `at` a true number, one of `numbers`, by their words. `edge`: an end of the region,
    `inside` the way into it: 1 up, -1 down."""

    claim: Claim
    words: str
    at: Callable[[float], Simulated]
    numbers: Sequence[tuple[str, float]]
    edge: float
    inside: int = -1
    draws: float = 1.0

    @property
    def out_and_in(self) -> tuple[float, float]:
        return self.edge - self.inside * BESIDE, self.edge + self.inside * BESIDE


def lines(case: Case, draws: int) -> Iterator[str]:
    """Rows of the table; the last column is of six blocks and of verdicts that hold among all claims of the
    experiment."""
    number, among = max(1, round(case.draws * draws)), beside(case.claim)
    for words, truth in case.numbers:
        found = _columns(case.at(truth), number, among)
        yield _line(f"{case.words}: {words}", [(one.reproduced, one.differs) for one in found])
    out, within = (_columns(case.at(truth), number, among) for truth in case.out_and_in)
    wrong = [(one.reproduced, other.differs) for one, other in zip(out, within, strict=True)]
    yield _line(f"{case.words}: wrong at the edge", wrong)


def _columns(simulated: Simulated, draws: int, among: int) -> list[Shares]:
    said = {blocks: verdicts(simulated, blocks, draws) for blocks in BLOCKS}
    return [*map(counted, said.values()), counted(said[FIRM_BLOCKS], among)]


def _line(words: str, cells: Sequence[tuple[float, float]]) -> str:
    texts = (f"{100 * reproduced:.1f} / {100 * differs:.1f}" for reproduced, differs in cells)
    return f"| {words} | {' | '.join(texts)} |"


def by_region(
    name: str, noise: Noise, numbers: Sequence[tuple[str, float]], level: float = 100.0, estimator: Estimator = ratio,
    words: str = "", draws: float = 1.0,
) -> Case:  # fmt: skip
    """Of a claim that is about one number; an open region has one end."""
    claim = CLAIMS[name]
    region = claim.region
    edge, inside = (region.high, -1) if isfinite(region.high) else (region.low, 1)
    at = partial(single, region=region, noise=noise, level=level, estimator=estimator)
    return Case(claim, words or name, at, numbers, edge, inside, draws)


def among_others(
    claim: Claim, words: str, simulated: Callable[[Sequence[float]], Simulated], truths: Sequence[float], place: int,
    numbers: Sequence[tuple[str, float]], edge: float, inside: int,
) -> Case:  # fmt: skip
    """Of a claim that is about several numbers, of which one, in its `place`, is put elsewhere."""

    def at(truth: float) -> Simulated:
        return simulated([truth if number == place else other for number, other in enumerate(truths)])

    return Case(claim, words, at, numbers, edge, inside, QUARTER)


def ratios() -> Iterator[Case]:
    numbers = [("as stated, +65", 65.0), ("two executors for star, +50", 50.0)]
    for words, noise in SPREADS.items():
        yield by_region("S03", noise, numbers, words=f"S03, {words}")
    others = {"heavy": "heavy tails", "drift": "drift of 1 % a block", "blocks": "5 % common to a block"}
    for name, words in others.items():
        yield by_region("S03", NOISES[name], numbers, words=f"S03, {words}")
    for words, noise in ((others["blocks"], NOISES["blocks"]), ("4 % a run", SPREADS["4 % a run"])):
        yield by_region("S03", noise, numbers, estimator=apart, words=f"S03, a block a series, {words}")


def gains() -> Iterator[Case]:
    """Over a run's own level before; with one that is held down in every run too."""
    own_gain, at_most, below, at_least = (partial(by_region, name, estimator=own) for name in OWN_NUMBERS)
    for words, noise in FEWER_SPREADS.items():
        yield own_gain(noise, [("as stated, +80", 80.0)], words=f"S06 own gain, {words}")
        none_or_more = [("as stated, 0", 0.0), ("improves, +10", 10.0)]
        yield at_most(noise, none_or_more, words=f"S04 default (at most 0), {words}")
    words, noise = next((words, noise) for words, noise in SPREADS.items() if noise.spread == 0.04)
    falls = [("as SP's numbers imply, −20", -20.0), ("none, 0", 0.0)]
    yield below(noise, falls, words=f"S06 default (falls), {words}")
    keeps = [("as stated, 0", 0.0), ("loses, −20", -20.0)]
    yield at_least(noise, keeps, words=f"S12 Stela (at least 0), {words}")
    for percent in (4, 8):
        low, words = replace(NOISES["normal"], low_baseline=percent / 100.0), f"before {percent} % low"
        yield own_gain(low, [("as stated, +80", 80.0), ("less, +70", 70.0)], words=f"S06 own gain, {words}")
        yield at_most(low, [("as stated, 0", 0.0)], words=f"S04 default, {words}")


OWN_NUMBERS = ("S06/own gain", "S04/default", "S06/default", "S12/stela")


def times() -> Iterator[Case]:
    numbers = [("as stated, 0", 0.0), ("half, −50", -50.0)]
    yield by_region("S09/linear SP", TIMES, numbers, 200.0, words="S09 linear, times of 200 s")
    yield by_region("S09/linear SP", CUT, numbers, 200.0, cut, "S09 linear, watched for 300 s", TENTH)
    longer = [("twice as long, +100", 100.0), ("equal, 0", 0.0)]
    yield by_region("S09/star SP", TIMES, longer, 200.0, words="S09 star (longer), times of 200 s")
    less = [("as stated, −75", -75.0), ("none, 0", 0.0)]
    yield by_region("S13/group 2", ZERO, less, 100.0, zero, "S13 zero windows, 100 s of the baseline")


def of_several() -> Iterator[Case]:
    strategies, span, lowest = CLAIMS["S15"], CLAIMS["S16/throughput ST"], CLAIMS["S16/interruption"]
    stated = [65.0, 45.0, 120.0, 125.0, 125.0]  # as SP states them of star, linear, diamond, page load and processing
    for words, noise in FEWER_SPREADS.items():
        improves, low = partial(only, strategies, noise=noise), strategies.region.low
        one = [("gains 20", 20.0)]
        others = f"S15, others fall by 10, {words}"
        yield among_others(strategies, others, improves, [0.0, *5 * [-10.0]], 0, one, low, 1)
        another = [("another stays", 0.0), ("another gains 20", 20.0)]
        yield among_others(strategies, f"S15, gains 20, {words}", improves, [20.0, *5 * [-10.0]], 1, another, low, -1)
        all_of, diamond = partial(derived, span, noise=noise), [("as stated", 120.0), ("diamond +200", 200.0)]
        yield among_others(span, f"S16 throughput (span), {words}", all_of, stated, 2, diamond, span.region.high, -1)
    shorter, page_load = partial(derived, lowest, noise=TIMES, level=600.0), 3
    numbers = [("one as stated, −87.5", -87.5), ("all −20", -20.0)]
    words, high = "S16 interruption (lowest), times of 600 s", lowest.region.high
    yield among_others(lowest, words, shorter, 5 * [-20.0], page_load, numbers, high, -1)


def table(draws: int) -> str:
    headings = [*map(str, BLOCKS), f"{FIRM_BLOCKS}, among its experiment's"]
    rows = [line for cases in (ratios(), gains(), times(), of_several()) for case in cases
            for line in lines(case, draws)]  # fmt: skip
    return "\n".join([f"| claim, scatter: truth | {' | '.join(headings)} |", f"|---|{'---|' * len(headings)}", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    fewer = "a quarter of those about several numbers, a tenth where a watch ends"
    parser.add_argument("--draws", type=int, default=2_000, help=f"claims in each cell; {fewer}")
    print(table(parser.parse_args().draws))


if __name__ == "__main__":
    main()
