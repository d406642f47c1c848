"""The places of a series' files in the spool and in the bucket. Pure: names are relative to the series on both sides.

In the bucket `runs/` holds complete runs only. Any other run is an attempt there, even the last one, which is still
in `runs/` of the spool. The tables of each analysis, a *generation*, have their own folder; `tables.json`, put last,
names the current one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.record.files import COUNTERFACTUALS, TRACES
from analysis.record.schemas import LARGE_TABLES

POINTER = "tables.json"
HOLD = "hold.json"
LOCAL_ONLY = ("machines.json", "stop", "deadline.json", HOLD)
RAW = ("workers", "machines", "readings", "logs")  # of a run: never brought back
# Files that describe a series and its state, and those for readers.
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
    """The state that decides where a run of the spool goes."""

    complete: bool
    attempt: int


def bucket_key(path: str, runs: Mapping[str, RunState]) -> str | None:
    """Return the key of a file of the spool, None if it is not sent. `runs`: those with a readable run.json, by id."""
    top, _, rest = path.partition("/")
    if any(part.startswith(".") for part in path.split("/")) or path in LOCAL_ONLY or top == "tables":
        return None
    if top != "runs":
        return path
    run_id, _, name = rest.partition("/")
    if run_id not in runs:
        return None
    state = runs[run_id]
    return path if state.complete else f"attempts/{run_id}.attempt-{state.attempt}/{name}"


def is_raw(path: str) -> bool:
    """Return whether a file of the spool belongs to a run or an attempt and is read only by Spark."""
    parts = path.split("/")
    return len(parts) > 3 and parts[0] in ("runs", "attempts") and parts[2] in RAW


def sending_order(keys: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the keys to send first, and those that make them visible: a run exists once its run.json does."""
    every = sorted(keys)
    last = [key for key in every if key.rpartition("/")[2] == RUN_JSON]
    return [key for key in every if key not in set(last)], last


def run_folders(keys: Iterable[str]) -> dict[str, str]:
    """Return run id -> folder in the bucket, of complete runs and of the last attempt at every other."""
    folders: dict[str, tuple[int, str]] = {}
    for key in keys:
        folder, _, name = key.rpartition("/")
        if name != RUN_JSON or folder.count("/") != 1:
            continue
        top, _, leaf = folder.partition("/")
        attempt = ATTEMPT.fullmatch(leaf)
        if top == "runs":
            folders[leaf] = (1_000_000, folder)
        elif top == "attempts" and attempt:
            run_id, number = attempt[1], int(attempt[2])
            if number > folders.get(run_id, (0, ""))[0]:
                folders[run_id] = (number, folder)
    return {run_id: folder for run_id, (_, folder) in folders.items()}


def spool_paths(keys: Iterable[str], generation: str | None, *, digest: bool) -> dict[str, str]:
    """Return key -> path in the spool of the files to bring. Without `digest` only those that tell which runs there
    are.

    `digest`: also what reports and ledgers read: lines of events and decisions, small tables, the report itself.
    """
    every = list(keys)
    last = {folder: f"runs/{run_id}" for run_id, folder in run_folders(every).items()}
    paths = {}
    for key in every:
        top, *rest = parts = key.split("/")
        if top == "tables":
            is_small = (
                len(parts) == 4 and rest[0] == generation and rest[1].removesuffix(".parquet") not in LARGE_TABLES
            )
            if digest and is_small:
                paths[key] = f"tables/{rest[1]}/{rest[2]}"
        elif top in ("runs", "attempts") and rest[1:]:
            if len(parts) == 3 and (rest[1] == RUN_JSON or (digest and rest[1] in (*LINE_FILES, "report.html"))):
                paths[key] = f"{last.get(f'{top}/{rest[0]}', f'{top}/{rest[0]}')}/{rest[1]}"
        elif (
            key in ALWAYS or top == TRACES or (top == COUNTERFACTUALS and parts[-1] == "report.html")  # of the index
            or (digest and (key in REPORTS or top in ("figures", COUNTERFACTUALS)))
        ):  # fmt: skip
            paths[key] = key
    return paths


def disk_paths(keys: Iterable[str], generation: str | None) -> dict[str, str]:
    """Return key -> path on a disk of everything in a series; of tables only the current generation."""
    every = [key for key in keys if key not in (POINTER, HOLD)]
    last = {folder: f"runs/{run_id}" for run_id, folder in run_folders(every).items()}
    paths = {}
    for key in every:
        top, _, rest = key.partition("/")
        part, _, name = rest.partition("/")
        if top == "tables":
            if part == generation:
                paths[key] = f"tables/{name}"
        else:
            paths[key] = f"{last.get(f'{top}/{part}', f'{top}/{part}')}/{name}" if name else key
    return paths
