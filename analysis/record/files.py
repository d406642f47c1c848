"""The files of a record: their places on disk, reading and writing (docs/contracts.md, "What a run
leaves"). No analysis and no Spark.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import yaml
from boltons.fileutils import atomic_save

from analysis.errors import RecordError
from barograph.errors import ConfigurationError

TRACES, COUNTERFACTUALS = "traces", "counterfactuals"  # folders of a series
PARAMETERS_KEY = "barograph.parameters"  # in `config` of a Flux file
RAW_SUFFIXES = (".jsonl", ".avro")
STATUSES = ("complete", "incomplete", "failed", "invalid")
COMPARISONS, SEARCHES, NIGHTS = "compare", "bisect", "nightly"  # folders of the results that belong to no family


@dataclass(frozen=True)
class RunPaths:
    """The files of one run's record."""

    root: Path

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def run_json(self) -> Path:
        return self.root / "run.json"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def decisions(self) -> Path:
        return self.root / "decisions.jsonl"

    @property
    def workers(self) -> Path:
        return self.root / "workers"

    @property
    def machines(self) -> Path:
        return self.root / "machines"

    @property
    def readings(self) -> Path:
        """Return the folder of readings in other people's logs."""
        return self.root / "readings"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def create(self) -> "RunPaths":
        """Make the folders; harmless if they exist."""
        for folder in (self.workers, self.machines, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        return self


class SharedStorage(Protocol):
    """A series that a cluster can reach: Spark reads and writes there, this process in the series' folder."""

    @property
    def raw_bytes(self) -> int: ...

    def raw_files(self, part: str) -> list[str]: ...

    def table(self, name: str) -> str: ...

    def send_table(self, name: str, folder: Path) -> None: ...

    def fetch_table(self, name: str, folder: Path) -> None: ...

    def drop_table(self, name: str) -> None: ...


@dataclass(frozen=True)
class SeriesPaths:
    """The files of one series; `shared`: while it is analysed in a bucket."""

    root: Path
    shared: SharedStorage | None = None

    @property
    def series_json(self) -> Path:
        return self.root / "series.json"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    def trace(self, sha256: str) -> Path:
        """Return a trace of input rates that its runs follow."""
        return self.root / TRACES / f"{sha256}.csv"

    def table(self, name: str) -> Path:
        return self.tables / f"{name}.parquet"

    def spark_table(self, name: str) -> str:
        """Return the place where Spark reads and writes a table."""
        return self.shared.table(name) if self.shared else str(self.table(name))

    def raw_files(self, part: str) -> list[str]:
        """Return for Spark the lines of one part of all runs, a folder (`workers`) or a file (`events.jsonl`)."""
        if self.shared:
            return self.shared.raw_files(part)
        pattern = part if part.endswith(RAW_SUFFIXES) else f"{part}/*"
        files = (file for run in self.all_runs() for file in sorted(run.root.glob(pattern)))
        return [str(file) for file in files if file.suffix in RAW_SUFFIXES]

    def has_avro(self) -> bool:
        """Return whether there are workers' files for which Spark needs a further jar."""
        if self.shared:
            return any(file.endswith(".avro") for file in self.shared.raw_files("workers"))
        return any(any(run.workers.glob("*.avro")) for run in self.all_runs())

    def run(self, run_id: str) -> RunPaths:
        return RunPaths(self.runs / run_id)

    def all_runs(self) -> list[RunPaths]:
        """Return every run that has a folder, by name."""
        if not self.runs.is_dir():
            raise ConfigurationError(
                f"{self.root} is no series: it has no folder runs/. Give results/<experiment>/<series>."
            )
        return [RunPaths(path) for path in sorted(self.runs.iterdir()) if path.is_dir()]

    def raw_bytes(self) -> int:
        """Return the size of all raw lines, in bytes of JSON."""
        if self.shared:
            return self.shared.raw_bytes
        files = (file for run in self.all_runs() for file in run.root.glob("**/*") if file.suffix in RAW_SUFFIXES)
        return sum(bytes_as_json(file.name, file.stat().st_size) for file in files)


def series_folders(root: Path) -> list[Path]:
    """Return the folders of all series below a folder of results, by name."""
    return sorted(path.parent for path in root.glob("*/*/*/series.json"))


def experiment_of(folder: Path) -> str:
    """Return `family/name`, by the place of a series' or a sweep's folder."""
    return f"{folder.parent.parent.name}/{folder.parent.name}"


def folders_of(files: Iterable[str]) -> list[str]:
    """Return the folders that these files, or objects, are in."""
    return sorted({file.rpartition("/")[0] for file in files})


def bytes_as_json(name: str, size: int) -> int:
    """Return the bytes of a file's raw lines as JSON, twice those in Avro. 0 for every other file."""
    return {".jsonl": 1, ".avro": 2}.get(PurePosixPath(name).suffix, 0) * size


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; RecordError names the file and the fault."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path}: holds a {type(value).__name__}, but a JSON object is wanted")
    return value


def read_json_or_none(path: Path) -> dict[str, Any] | None:
    """Return as `read_json`; None for a file that is missing, or has no JSON object."""
    try:
        return read_json(path)
    except RecordError:
        return None


def write_json_atomic(path: Path, value: Mapping[str, Any]) -> None:
    """Write as `write_text_atomic` does. Raises ValueError for a value that is not JSON, such as a NaN."""
    write_text_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_text_atomic(path: Path, text: str) -> None:
    """Write so that a reader, or a restart after kill -9, sees the old file or the whole new one.

    Several processes may write the same file: each has its own part file, and the last one wins.
    """
    _write_bytes_atomic(path, text.encode())


def keep_bytes(path: Path, content: bytes) -> None:
    """Write as `write_text_atomic` does if the file has another content or none: a whole one is left alone."""
    if not path.is_file() or path.read_bytes() != content:
        _write_bytes_atomic(path, content)


def _write_bytes_atomic(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part_name(path)
    try:
        with atomic_save(path, part_file=part, file_perms=0o644) as file:
            file.write(content)
    except BaseException:
        path.with_name(part).unlink(missing_ok=True)  # atomic_save leaves it if the last flush fails: a full disk
        raise


def _part_name(path: Path) -> str:
    return f".{path.name}.{secrets.token_hex(4)}"


def require_writable(path: Path) -> None:
    """Raise the OSError that `write_text_atomic` would raise for its folder or its name. Nothing is left behind."""
    part = path.parent / _part_name(path)
    part.touch(exist_ok=False)
    part.unlink()


def append_event(run: RunPaths, t: float, kind: str, **fields: Any) -> None:
    """Add one line to events.jsonl in a single write; `t` is epoch seconds."""
    run.root.mkdir(parents=True, exist_ok=True)
    append_line(run.events, {"t": t, "kind": kind, **fields})


def append_line(path: Path, value: Mapping[str, Any], *, sync: bool = False) -> None:
    """Add a JSON object to a file of lines, in a single write; `sync`: it is on the disk when this returns.

    A full disk may have cut the last line short: this one begins a new line, so that only that one is lost. Raises
    ValueError for a value that is not JSON, such as a NaN.
    """
    line = json.dumps(value, allow_nan=False).encode() + b"\n"
    with path.open("a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        file.write(line if not size or file.read(1) == b"\n" else b"\n" + line)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def is_complete(run_dir: Path) -> bool:
    """Return whether the run left a record that need not be repeated when its series is resumed."""
    return (read_json_or_none(RunPaths(run_dir).run_json) or {}).get("status") == "complete"


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file of lines, in order, without damaged ones; `parsed_lines` lets one count them."""
    return (line for line in parsed_lines(path) if line is not None)


def parsed_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the JSON objects of a file of lines, in order, None for a damaged line; none for a missing file."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            yield value if isinstance(value, dict) else None


# --- what a run's record says of its topologies ----------------------------------------------------------------------


def run_document(run: RunPaths) -> dict[str, Any]:
    """Return run.json, or nothing if it is missing or damaged: the table of runs gives the reason."""
    return read_json_or_none(run.run_json) or {}


def topology_document(document: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Return run.json's entry of a topology; None: the only one. Empty without an entry."""
    if name is None:
        return document.get("topology") or {}
    return next((each for each in document.get("topologies") or () if each.get("name") == name), {})


def flux_config(run: RunPaths) -> Mapping[str, Any]:
    """Return `config` of the Flux file of a run's only topology; empty if there is none."""
    path = run.root / "topology.yaml"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")).get("config") if path.is_file() else None
    except (yaml.YAMLError, AttributeError):
        return {}
    return config if isinstance(config, dict) else {}


def is_unthrottled(run: RunPaths) -> bool:
    """Return whether its spouts emitted as fast as Storm let them, without an offered rate."""
    return flux_config(run).get(PARAMETERS_KEY, {}).get("unthrottled") is True
