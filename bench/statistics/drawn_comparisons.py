"""How often comparisons are wrong, from real runs: `python -m bench.statistics.drawn_comparisons SERIES …`.

One analysed series has runs of the same code as two variants and of slower code as a third, each once a block. Of its
blocks comparisons are drawn and judged by the product's own code: A/A is the same against the same again, A/B the same
against the slower. Which run of a block is A of an A/A comparison is drawn too, which under one code changes nothing
but chance; `--as-run` leaves the variants as they are. Only primary metrics are judged: the others have a correction
of their own.

Comparisons that share blocks are not independent, so a share over all draws has no binomial error. `disjoint` splits
the series at random into comparisons that share none, as many as it holds, again and again: the mean share, and where
90 % of these splits lie.
"""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from pathlib import Path
from random import Random

import numpy as np

from analysis.compare import latencies
from analysis.compare.blocks import MetricBlocks, PairRuns, SideRuns, metric_blocks, runs_of
from analysis.compare.evaluation import evaluate
from analysis.compare.question import Pair
from analysis.compare.result import ComparisonResult, Verdict
from analysis.compare.verdict import DifferencesOnRecord, block_differences
from analysis.metrics.definitions import PRIMARY
from analysis.metrics.uncertainty import clock_errors
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import rows
from bench.statistics.comparisons import LEVEL, question
from bench.tables import markdown_table, percent_text

BlockNumbers = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    same: str
    same_again: str
    slower: str
    metric: str = "throughput_after"
    goal_percent: float = 5.0
    as_run: bool = False
    on_record: bool = False  # A/A differences of the blocks that are left out are the floor's


@dataclass(frozen=True)
class Answer:
    """Of one comparison: whether any primary metric is called, and what is said of the metric asked for."""

    called: bool
    verdict: Verdict
    half_width: float  # %


class Series:
    """What comparisons are drawn from. Raises ValueError where no block has a run of each variant."""

    def __init__(self, folder: Path, request: Request) -> None:
        self.request, self.paths = request, SeriesPaths(folder)
        runs = rows(self.paths, "runs")
        names = (request.same, request.same_again, request.slower)
        self.runs = {name: runs_of(Pair(name, name, name), runs).a.complete for name in names}
        self.blocks = sorted(set.intersection(*(set(found) for found in self.runs.values())))
        if not self.blocks:
            counts = ", ".join(f"{name} {len(found)}" for name, found in self.runs.items())
            raise ValueError(f"{folder}: no block has a complete run of each variant; complete runs: {counts}")
        self.measurements = [row for row in rows(self.paths, "measurements")
                             if row["metric"] in PRIMARY and row["metric"] not in latencies.METRICS]  # fmt: skip

    @cached_property
    def events(self) -> Mapping[tuple[str, str], latencies.WatchedEvent]:
        return latencies.latency_events(lambda name: rows(self.paths, name))

    def same_code(self, blocks: BlockNumbers, rng: Random) -> ComparisonResult:
        return self.same_against_again(blocks, {
            block for block in blocks if not self.request.as_run and rng.random() < 0.5
        })  # fmt: skip

    def same_against_again(self, blocks: BlockNumbers, swapped: Collection[int] = ()) -> ComparisonResult:
        a, b = self.runs[self.request.same], self.runs[self.request.same_again]
        return self._compare({block: (b if block in swapped else a)[block] for block in blocks},
                             {block: (a if block in swapped else b)[block] for block in blocks})  # fmt: skip

    def slower_code(self, blocks: BlockNumbers, _rng: Random) -> ComparisonResult:
        a, b = self.runs[self.request.same], self.runs[self.request.slower]
        return self._compare({block: a[block] for block in blocks}, {block: b[block] for block in blocks})

    def _compare(self, a: Mapping[int, str], b: Mapping[int, str]) -> ComparisonResult:
        runs = _pair_runs(a, b)
        return evaluate(question(self.request.goal_percent), [runs], self._metric_blocks(runs), {},
                        self._on_record(a) if self.request.on_record else {})  # fmt: skip

    def _metric_blocks(self, runs: PairRuns) -> list[MetricBlocks]:
        after = latencies.blocks_of_events([runs], self.events, clock_errors(self.paths))
        others = metric_blocks([runs], self.measurements, {}, untimed_on_record=False)  # no latencies are among them
        return [*others, *(each for each in after if each.metric in PRIMARY)]

    def _on_record(self, drawn: Collection[int]) -> DifferencesOnRecord:
        return {key: [size for block, size in found.items() if block not in drawn]
                for key, found in self._differences.items()}  # fmt: skip

    @cached_property
    def _differences(self) -> dict[tuple[str, str], dict[int, float]]:
        runs = _pair_runs(*({block: self.runs[name][block] for block in self.blocks}
                            for name in (self.request.same, self.request.same_again)))  # fmt: skip
        return {
            (each.metric, each.event): dict(
                zip((block.number for block in each.blocks), block_differences(each), strict=False)
            )
            for each in self._metric_blocks(runs)
        }


def _pair_runs(a: Mapping[int, str], b: Mapping[int, str]) -> PairRuns:
    return PairRuns(Pair("drawn", "a", "b"), SideRuns(a, ()), SideRuns(b, ()))


def answer(found: ComparisonResult, metric: str) -> Answer:
    """Raises ValueError where it has no interval of the metric."""
    row = next((row for row in found.primary if row.metric == metric and row.half_width is not None), None)
    if row is None or row.half_width is None:
        there = ", ".join(f"{row.metric} {row.verdict.value}" for row in found.primary) or "none"
        raise ValueError(f"a comparison has no interval of {metric}; its primary metrics: {there}")
    return Answer(any(row.called for row in found.primary), row.verdict, row.half_width)


def drawn_sets(blocks: Sequence[int], size: int, most: int, rng: Random) -> list[BlockNumbers]:
    """All sets of so many blocks, or `most` different ones of them."""
    number = comb(len(blocks), size)
    if number <= 4 * most:
        every = list(combinations(blocks, size))
        return every if number <= most else rng.sample(every, most)
    found: set[BlockNumbers] = set()
    while len(found) < most:
        found.add(tuple(sorted(rng.sample(blocks, size))))
    return sorted(found)


def consecutive_sets(blocks: Sequence[int], size: int) -> list[BlockNumbers]:
    return [tuple(blocks[start : start + size]) for start in range(len(blocks) - size + 1)]


def disjoint_sets(blocks: Sequence[int], size: int, rng: Random) -> list[BlockNumbers]:
    """A random split; blocks that are left over are in none."""
    shuffled = rng.sample(blocks, len(blocks))
    return [tuple(sorted(shuffled[start : start + size])) for start in range(0, len(blocks) - size + 1, size)]


Compare = Callable[[BlockNumbers, Random], ComparisonResult]


@dataclass(frozen=True)
class Shares:
    """Of many comparisons, from 0 to 1; `half_width`: their median, %."""

    called: float
    better: float
    worse: float
    no_difference: float
    half_width: float


def shares(found: Sequence[Answer]) -> Shares:
    verdicts = [each.verdict for each in found]
    better, worse, equal = (
        verdicts.count(each) / len(found) for each in (Verdict.BETTER, Verdict.WORSE, Verdict.NO_DIFFERENCE)
    )
    half_width = float(np.median([each.half_width for each in found]))
    return Shares(sum(each.called for each in found) / len(found), better, worse, equal, half_width)


def answers(series: Series, compare: Compare, sets: Sequence[BlockNumbers], rng: Random) -> list[Answer]:
    return [answer(compare(each, rng), series.request.metric) for each in sets]


def table(series: Series, sizes: Sequence[int], most: int, splits: int, rng: Random) -> str:
    lines = []
    for size in sizes:
        drawn, in_a_row = drawn_sets(series.blocks, size, most, rng), consecutive_sets(series.blocks, size)
        for name, sets in ((f"any of {comb(len(series.blocks), size)}", drawn), ("consecutive", in_a_row)):
            a_a, a_b = (
                shares(answers(series, compare, sets, rng)) for compare in (series.same_code, series.slower_code)
            )
            lines.append([str(size), name, str(len(sets)), *_cells([a_a], [a_b])])
        split = [disjoint_sets(series.blocks, size, rng) for _ in range(splits)]
        a_a_s, a_b_s = (
            [shares(answers(series, compare, sets, rng)) for sets in split]
            for compare in (series.same_code, series.slower_code)
        )
        lines.append([str(size), "disjoint", f"{splits} × {len(split[0])}", *_cells(a_a_s, a_b_s)])
    headings = ["blocks", "sets", "comparisons", "A/A calls any, %", "A/A no difference, %", "A/A half width, %",
                "A/B worse, %", "A/B better, %", "A/B no difference, %", "A/B half width, %"]  # fmt: skip
    return markdown_table(_title(series), headings, lines)


def _cells(a_a: Sequence[Shares], a_b: Sequence[Shares]) -> list[str]:
    return [
        *(_share_text([getattr(each, name) for each in a_a]) for name in ("called", "no_difference")),
        f"{np.median([each.half_width for each in a_a]):.1f}",
        *(_share_text([getattr(each, name) for each in a_b]) for name in ("worse", "better", "no_difference")),
        f"{np.median([each.half_width for each in a_b]):.1f}",
    ]


def _share_text(found: Sequence[float]) -> str:
    if len(found) == 1:
        return percent_text(found[0])
    low, high = np.quantile(found, 0.05, method="lower"), np.quantile(found, 0.95, method="higher")
    return f"{percent_text(float(np.mean(found)))} ({percent_text(low)}–{percent_text(high)})"


def _title(series: Series) -> str:
    request, every = series.request, tuple(series.blocks)
    whole = (series.same_against_again(every), series.slower_code(every, Random()))
    rows = [next(row for row in found.primary if row.metric == request.metric) for found in whole]
    differences = [f"{name} {row.difference:+.2f} % [{row.low:+.2f}, {row.high:+.2f}]"
                   for name, row in zip((request.same_again, request.slower), rows, strict=True)]  # fmt: skip
    sides = "as they ran" if request.as_run else "drawn in each block"
    floor = "with the A/A differences of the other blocks on record" if request.on_record else "no A/A on record"
    return (
        f"{request.metric}, goal {request.goal_percent:g} %, {floor}; over all {len(every)} blocks "
        f"{request.same} against {' and '.join(differences)}; sides of A/A {sides}. "
        f"Promised: A/A calls any in at most {100 * LEVEL:g} %."
    )


def _sizes(text: str) -> range:
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("series", type=Path)
    parser.add_argument("--same", required=True, metavar="A,B", help="the two variants of the same code")
    parser.add_argument("--slower", required=True, metavar="VARIANT")
    parser.add_argument("--blocks", type=_sizes, default=range(3, 7), metavar="LEAST-MOST")
    parser.add_argument("--draws", type=int, default=10_000, help="sets of blocks at most, of each size")
    parser.add_argument("--splits", type=int, default=200, help="random splits into comparisons that share no block")
    parser.add_argument("--metric", default="throughput_after")
    parser.add_argument("--goal", type=float, default=5.0, metavar="PERCENT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--as-run", action="store_true", help="A/A: do not draw which run of a block is A")
    parser.add_argument("--on-record", action="store_true", help="the other blocks' A/A differences are on record")
    options = parser.parse_args()
    same, same_again = options.same.split(",")
    request = Request(same, same_again, options.slower, options.metric, options.goal, options.as_run, options.on_record)
    print(table(Series(options.series, request), options.blocks, options.draws, options.splits, Random(options.seed)))


if __name__ == "__main__":
    main()
