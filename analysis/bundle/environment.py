"""The environment of a series from its records (commits, versions, machines), and the pinned requirements of the
analysis, selected by the `via` comments of requirements.txt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.provenance import FILE
from analysis.record.files import RunPaths, SeriesPaths, read_json, read_json_or_none

JDK = re.compile(r"\bJDK-([\w.+-]+)")
LOG_LINES = 200  # lines of a daemon's log, which names its versions at the beginning
RUN_FACTS = ("variant", "status", "failure", "seed", "git_commit", "git_dirty", "versions", "harness_facts", "machines",
          "clock_offset_ms")  # fmt: skip


@dataclass(frozen=True)
class EnvironmentFacts:
    """The contents of README and environment.json."""

    series: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]  # by run id; empty for a run without a readable run.json
    analysed: Mapping[str, Any]
    java: Mapping[str, str]  # of the machines, by run

    def commits(self) -> dict[str, bool]:
        """Return commit -> whether any run used a modified work tree."""
        modified_by_commit: dict[str, bool] = {}
        for run in self.runs.values():
            if commit := run.get("git_commit"):
                modified_by_commit[commit] = modified_by_commit.get(commit, False) or bool(run.get("git_dirty"))
        return modified_by_commit

    def environment(self, left_out: Mapping[str, str]) -> dict[str, Any]:
        """Return environment.json."""
        runs = {run_id: {name: run[name] for name in RUN_FACTS if name in run} | {"java": self.java.get(run_id)}
                for run_id, run in self.runs.items()}  # fmt: skip
        return {
            "v": 1, "series_id": self.series.get("series_id"), "runs": runs, "analysed": self.analysed,
            "left_out": dict(sorted(left_out.items())),
        }  # fmt: skip


def facts_of_series(root: Path) -> EnvironmentFacts:
    paths = SeriesPaths(root)
    every = paths.all_runs()
    java = {run.run_id: version for run in every if (version := _java_version(run))}
    return EnvironmentFacts(
        read_json(paths.series_json),
        {run.run_id: read_json_or_none(run.run_json) or {} for run in every},
        read_json_or_none(root / FILE) or {},
        java,
    )


def _java_version(run: RunPaths) -> str | None:
    """Return the version that Nimbus logs when a topology is submitted."""
    log = run.logs / "master" / "nimbus.log"
    if not log.is_file():
        return None
    with log.open(encoding="utf-8", errors="replace") as file:
        for _, line in zip(range(LOG_LINES), file, strict=False):
            if match := JDK.search(line):
                return match[1]
    return None


PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*==")
VIA = re.compile(r"#\s+(?:via\s+)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)")


def requirements_of(pinned: str, roots: Collection[str]) -> str:
    """Return the blocks (pin, hashes, `via` comments) of `roots` and of all their dependencies."""
    blocks = _pin_blocks(pinned)
    names = {_canonical_name(name) for name in roots} & set(blocks)
    while dependencies := {name for name in set(blocks) - names if _vias(blocks[name]) & names}:
        names |= dependencies
    return "".join(blocks[name] for name in sorted(names))


def _pin_blocks(pinned: str) -> dict[str, str]:
    blocks: dict[str, str] = {}
    name = None
    for line in pinned.splitlines(keepends=True):
        if begin := PIN.match(line):
            name = _canonical_name(begin["name"])
            blocks.setdefault(name, "")  # a package may be pinned once for each version of Python
        if name is not None and line.strip():
            blocks[name] += line
    return blocks


def _vias(block: str) -> set[str]:
    comments = (line.strip() for line in block.splitlines() if line.strip().startswith("#"))
    return {_canonical_name(match["name"]) for comment in comments if (match := VIA.match(comment))}


def _canonical_name(name: str) -> str:
    """Normalise a name as package indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()
