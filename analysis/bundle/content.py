"""Which files of a series go into its bundle, and what of it stays behind, with the reason."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from analysis.bundle.archive import Entry
from analysis.bundle.secrets import search
from analysis.errors import BundleError
from analysis.record import SeriesPaths

SERIES = "series"  # where a series is in its bundle
OF_THE_HARNESS = {
    "machines.json": "addresses and ssh keys' places of machines that are gone",
    "stop": "a sign between processes", "hold.json": "a sign between processes",
}  # fmt: skip
NOTHING = ".nothing-was-recorded"
RAW = ("workers", "machines", "logs")  # of a run: what --without raw leaves out
# Nothing is computed of these, so one that holds a secret can stay behind.
TOLD_ONLY = re.compile(r"runs/[^/]+/logs/|attempts/|harness\.log|progress\.jsonl|changes-[^/]*\.patch")
HOMES = re.compile(rb"/(?:home|Users)/[\w.-]+/|/root/")


@dataclass
class Chosen:
    """`left_out`: name -> why; `homes`: files that name folders of somebody's home."""

    entries: list[Entry] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    homes: list[str] = field(default_factory=list)


def choose(root: Path, *, without_raw: bool, environment: Mapping[str, str]) -> Chosen:
    """Files of the series in `root`. Raises BundleError for a secret in what numbers are computed of."""
    chosen, secrets = Chosen(), search(environment)
    for name, path in _files(root):
        why = _left_out(PurePosixPath(name), without_raw)
        if why:
            chosen.left_out[_folded(name)] = why
            continue
        if found := secrets.first(path):
            if not TOLD_ONLY.match(name):
                raise BundleError(
                    f"{path}, line {found.line}, holds {found.what}; numbers are computed of this file, so it cannot be"
                    " left out: take it out there, then analyse the series again"
                )
            chosen.left_out[name] = f"holds {found.what} in line {found.line}"
            continue
        if TOLD_ONLY.match(name) and _names_a_home(path):
            chosen.homes.append(name)
        chosen.entries.append(Entry(f"{SERIES}/{name}", path))
    chosen.entries += _empty_runs(root, chosen)
    return chosen


def _empty_runs(root: Path, chosen: Chosen) -> Iterator[Entry]:
    """A run that left nothing is a run all the same; an archive has files only."""
    there = {entry.name.split("/")[2] for entry in chosen.entries if entry.name.startswith(f"{SERIES}/runs/")}
    for run in SeriesPaths(root).all_runs():
        if run.run_id not in there:
            yield Entry(f"{SERIES}/runs/{run.run_id}/{NOTHING}", b"")


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """A series of one run has what was recorded as links."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            if not name.startswith((".", "_")) and not name.endswith(".crc"):
                path = Path(folder) / name
                yield path.relative_to(root).as_posix(), path


def _left_out(name: PurePosixPath, without_raw: bool) -> str | None:
    if name.name in OF_THE_HARNESS:
        return OF_THE_HARNESS[name.name]
    if name.parts[0] == "attempts" and name.name != "run.json":
        return "attempts that were repeated are never analysed; why each failed is in its run.json"
    if without_raw and name.parts[0] == "runs" and len(name.parts) > 3 and name.parts[2] in RAW:
        return "asked for: --without raw"
    return None


def _folded(name: str) -> str:
    """One line for all files of a kind: `runs/*/workers`, not each worker's."""
    parts = name.split("/")
    if parts[0] == "runs" and len(parts) > 3:
        return f"runs/*/{parts[2]}"
    return "attempts/*" if parts[0] == "attempts" else parts[-1]


def _names_a_home(path: Path) -> bool:
    with path.open("rb") as file:
        return any(HOMES.search(line) for line in file)
