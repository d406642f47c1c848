"""By how much levels of one setting scatter, by the runs on record: `python -m bench.statistics.level_scatter`.

The record is docs/findings_runs.csv, a row a run; the series themselves are not all kept. Before an
event nothing differs between the variants of a block, so all of its runs are of one setting. After it each variant has
a level of its own: what counts is what is left of the logarithms beside a number for each variant and one for each
block. Standard deviations of logarithms, in percent, with the 95 % interval that so few runs leave (chi-square, so
under normal noise).
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.statistics.comparisons import LEVEL
from bench.tables import markdown_table

Array = npt.NDArray[np.float64]
RUNS = Path(__file__).parents[2] / "docs/findings_runs.csv"
SAME_SETTING = {"settings/interruption": "stela/star"}  # but for these, whose workers begin otherwise:
OTHER_SETTINGS = ("even_stock_jvm", "stela_stock_jvm")


@dataclass(frozen=True)
class Levels:
    """Of one run, tuples/s; `block`: a number."""

    experiment: str
    block: int
    variant: str
    before: float
    after: float


def recorded_levels(lines: Iterable[str]) -> list[Levels]:
    """The runs of a table in CSV. Raises KeyError where it lacks a column, ValueError where a level is no number."""
    return [
        Levels(row["experiment"], int(row["block"]), row["variant"],
               float(row["throughput_before"]), float(row["throughput_after"]))
        for row in csv.DictReader(lines)
    ]  # fmt: skip


def settings(runs: Sequence[Levels]) -> dict[str, list[list[Levels]]]:
    """Of each setting its blocks."""
    found: dict[str, list[list[Levels]]] = defaultdict(list)
    alike = (run for run in runs if run.variant not in OTHER_SETTINGS)
    for _, block in groupby(alike, key=lambda run: run.block):
        of_block = list(block)
        found[SAME_SETTING.get(of_block[0].experiment, of_block[0].experiment)].append(of_block)
    return dict(found)


@dataclass(frozen=True)
class Scatter:
    """A standard deviation, in percent, and from how many degrees of freedom."""

    percent: float
    freedom: int

    def interval(self) -> tuple[float, float]:
        from scipy.stats import chi2

        low, high = (self.freedom / chi2.ppf(share, self.freedom) for share in (1 - LEVEL / 2, LEVEL / 2))
        return self.percent * float(np.sqrt(low)), self.percent * float(np.sqrt(high))


def _scatter(squares: float, freedom: int) -> Scatter | None:
    return Scatter(100.0 * float(np.sqrt(squares / freedom)), freedom) if freedom else None


def in_blocks(blocks: Sequence[Sequence[float]]) -> Scatter | None:
    """Of a run around the mean of its block, where nothing differs between them."""
    logs = [np.log(block) for block in blocks]
    squares = sum(float(np.square(each - each.mean()).sum()) for each in logs)
    return _scatter(squares, sum(len(each) - 1 for each in logs))


def of_means(blocks: Sequence[Sequence[float]]) -> Scatter | None:
    """Of the means of blocks, with what single runs add to it."""
    means = np.asarray([np.log(block).mean() for block in blocks])
    return _scatter(float(np.square(means - means.mean()).sum()), len(means) - 1)


def by_runs_alone(blocks: Sequence[Sequence[float]]) -> float | None:
    """What `of_means` would be, in percent, if blocks did not differ."""
    within = in_blocks(blocks)
    return None if within is None else within.percent * float(np.sqrt(np.mean([1 / len(block) for block in blocks])))


def beside_variants(levels: Array) -> Scatter | None:
    """(variants, blocks): of a run, beside a number of its variant and one of its block."""
    logs = np.log(levels)
    left = logs - logs.mean(axis=0, keepdims=True) - logs.mean(axis=1, keepdims=True) + logs.mean()
    return _scatter(float(np.square(left).sum()), (levels.shape[0] - 1) * (levels.shape[1] - 1))


def levels_after(blocks: Sequence[Sequence[Levels]]) -> Array:
    """Of the variants that every block has."""
    of = [{run.variant: run.after for run in block} for block in blocks]
    names = sorted(set.intersection(*(set(each) for each in of)))
    return np.asarray([[each[name] for each in of] for name in names])


def table(blocks_of: Mapping[str, Sequence[Sequence[Levels]]]) -> str:
    rows = []
    for name, blocks in blocks_of.items():
        before = [[run.before for run in block] for block in blocks]
        alone = by_runs_alone(before)
        rows.append([name, f"{sum(map(len, blocks))} in {len(blocks)}", _text(in_blocks(before)),
                     _text(of_means(before)), "–" if alone is None else f"{alone:.1f}",
                     _text(beside_variants(levels_after(blocks)))])  # fmt: skip
    headings = ["experiment", "runs in blocks", "before: a run in its block", "before: means of blocks",
                "… by runs alone", "after: a run in its block"]  # fmt: skip
    return markdown_table("Scatter of levels, % (95 % interval; degrees of freedom)", headings, rows)


def _text(found: Scatter | None) -> str:
    if found is None:
        return "–"
    low, high = found.interval()
    return f"{found.percent:.1f} ({low:.1f} to {high:.{0 if high >= 10.0 else 1}f}; {found.freedom})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=Path, default=RUNS, help="a table like docs/findings_runs.csv")
    with parser.parse_args().runs.open(encoding="utf-8") as lines:
        print(table(settings(recorded_levels(lines))))


if __name__ == "__main__":
    main()
