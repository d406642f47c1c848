"""A sweep on disk: `sweep.json`, and one folder that has the tables of all of its points' runs."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from analysis.record.files import SeriesPaths, experiment_of, read_json_or_none
from analysis.record.small_tables import Row, rows
from barograph.plan.experiment import SIMULATED, WHOLE_CLUSTER

SWEEP_FILE = "sweep.json"
PREFIX = "sweep-"  # of its folder's name
OTHER_CODE = "runs_of_other_code"  # in sweep.json: numbers of complete ones by code, other than `code`
# Fields whose values are repetitions of the same thing.
REPLICATES = ("seed", "testbed.options.simulated.seed")
Values = tuple[tuple[str, str], ...]  # a field's path, and the JSON of its value


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP_FILE).is_file()


def newest_sweeps(results: Path) -> dict[str, SeriesPaths]:
    """Return by name the newest simulated sweep with tables, even if points of it failed, which its rows then say; of
    searches one that is over."""
    sweeps: dict[str, SeriesPaths] = {}
    for path in sorted(results.glob(f"*/*/{PREFIX}*/{SWEEP_FILE}"), key=lambda path: path.parent.name):
        paths, name = SeriesPaths(path.parent), experiment_of(path.parent)
        document = read_json_or_none(path) or {}
        is_over = "search" not in document or bool(document["search"].get("results"))
        if is_over and paths.table("measurements").is_dir() and document.get("testbed", SIMULATED) == SIMULATED:
            sweeps[name] = paths
    return dict(sorted(sweeps.items()))


def is_mixed(others: Mapping[str, int], runs: int) -> bool:
    """Return whether the complete runs of a sweep are of several codes; `others`: its document's OTHER_CODE."""
    return len(others) > 1 or 0 < sum(others.values()) < runs


def point_of(run_id: str) -> int:
    """Return the point; links are called `<number of the point>.<run>`."""
    return int(run_id.partition(".")[0])


def split_values(values: Mapping[str, Any]) -> tuple[Values, Values]:
    """Split a point's values into its fields, and those that only distinguish repetitions."""
    pairs = [(path, json.dumps(value)) for path, value in values.items()]
    return (
        tuple(pair for pair in pairs if pair[0] not in REPLICATES),
        tuple(pair for pair in pairs if pair[0] in REPLICATES),
    )


def measurements(paths: SeriesPaths) -> list[Row]:
    """Return rows of the table; if runs have several topologies those of the cluster."""
    return of_whole_runs(row for row in rows(paths, "measurements") if row["value"] is not None)


def of_whole_runs(found: Iterable[Row]) -> list[Row]:
    """Return rows of a run's only topology, or of the cluster if it has several."""
    listed = list(found)
    run_ids = {row["run_id"] for row in listed if row["topology"] == WHOLE_CLUSTER}
    return [row for row in listed if row["run_id"] not in run_ids or row["topology"] == WHOLE_CLUSTER]
