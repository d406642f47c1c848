"""What of a series lies where in the spool and in the bucket. Pure: names relative to the series on both sides.

In the bucket `runs/` holds complete runs only. What else a run left is an attempt there, also where it is the last one
and still stands in `runs/` of the spool. Tables lie in a folder of their own for each analysis, a *generation*;
`tables.json`, put last, says which one counts.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.record.files import COUNTERFACTUALS, TRACES
from analysis.record.schemas import LARGE_TABLES

POINTER = "tables.json"
HOLD = "hold.json"
LOCAL_ONLY = ("machines.json", "stop", "deadline.json", HOLD)
RAW = ("workers", "machines", "logs")  # of a run: never brought back
# What says what a series is and what is left of it, and what people read of it.
ALWAYS = (
    "series.json", "claims.json", "report.json", "comparison.json", "comparison_result.json", "sufficient.json",
    POINTER,
)  # fmt: skip
REPORTS = ("report.html", "analysed.json", "comparison.html", "comparison_time.json", "checks.jsonl")
LINE_FILES = ("events.jsonl", "decisions.jsonl")
RUN_JSON = "run.json"
ATTEMPT = re.compile(r"(.+)\.attempt-(\d+)")


@dataclass(frozen=True)
class RunState:
    """What decides where a run of the spool goes."""

    complete: bool
    attempt: int


def bucket_key(path: str, runs: Mapping[str, RunState]) -> str | None:
    """Where a file of the spool goes; None: nowhere. `runs`: those with a readable run.json, by id."""
    top, _, rest = path.partition("/")
    if any(part.startswith(".") for part in path.split("/")) or path in LOCAL_ONLY or top == "tables":
        return None
    if top != "runs":
        return path
    run_id, _, inside = rest.partition("/")
    if run_id not in runs:
        return None
    state = runs[run_id]
    return path if state.complete else f"attempts/{run_id}.attempt-{state.attempt}/{inside}"


def is_raw(path: str) -> bool:
    """Whether a file of the spool is a run's or an attempt's that only Spark reads."""
    parts = path.split("/")
    return len(parts) > 3 and parts[0] in ("runs", "attempts") and parts[2] in RAW


def sending_order(keys: Iterable[str]) -> tuple[list[str], list[str]]:
    """What is sent first, and what makes it visible: a run is there when its run.json is."""
    every = sorted(keys)
    last = [key for key in every if key.rpartition("/")[2] == RUN_JSON]
    return [key for key in every if key not in set(last)], last


def run_folders(keys: Iterable[str]) -> dict[str, str]:
    """By run id: its folder in the bucket, of complete runs and of the last attempt at every other."""
    found: dict[str, tuple[int, str]] = {}
    for key in keys:
        folder, _, name = key.rpartition("/")
        if name != RUN_JSON or folder.count("/") != 1:
            continue
        top, _, leaf = folder.partition("/")
        attempt = ATTEMPT.fullmatch(leaf)
        if top == "runs":
            found[leaf] = (1_000_000, folder)
        elif top == "attempts" and attempt:
            run_id, number = attempt[1], int(attempt[2])
            if number > found.get(run_id, (0, ""))[0]:
                found[run_id] = (number, folder)
    return {run_id: folder for run_id, (_, folder) in found.items()}


def spool_paths(keys: Iterable[str], generation: str | None, *, digest: bool) -> dict[str, str]:
    """What to bring: key -> path in the spool. Without `digest` only what says which runs there are.

    `digest`: what reports and ledgers read too: lines of events and decisions, small tables, the report itself.
    """
    every = list(keys)
    last = {folder: f"runs/{run_id}" for run_id, folder in run_folders(every).items()}
    paths = {key: _spool_path(key, last, generation, digest) for key in every}
    return {key: path for key, path in paths.items() if path is not None}


def disk_paths(keys: Iterable[str], generation: str | None) -> dict[str, str]:
    """All that belongs to a series: key -> path as on a disk; of the tables the generation that counts."""
    every = [key for key in keys if key not in (POINTER, HOLD)]
    last = {folder: f"runs/{run_id}" for run_id, folder in run_folders(every).items()}
    paths = {}
    for key in every:
        top, _, rest = key.partition("/")
        of, _, inside = rest.partition("/")
        if top == "tables":
            if of == generation:
                paths[key] = f"tables/{inside}"
        else:
            paths[key] = f"{last.get(f'{top}/{of}', f'{top}/{of}')}/{inside}" if inside else key
    return paths


def _spool_path(key: str, last: Mapping[str, str], generation: str | None, digest: bool) -> str | None:
    parts = key.split("/")
    if parts[0] == "tables":
        small = len(parts) == 4 and parts[1] == generation and parts[2].removesuffix(".parquet") not in LARGE_TABLES
        return f"tables/{parts[2]}/{parts[3]}" if digest and small else None
    if parts[0] in ("runs", "attempts") and len(parts) > 2:
        mirrored = parts[2] == RUN_JSON or (digest and parts[2] in (*LINE_FILES, "report.html"))
        folder = last.get(f"{parts[0]}/{parts[1]}", f"{parts[0]}/{parts[1]}")
        return f"{folder}/{parts[2]}" if mirrored and len(parts) == 3 else None
    if key in ALWAYS or parts[0] == TRACES or (parts[0] == COUNTERFACTUALS and parts[-1] == "report.html"):
        return key  # the index lists these
    return key if digest and (key in REPORTS or parts[0] in ("figures", COUNTERFACTUALS)) else None
