"""Which file below the results a name means, and as what it is given out.

Nothing outside the results (also not by a link), nothing hidden, and only kinds that are meant for readers: a page,
a drawing, data. Logs, raw lines and what a harness notes for itself stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.storage.layout import LOCAL_ONLY


@dataclass(frozen=True)
class Kind:
    media_type: str
    saved: bool = False  # offered for saving; a frame of Airflow's page would show nothing


PAGE = ".html"
KINDS: Mapping[str, Kind] = {
    PAGE: Kind("text/html; charset=utf-8"),
    ".svg": Kind("image/svg+xml"),
    ".png": Kind("image/png"),
    ".json": Kind("application/json"),
    ".csv": Kind("text/csv; charset=utf-8", saved=True),
    ".pdf": Kind("application/pdf", saved=True),
    ".parquet": Kind("application/vnd.apache.parquet", saved=True),
}


@dataclass(frozen=True)
class Shelved:
    file: Path
    kind: Kind


def find(root: Path, name: str) -> Shelved | None:
    """The file that `name` (relative to `root`, parts separated by `/`) means; None where there is none to give out."""
    parts = name.split("/")
    kind = KINDS.get(Path(parts[-1]).suffix)
    if kind is None or parts[-1] in LOCAL_ONLY or not is_name(name):
        return None
    home, file = root.resolve(), root.joinpath(*parts).resolve()
    return Shelved(file, kind) if file.is_relative_to(home) and file.is_file() else None


def is_name(name: str) -> bool:
    """Whether this could be a name below the results at all."""
    return all(map(_is_plain, name.split("/")))


def _is_plain(part: str) -> bool:
    """No part that is empty, hidden or above; nothing that a file system could take for something else."""
    return part != "" and not part.startswith(".") and "\0" not in part and "\\" not in part and len(part) < 256


def below(root: Path, folder: str) -> str | None:
    """The name of a folder of the results; None where it lies elsewhere."""
    path = Path(folder)
    if not path.is_absolute() or not path.resolve().is_relative_to(root.resolve()):
        return None
    name = path.resolve().relative_to(root.resolve()).as_posix()
    return None if name == "." else name
