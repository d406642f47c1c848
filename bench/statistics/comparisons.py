"""How often comparisons would be wrong, by simulation: `python -m bench.statistics.comparisons`.

A simulated comparison has blocks of one run of each side in random order, and several primary metrics without
correlation (the worst case for a whole sentence). Values are logarithms of what would be measured; `spread` is the
standard deviation of a run. With `--series` the noise is drawn from how runs of one variant scatter on record.
What runs on record really differ by, without a model of their noise: `bench.statistics.drawn_comparisons`.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analysis.compare.blocks import Block, LostRun, MetricBlocks, PairRuns, SideRuns, Value
from analysis.compare.evaluation import evaluate
from analysis.compare.question import Budget, ComparedSide, ComparedSides, Pair, Question
from analysis.compare.result import RUNS_FAILED, ComparisonResult, Verdict
from analysis.compare.verdict import level_of_one_check
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import rows
from analysis.stats import paired_differences
from analysis.stats.paired_differences import (
    MINIMUM_BLOCKS,
    Array,
    errors_to_exclude,
    errors_to_find,
    half_width,
    mean_and_error,
    p_value,
)
from bench.tables import markdown_table, percent_text

METRIC = "throughput_after"


def residuals(series_dirs: Iterable[Path], metric: str = METRIC) -> Array:
    """Logarithmic distances of complete runs from the mean of their variant, as wide as if the mean were known."""
    found = [_group_residuals(group) for folder in series_dirs for group in _groups(SeriesPaths(folder), metric)]
    return np.concatenate([np.empty(0), *found])


def _groups(paths: SeriesPaths, metric: str) -> list[list[float]]:
    """Values of each variant and event; fewer than three say nothing about their scatter."""
    variants = {run["run_id"]: run["variant"] for run in rows(paths, "runs") if run["status"] == "complete"}
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows(paths, "measurements"):
        if row["metric"] == metric and row["run_id"] in variants and row["value"] > 0 and not row["censored"]:
            values[variants[row["run_id"]], row["event_id"]].append(row["value"])
    return [group for group in values.values() if len(group) >= MINIMUM_BLOCKS]


def _group_residuals(values: list[float]) -> Array:
    logarithms = np.log(values)
    return np.asarray((logarithms - logarithms.mean()) * np.sqrt(len(values) / (len(values) - 1)), dtype=np.float64)


LEVEL = 0.05
GOAL = float(np.log1p(0.05))
BLOCKS = (3, 4, 5, 6, 8, 10, 15, 20)
SEED = 6
Noise = Callable[[np.random.Generator, tuple[int, ...], float], Array]


@dataclass(frozen=True)
class Sides:
    """Logarithms, (comparisons, metrics, blocks)."""

    a: Array
    b: Array


def normal(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    return rng.normal(0.0, spread, shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    """Student's t with 3 degrees of freedom: now and then a run is far off."""
    return np.asarray(rng.standard_t(3, shape) * spread / np.sqrt(3.0), dtype=np.float64)


def drifting(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    """A box that gets steadily slower, a random walk on top, and the noise of each run."""
    walk = rng.normal(0.0, spread / 4, shape).cumsum(axis=-1)
    return walk - np.arange(shape[-1]) * spread / 8 + rng.normal(0.0, spread, shape)


def two_states(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
    """Runs that settle in one of two states, with hardly a scatter inside: the worst that we can think of."""
    return rng.choice([-spread, spread], shape) + rng.normal(0.0, spread / 20, shape)


def noise_from(residuals: Array) -> Noise:
    """What runs on record scattered by, whatever `spread`."""

    def noise(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Array:
        return rng.choice(residuals, shape)

    return noise


Noises = Mapping[str, Noise]
NOISES: Noises = {"normal": normal, "heavy-tailed": heavy, "drifting": drifting, "two states": two_states}


def simulate(
    rng: np.random.Generator, number: int, metrics: int, blocks: int, noise: Noise, spread: float, shift: float = 0.0
) -> Sides:
    """`shift`: the true logarithmic difference of the first metric."""
    runs = noise(rng, (number, metrics, 2 * blocks), spread).reshape(number, metrics, blocks, 2)
    first_is_a = rng.random((number, 1, blocks)) < 0.5
    a = np.where(first_is_a, runs[..., 0], runs[..., 1])
    b = np.where(first_is_a, runs[..., 1], runs[..., 0])
    b[:, 0] += shift
    return Sides(a, b)


@dataclass(frozen=True)
class Judgements:
    """Of each comparison and metric: what verdict.py decides."""

    called: npt.NDArray[np.bool_]
    mean: Array
    half: Array  # of the 95 % interval

    def no_difference(self, goal: float = GOAL) -> npt.NDArray[np.bool_]:
        return ~self.called & (np.abs(self.mean) + self.half <= goal)


def judge_sides(sides: Sides, floored: bool = True) -> Judgements:
    blocks = sides.a.shape[-1]
    mean, error = mean_and_error(sides.b - sides.a)
    called = paired_differences.holm(p_value(mean, error, blocks)) < LEVEL
    if floored:
        called &= np.abs(mean) >= paired_differences.neighbour_floor(sides.a, sides.b, LEVEL)
    return Judgements(called, mean, half_width(error, blocks))


@dataclass(frozen=True)
class Stopped:
    """Of each comparison when it stopped: which metrics were called, in which there is no difference, its blocks."""

    called: npt.NDArray[np.bool_]
    no_difference: npt.NDArray[np.bool_]
    blocks: npt.NDArray[np.int_]


def enough_width(blocks: int, metrics: int, goal: float) -> float:
    """The largest half width of an interval with which so many blocks are enough."""
    return float(half_width(goal / max(errors_to_find(blocks, LEVEL / metrics), errors_to_exclude(blocks)), blocks))


def until_certain(sides: Sides, goal: float = GOAL) -> Stopped:
    number, metrics, most = sides.a.shape
    called, equal = np.zeros((number, metrics), dtype=bool), np.zeros((number, metrics), dtype=bool)
    stopped = np.zeros(number, dtype=int)
    for blocks in range(MINIMUM_BLOCKS, most + 1):
        open_ = np.flatnonzero(stopped == 0)
        now = judge_sides(Sides(sides.a[open_, :, :blocks], sides.b[open_, :, :blocks]))
        settled = (
            half_width(1.0, blocks, 1 - level_of_one_check(LEVEL, metrics, most)) / half_width(1.0, blocks) * now.half
        )
        enough = now.half <= enough_width(blocks, metrics, goal)
        done = (enough | (np.abs(now.mean) - settled >= goal)).all(axis=1) | (blocks == most)
        stopped[open_[done]] = blocks
        called[open_[done]], equal[open_[done]] = now.called[done], now.no_difference(goal)[done]
    return Stopped(called, equal, stopped)


@dataclass(frozen=True)
class Failing:
    """How likely the system under test fails a run: of each side by itself, and of both in a block that breaks them."""

    a: float = 0.0
    b: float = 0.0
    both: float = 0.0


FAILING = {"none": Failing(), "B in half": Failing(b=0.5), "B in a tenth": Failing(b=0.1), "A in half": Failing(a=0.5),
           "both in half": Failing(0.5, 0.5), "half of the blocks": Failing(both=0.5)}  # fmt: skip
LABELS = ("main", "branch")
METRICS = (METRIC, "latency_all_p95_ms_after")


def failing_comparison(rng: np.random.Generator, blocks: int, failing: Failing, gain: float = 0.0) -> ComparisonResult:
    """One comparison with runs that fail, by the product's own code; B's throughput is higher by `gain`, a share, and
    its latency is the same. Runs scatter by 1.1 %."""
    numbers = range(1, blocks + 1)
    sides = simulate(rng, 1, len(METRICS), blocks, normal, 0.011, float(np.log1p(gain)))
    broken = rng.random(blocks) < failing.both
    runs = PairRuns(Pair("drawn", "a", "b"), *(
        _side_runs(name, [int(n) for n in np.flatnonzero(broken | (rng.random(blocks) < share)) + 1], numbers)
        for name, share in (("a", failing.a), ("b", failing.b))
    ))  # fmt: skip
    found = [
        MetricBlocks("drawn", metric, "e1", tuple(
            Block(n, *(Value(100.0 * float(np.exp(side[0, place, n - 1]))) for side in (sides.a, sides.b)))
            for n in runs.whole
        ))
        for place, metric in enumerate(METRICS) if runs.whole
    ]  # fmt: skip
    return evaluate(question(), [runs], found, {}, {})


def _side_runs(name: str, failed: Sequence[int], numbers: Iterable[int]) -> SideRuns:
    complete = {number: f"{name}-r{number}" for number in numbers if number not in failed}
    lost = tuple(LostRun(f"{name}-r{number}", number, "system_under_test", "it died") for number in failed)
    return SideRuns(complete, lost)


def question(goal_percent: float = 5.0) -> Question:
    a, b = (ComparedSide(label, label) for label in LABELS)
    pairs = (Pair("drawn", "a", "b"),)
    return Question(1, ComparedSides(a, b), pairs, LEVEL, goal_percent, budget=Budget(blocks=BLOCKS[-1]))


def headline_call(found: ComparisonResult) -> str:
    """The word of the sentence that people quote: `better`, `worse`, `both`, or none."""
    headline = found.sentence.partition(":")[0]
    words = [word for word in ("better", "worse") if word in headline.split()]
    return "both" if len(words) == 2 else words[0] if words else ""


def failing_table(rng: np.random.Generator, number: int) -> str:
    """Whole sentences of ten blocks of which runs fail, and how many of them are said to be certain."""
    rows = []
    for (name, failing), gain in product(FAILING.items(), (-0.1, 0.0, 0.1)):
        found = [failing_comparison(rng, 10, failing, gain) for _ in range(number)]
        calls = [headline_call(each) for each in found]
        failures = [row.verdict for each in found for row in each.primary if row.metric == RUNS_FAILED]
        shares = [*(calls.count(word) for word in ("better", "worse", "both")), sum(each.certain for each in found),
                  sum(each in (Verdict.BETTER, Verdict.WORSE) for each in failures)]  # fmt: skip
        rows.append([name, f"{100 * gain:+.0f}", *(percent_text(share / number) for share in shares)])
    headings = ["runs that fail", "B's throughput, %", "better", "worse", "both", "certain", "failures called"]
    return markdown_table("Where runs fail: sentences of 10 blocks, %", headings, rows)


def bootstrap_covers(rng: np.random.Generator, differences: Array, level: float, resamples: int = 500) -> float:
    """Share of percentile bootstrap intervals of the mean that hold 0."""
    blocks = differences.shape[-1]
    picks = rng.integers(0, blocks, (resamples, blocks))
    low, high = np.quantile(differences[:, picks].mean(axis=-1), [level / 2, 1 - level / 2], axis=1)
    return float(((low <= 0) & (high >= 0)).mean())


def signed_rank_covers(differences: Array, level: float) -> float | None:
    """Share of exact signed-rank intervals (Walsh averages) that hold 0; None: no bounded one of so few blocks."""
    blocks = differences.shape[-1]
    ways = np.zeros(blocks * (blocks + 1) // 2 + 1)  # of the signed-rank statistic
    ways[0] = 1.0
    for rank in range(1, blocks + 1):
        ways[rank:] += ways[:-rank].copy()
    left_out = int(np.searchsorted(ways.cumsum() / 2.0**blocks, level / 2, side="right"))
    if left_out == 0:
        return None
    rows, columns = np.triu_indices(blocks)
    walsh = np.sort((differences[:, rows] + differences[:, columns]) / 2, axis=-1)
    return float(((walsh[:, left_out - 1] <= 0) & (walsh[:, -left_out] >= 0)).mean())


def false_alarm_table(rng: np.random.Generator, number: int, spread: float, noises: Noises) -> str:
    """Whole A/A sentences that call anything."""
    rows = []
    for name, noise in noises.items():
        for metrics in (1, 4, 16):
            found = [simulate(rng, number, metrics, blocks, noise, spread) for blocks in BLOCKS]
            for floored in (True, False):
                shares = [float(judge_sides(sides, floored).called.any(axis=1).mean()) for sides in found]
                rows.append([name, str(metrics), "yes" if floored else "no", *map(percent_text, shares)])
    return markdown_table(
        "A/A sentences that call a difference, %", ["noise", "tests", "floor", *map(str, BLOCKS)], rows
    )


def coverage_table(rng: np.random.Generator, number: int, spread: float, noises: Noises) -> str:
    """Of the 95 % interval of one metric, by the candidates."""
    rows = []
    for name, noise in noises.items():
        shares: dict[str, list[float | None]] = {"Student": [], "percentile bootstrap": [], "signed rank": []}
        for blocks in BLOCKS:
            sides = simulate(rng, number, 1, blocks, noise, spread)
            judgements, differences = judge_sides(sides), (sides.b - sides.a)[:, 0]
            shares["Student"].append(float((np.abs(judgements.mean) <= judgements.half).mean()))
            shares["percentile bootstrap"].append(bootstrap_covers(rng, differences[:2000], LEVEL))
            shares["signed rank"].append(signed_rank_covers(differences, LEVEL))
        rows += [[name, interval, *map(percent_text, found)] for interval, found in shares.items()]
    return markdown_table("Coverage of 95 % intervals, %", ["noise", "interval", *map(str, BLOCKS)], rows)


def power_table(
    rng: np.random.Generator, number: int, spreads: Sequence[float], noises: Noises, metrics: int = 4
) -> str:
    """Injected differences of one of the metrics that are called."""
    rows = []
    for (name, noise), spread in product(noises.items(), spreads):
        for injected in (5, 10, 20):
            shift = float(np.log1p(injected / 100))
            shares = [
                float(judge_sides(simulate(rng, number, metrics, blocks, noise, spread, shift)).called[:, 0].mean())
                for blocks in BLOCKS
            ]
            rows.append([name, f"{100 * spread:.1f}", str(injected), *map(percent_text, shares)])
    headings = ["noise", "spread of a run, %", "injected, %", *map(str, BLOCKS)]
    return markdown_table(f"Differences found, %, one of {metrics} tests", headings, rows)


EQUIVALENCE_BLOCKS = (3, 4, 5, 6, 8, 10)


def equivalence_table(
    rng: np.random.Generator, number: int, spreads: Sequence[float], noises: Noises, metrics: int = 4
) -> str:
    """`no difference` where one metric truly differs by the goal (its error), and where none differs (its power); and
    whole sentences that call something there.
    """
    rows = []
    for (name, noise), spread in product(noises.items(), spreads):
        apart, same = (
            [judge_sides(simulate(rng, number, metrics, blocks, noise, spread, shift)) for blocks in EQUIVALENCE_BLOCKS]
            for shift in (GOAL, 0.0)
        )
        shares = {
            "no difference, differs by the goal": [found.no_difference()[:, 0].mean() for found in apart],
            "no difference, none": [found.no_difference()[:, 0].mean() for found in same],
            "no difference in all, none": [found.no_difference().all(axis=1).mean() for found in same],
            "better or worse in any, none": [found.called.any(axis=1).mean() for found in same],
        }
        for what, said in shares.items():
            rows.append([name, f"{100 * spread:.1f}", what, *map(percent_text, said)])
    headings = ["noise", "spread of a run, %", "said, where there is", *map(str, EQUIVALENCE_BLOCKS)]
    return markdown_table(f"No difference (goal 5 %), %, {metrics} tests", headings, rows)


def stopping_table(
    rng: np.random.Generator, number: int, spreads: Sequence[float], noises: Noises, metrics: int = 4
) -> str:
    """--until-certain with a goal of 5 % and at most 20 blocks; what it says of the metric that may differ, and whole
    sentences that call anything.
    """
    rows = []
    for name, noise in noises.items():
        for spread in spreads:
            for injected in (0, 5, 10):
                shift = float(np.log1p(injected / 100))
                sides = simulate(rng, number, metrics, BLOCKS[-1], noise, spread, shift)
                found = until_certain(sides)
                middle, late = np.quantile(found.blocks, [0.5, 0.9])
                shares = [found.called[:, 0], found.no_difference[:, 0], found.called.any(axis=1)]
                rows.append([name, f"{100 * spread:.1f}", str(injected),
                             *(percent_text(float(share.mean())) for share in shares),
                             f"{middle:.0f}", f"{late:.0f}"])  # fmt: skip
    headings = ["noise", "spread of a run, %", "injected, %", "called, %", "no difference, %", "any called, %",
                "blocks, median", "blocks, 90 %"]  # fmt: skip
    return markdown_table("Until certain (goal ± 5 %, 3 to 20 blocks)", headings, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--comparisons", type=int, default=10_000)
    parser.add_argument("--spreads", type=float, nargs="+", default=[0.011, 0.02, 0.04, 0.08], metavar="SHARE")
    parser.add_argument("--series", type=Path, nargs="+", default=[], help="draw the noise from these series' runs")
    options = parser.parse_args()
    rng, number, spreads = np.random.default_rng(SEED), options.comparisons, options.spreads
    noises: Noises = NOISES
    simple: Noises = {"normal": normal}
    if options.series:
        runs = residuals(options.series)
        noises = simple = {f"of {len(runs)} runs": noise_from(runs)}
        spreads = [float(runs.std())]
    print(false_alarm_table(rng, number, spreads[0], noises))
    print(coverage_table(rng, number, spreads[0], noises))
    print(power_table(rng, number, spreads, simple))
    print(equivalence_table(rng, number, spreads, noises))
    print(stopping_table(rng, number, spreads, noises))
    print(failing_table(rng, min(number, 1000)))


if __name__ == "__main__":
    main()
