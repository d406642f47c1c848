"""The environment of a series as its records have it: commits, versions, machines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.analysed import NAME
from analysis.errors import RecordError
from analysis.record import RunPaths, SeriesPaths, read_json

JDK = re.compile(r"\bJDK-([\w.+-]+)")
LOOKED_AT = 200  # lines of a daemon's log: it says early what it is
OF_RUN = ("variant", "status", "failure", "seed", "git_commit", "git_dirty", "versions", "harness_facts", "machines",
          "clock_offset_ms")  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What the README and environment.json tell."""

    series: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]  # by run id; of a run without a readable run.json nothing
    analysed: Mapping[str, Any]
    java: Mapping[str, str]  # of the machines, by run

    def commits(self) -> dict[str, bool]:
        """Commit -> whether any run of it was of a changed work tree."""
        found: dict[str, bool] = {}
        for run in self.runs.values():
            if commit := run.get("git_commit"):
                found[commit] = found.get(commit, False) or bool(run.get("git_dirty"))
        return found

    def environment(self, left_out: Mapping[str, str]) -> dict[str, Any]:
        """environment.json."""
        runs = {run_id: {name: run[name] for name in OF_RUN if name in run} | {"java": self.java.get(run_id)}
                for run_id, run in self.runs.items()}  # fmt: skip
        return {
            "v": 1, "series_id": self.series.get("series_id"), "runs": runs, "analysed": self.analysed,
            "left_out": dict(sorted(left_out.items())),
        }  # fmt: skip


def of_series(root: Path) -> Facts:
    paths = SeriesPaths(root)
    every = paths.all_runs()
    java = {run.run_id: version for run in every if (version := _java(run))}
    return Facts(
        read_json(paths.series_json), {run.run_id: _read(run.run_json) for run in every}, _read(root / NAME), java
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except RecordError:
        return {}


def _java(run: RunPaths) -> str | None:
    """As Nimbus says it when a topology is submitted."""
    log = run.logs / "master" / "nimbus.log"
    if not log.is_file():
        return None
    with log.open(encoding="utf-8", errors="replace") as file:
        for _, line in zip(range(LOOKED_AT), file, strict=False):
            if match := JDK.search(line):
                return match[1]
    return None
