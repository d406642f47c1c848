"""The environment of a series as its records have it (commits, versions, machines), and the pinned requirements that
the analysis needs, found by the `via` comments of requirements.txt.
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
LOG_LINES = 200  # lines of a daemon's log: it says early what it is
RUN_FACTS = ("variant", "status", "failure", "seed", "git_commit", "git_dirty", "versions", "harness_facts", "machines",
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
        runs = {run_id: {name: run[name] for name in RUN_FACTS if name in run} | {"java": self.java.get(run_id)}
                for run_id, run in self.runs.items()}  # fmt: skip
        return {
            "v": 1, "series_id": self.series.get("series_id"), "runs": runs, "analysed": self.analysed,
            "left_out": dict(sorted(left_out.items())),
        }  # fmt: skip


def facts_of_series(root: Path) -> Facts:
    paths = SeriesPaths(root)
    every = paths.all_runs()
    java = {run.run_id: version for run in every if (version := _java_version(run))}
    return Facts(
        read_json(paths.series_json),
        {run.run_id: read_json_or_none(run.run_json) or {} for run in every},
        read_json_or_none(root / FILE) or {},
        java,
    )


def _java_version(run: RunPaths) -> str | None:
    """As Nimbus says it when a topology is submitted."""
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
    """The blocks (pin, hashes, `via` comments) of `roots` and of all that they need."""
    blocks = _pin_blocks(pinned)
    needed = {_canonical_name(name) for name in roots} & set(blocks)
    while more := {name for name in set(blocks) - needed if _vias(blocks[name]) & needed}:
        needed |= more
    return "".join(blocks[name] for name in sorted(needed))


def _pin_blocks(pinned: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = None
    for line in pinned.splitlines(keepends=True):
        if begin := PIN.match(line):
            name = _canonical_name(begin["name"])
            found.setdefault(name, "")  # a package may be pinned once for each version of Python
        if name is not None and line.strip():
            found[name] += line
    return found


def _vias(block: str) -> set[str]:
    comments = (line.strip() for line in block.splitlines() if line.strip().startswith("#"))
    return {_canonical_name(match["name"]) for comment in comments if (match := VIA.match(comment))}


def _canonical_name(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
