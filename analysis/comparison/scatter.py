"""How runs of one variant scatter in series on record: the noise that simulated comparisons are made of."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from analysis.comparison.intervals import MINIMUM_BLOCKS, Array
from analysis.event_ids import event_of
from analysis.record import SeriesPaths
from analysis.small_tables import rows

METRIC = "throughput_after"


def residuals(series_dirs: Iterable[Path], metric: str = METRIC) -> Array:
    """Logarithmic distances of complete runs from the mean of their variant, as wide as if the mean were known."""
    found = [_of_group(group) for folder in series_dirs for group in _groups(SeriesPaths(folder), metric)]
    return np.concatenate([np.empty(0), *found])


def _groups(paths: SeriesPaths, metric: str) -> list[list[float]]:
    """Values of each variant and event; fewer than three say nothing about their scatter."""
    variants = {run["run_id"]: run["variant"] for run in rows(paths, "runs") if run["status"] == "complete"}
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows(paths, "measurements"):
        if row["metric"] == metric and row["run_id"] in variants and row["value"] > 0:
            values[variants[row["run_id"]], event_of(row)].append(row["value"])
    return [group for group in values.values() if len(group) >= MINIMUM_BLOCKS]


def _of_group(values: list[float]) -> Array:
    logarithms = np.log(values)
    return np.asarray((logarithms - logarithms.mean()) * np.sqrt(len(values) / (len(values) - 1)), dtype=np.float64)
