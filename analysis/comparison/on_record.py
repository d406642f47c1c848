"""A/A comparisons on record: what the same code differed by, on such machines, in the same experiment."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from analysis.comparison import asked as asking
from analysis.comparison.blocks import measured, runs_of
from analysis.comparison.rows import OnRecord, block_differences
from analysis.errors import AnalysisError
from analysis.record import SeriesPaths, read_json
from analysis.small_tables import Row, rows

MOST = 20  # series that are read, the newest


def differences(series_dir: Path) -> OnRecord:
    """(metric, event) -> block differences of earlier series of this experiment that compared a code with itself.

    Only of the same testbed and machines, and never of the series itself: its own noise is in its own floor.
    """
    mine = conditions(SeriesPaths(series_dir))
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for folder in others(series_dir):
        paths = SeriesPaths(folder)
        if conditions(paths) == mine:
            question, runs = asking.read(folder), rows(paths, "runs")
            for each in measured((runs_of(pair, runs) for pair in question.pairs), rows(paths, "measurements")):
                found[each.metric, each.event] += block_differences(each)
    return dict(found)


def others(series_dir: Path) -> list[Path]:
    beside = (path.parent for path in series_dir.parent.glob(f"*/{asking.FILE}"))
    return [folder for folder in sorted(beside, reverse=True) if folder != series_dir and _same_code(folder)][:MOST]


def _same_code(folder: Path) -> bool:
    """A series that cannot be read is no record of anything."""
    try:
        return asking.read(folder).same_code
    except AnalysisError:
        return False


def conditions(paths: SeriesPaths) -> tuple[Any, ...]:
    """What must be equal for two series to scatter alike: the testbed and its machines, as the runs had them."""
    machines = {tuple(row[column] for column in ("type", "cores", "memory_mb", "bandwidth_mbit", "slots"))
                for row in rows(paths, "machines")}  # fmt: skip
    return _testbed(paths), tuple(sorted(map(str, machines))), _host(rows(paths, "runs"))


def _testbed(paths: SeriesPaths) -> str:
    try:
        chosen = read_json(paths.series_json).get("spec", {}).get("testbed", {})
    except AnalysisError:
        return ""
    return json.dumps({key: chosen.get(key) for key in ("name", "machine_type", "scale", "bandwidth_mbit")})


def _host(runs: list[Row]) -> tuple[str, ...]:
    facts = (json.loads(run.get("harness_facts") or "{}") for run in runs)
    return tuple(sorted({f"{known.get('cpu_model')} {known.get('cpus')}" for known in facts}))
