"""A sweep on disk: `sweep.json`, and one folder that has the tables of all of its points' runs."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.record.files import SeriesPaths, experiment_of
from analysis.record.small_tables import Row, rows
from barograph.plan.experiment import WHOLE_CLUSTER

SWEEP_FILE = "sweep.json"
PREFIX = "sweep-"  # of its folder's name
OTHER_CODE = "runs_of_other_code"  # in sweep.json: how many complete ones are, by the words for it; `code`: than which
# Fields whose values are repetitions of the same thing.
REPLICATES = ("seed", "testbed.options.simulated.seed")
Values = tuple[tuple[str, str], ...]  # a field's path, and the JSON of its value


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP_FILE).is_file()


def newest_sweeps(results: Path) -> dict[str, SeriesPaths]:
    """By name: the newest sweep with tables, also where points of it failed; then its rows say so."""
    found: dict[str, SeriesPaths] = {}
    for path in sorted(results.glob(f"*/*/{PREFIX}*/{SWEEP_FILE}"), key=lambda path: path.parent.name):
        paths, name = SeriesPaths(path.parent), experiment_of(path.parent)
        if paths.table("measurements").is_dir():
            found[name] = paths
    return dict(sorted(found.items()))


def is_mixed(others: Mapping[str, int], runs: int) -> bool:
    """Whether the complete runs of a sweep are of several codes; `others`: what its document has as OTHER_CODE."""
    return len(others) > 1 or 0 < sum(others.values()) < runs


def point_of(run_id: str) -> int:
    """Links are called `<number of the point>.<run>`."""
    return int(run_id.partition(".")[0])


def split_values(values: Mapping[str, Any]) -> tuple[Values, Values]:
    """Of a point: its fields, and those that only tell repetitions apart."""
    pairs = [(path, json.dumps(value)) for path, value in values.items()]
    return (
        tuple(pair for pair in pairs if pair[0] not in REPLICATES),
        tuple(pair for pair in pairs if pair[0] in REPLICATES),
    )


def measurements(paths: SeriesPaths) -> list[Row]:
    """Rows of the table; where runs have several topologies those of the cluster."""
    return of_whole_runs(row for row in rows(paths, "measurements") if row["value"] is not None)


def of_whole_runs(found: Iterable[Row]) -> list[Row]:
    """Of the only topology of a run, or of the cluster where it has several."""
    listed = list(found)
    several = {row["run_id"] for row in listed if row["topology"] == WHOLE_CLUSTER}
    return [row for row in listed if row["run_id"] not in several or row["topology"] == WHOLE_CLUSTER]
