"""README.md, environment.json and the pinned requirements of a bundle, from the records of its series.

The requirements of the analysis are selected by the `via` comments of requirements.txt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from analysis.provenance import FILE
from analysis.record.files import RunPaths, SeriesPaths, read_json, read_json_or_none
from analysis.record.simulated import is_simulated

JDK = re.compile(r"\bJDK-([\w.+-]+)")
LOG_LINES = 200  # lines of a daemon's log, which names its versions at the beginning
RUN_FACTS = ("variant", "status", "failure", "seed", "git_commit", "git_dirty", "versions", "harness_facts", "machines",
          "clock_offset_ms")  # fmt: skip
HOMES_SHOWN = 10


@dataclass(frozen=True)
class EnvironmentFacts:
    """The contents of README and environment.json."""

    series: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]  # by run id; empty for a run without a readable run.json
    analysed: Mapping[str, Any]
    java: Mapping[str, str]  # of the machines, by run

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
    documents = {run.run_id: read_json_or_none(run.run_json) or {} for run in every}
    return EnvironmentFacts(read_json(paths.series_json), documents, read_json_or_none(root / FILE) or {}, java)


def _java_version(run: RunPaths) -> str | None:
    """Return the version that Nimbus logs when a topology is submitted."""
    log = run.logs / "master" / "nimbus.log"
    if not log.is_file():
        return None
    with log.open(encoding="utf-8", errors="replace") as file:
        return next((match[1] for line in islice(file, LOG_LINES) if (match := JDK.search(line))), None)


def text(
    title: str, run_id: str | None, facts: EnvironmentFacts, claims: Sequence[Mapping[str, Any]],
    sources: Sequence[str], left_out: Mapping[str, str], homes: Sequence[str], trust: str = "",
) -> str:  # fmt: skip
    """Return README.md. `run_id`: of a bundle of one run; `sources`: a line each about the code; `left_out`: name ->
    reason; `homes`: files that name home folders; `trust`: the report's sentence about simulated runs."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, keep_trailing_newline=True
    )
    templates.filters["cell"] = lambda value: " ".join(str(value).split()).replace("|", r"\|")
    environment: dict[str, set[str]] = {}  # values that all runs share; they may differ in a resumed series
    for run in facts.runs.values():
        box = {name: value for name, value in (run.get("harness_facts") or {}).items() if name != "load_1min"}
        machines = {"workers' machines": _machines(run.get("machines") or {})}
        for name, value in {**(run.get("versions") or {}), **box, **machines}.items():
            environment.setdefault(name, set()).add(str(value))
    if facts.java:
        environment["java"] = set(facts.java.values())
    rest = f" and {len(homes) - HOMES_SHOWN} more" if len(homes) > HOMES_SHOWN else ""
    tools = (facts.analysed.get("versions") or {}).items()
    return templates.get_template("README.md.j2").render(
        title=title, run_id=run_id, series=facts.series, runs=facts.runs, claims=claims, sources=sources, trust=trust,
        simulated=is_simulated(facts.series) or any(map(is_simulated, facts.runs.values())), left_out=left_out,
        environment=environment, tools=", ".join(f"{name} {version}" for name, version in tools),
        homes=", ".join(f"`{name}`" for name in homes[:HOMES_SHOWN]) + rest,
    )  # fmt: skip


def _machines(machines: Mapping[str, Mapping[str, Any]]) -> str:
    units = {"cores": "cores", "memory_mb": "MB", "bandwidth_mbit": "Mbit/s", "slots": "slots"}
    kinds = Counter(
        ", ".join(f"{facts[key]} {unit}" for key, unit in units.items() if facts.get(key) is not None)
        for facts in machines.values()
    )
    return " + ".join(f"{number} of {kind}" for kind, number in kinds.items()) or "not known"


PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*==")
VIA = re.compile(r"^\s*#\s+(?:via\s+)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


def requirements_of(pinned: str, roots: Collection[str]) -> str:
    """Return the blocks (pin, hashes, `via` comments) of `roots` and of all their dependencies."""
    blocks: dict[str, str] = {}
    name = None
    for line in pinned.splitlines(keepends=True):
        if begin := PIN.match(line):
            name = _canonical_name(begin["name"])
            blocks.setdefault(name, "")  # a package may be pinned once for each version of Python
        if name is not None and line.strip():
            blocks[name] += line
    vias = {name: {_canonical_name(each) for each in VIA.findall(block)} for name, block in blocks.items()}
    names = {_canonical_name(name) for name in roots} & set(blocks)
    while dependencies := {name for name in set(blocks) - names if vias[name] & names}:
        names |= dependencies
    return "".join(blocks[name] for name in sorted(names))


def _canonical_name(name: str) -> str:
    """Normalise a name as package indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()
