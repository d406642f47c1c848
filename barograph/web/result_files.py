"""Files below the results as the site serves them: the file of a name, its DAG, how fresh it is.

Nothing outside the results (also not by a link), nothing hidden, and only kinds for readers: a page, a drawing, data.
Logs, raw lines and the harness's own notes are not served. Results in a bucket are fetched before they are shown, but
not at every click.

A frame of Airflow's page has Airflow's origin: a script smuggled into a results folder could act there as the reader
of the report. So a page runs exactly the scripts of this version of Barograph, identified by their text; without them
our pages are complete, only without interaction.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from analysis.errors import StorageConfigurationError, StorageError
from analysis.record.files import COMPARISONS, NIGHTS, SEARCHES
from analysis.storage.layout import LOCAL_ONLY
from barograph.errors import message_of
from barograph.series.results import Results
from barograph.settings import ROOT, location
from barograph.web import COMPARISON_DAG


@dataclass(frozen=True)
class FileKind:
    media_type: str
    saved: bool = False  # offered for saving; a frame of Airflow's page would show nothing


PAGE = ".html"
KINDS: Mapping[str, FileKind] = {
    PAGE: FileKind("text/html; charset=utf-8"),
    ".svg": FileKind("image/svg+xml"),
    ".png": FileKind("image/png"),
    ".json": FileKind("application/json"),
    ".csv": FileKind("text/csv; charset=utf-8", saved=True),
    ".pdf": FileKind("application/pdf", saved=True),
    ".parquet": FileKind("application/vnd.apache.parquet", saved=True),
}


@dataclass(frozen=True)
class ResultFile:
    file: Path
    kind: FileKind


def find_file(root: Path, name: str) -> ResultFile | None:
    """Return the file that `name` (relative to `root`, with `/`) means; None if it is not to be served."""
    parts = name.split("/")
    kind = KINDS.get(Path(parts[-1]).suffix)
    if kind is None or parts[-1] in LOCAL_ONLY or not is_name(name):
        return None
    home, file = root.resolve(), root.joinpath(*parts).resolve()
    return ResultFile(file, kind) if file.is_relative_to(home) and file.is_file() else None


def is_name(name: str) -> bool:
    """Return True if this could be a name below the results: no part is empty, hidden or above, or one that a file
    system treats specially."""
    return all(
        part and not part.startswith(".") and "\0" not in part and "\\" not in part and len(part) < 256
        for part in name.split("/")
    )


def name_of_folder(root: Path, folder: str) -> str | None:
    """Return the name of a folder of the results; None if it is elsewhere."""
    path = Path(folder)
    if not path.is_absolute() or not path.resolve().is_relative_to(root.resolve()):
        return None
    name = path.resolve().relative_to(root.resolve()).as_posix()
    return None if name == "." else name


def dag_of(name: str) -> str | None:
    """Return the DAG whose runs write `name`; None where several do."""
    first, _, rest = name.partition("/")
    second, _, inside = rest.partition("/")
    if not (first and second and inside):
        return None
    # A search consists of comparisons, and has no DAG.
    return COMPARISON_DAG if first in (COMPARISONS, SEARCHES) else f"{first}.{second}"


def dags_of(root: Path, name: str) -> frozenset[str]:
    """Return every DAG that contributes to the page: a family's for the family's page, all for a page at the root."""
    alone = dag_of(name)
    if alone is not None:
        return frozenset({alone})
    folders = experiment_folders(root, name.partition("/")[0] if "/" in name else None)
    return frozenset(dag for folder in folders if (dag := dag_of(f"{folder}/any")) is not None)


def experiment_folders(root: Path, family: str | None = None) -> tuple[str, ...]:
    """Return folders `family/name` of the results, sorted; of one family, or of all."""
    families = _folders(root) if family is None else [path for path in _folders(root) if path.name == family]
    return tuple(sorted(f"{above.name}/{path.name}" for above in families for path in _folders(above)))


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return [each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")]


log = logging.getLogger(__name__)
REFRESH_S = 20.0  # for one series or suite; a page that reloads itself asks more often
REFRESH_ALL_S = 120.0  # for everything, which lists the bucket


@dataclass
class Freshness:
    """The time of each part's last fetch; one fetch at a time, so that a slow bucket is not asked twice."""

    refreshed_s: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self, place: Results, name: str) -> None:
        """Fetch the files of `name`. Where the bucket fails, log it: the pages show the local files."""
        scope = scope_of(name)
        with self.lock:
            if time.monotonic() < self.refreshed_s.get(scope, float("-inf")) + (REFRESH_S if scope else REFRESH_ALL_S):
                return
            try:
                if scope.startswith(f"{NIGHTS}/"):
                    place.fetch(scope, PAGE)
                elif scope:
                    place.refresh(scope, digest=True)
                else:
                    place.refresh()
                    if location() is not None:  # in a folder, the writer of a series writes the index
                        from analysis.report import index_page

                        index_page.write(place.root, time.time())
            except (StorageError, StorageConfigurationError) as error:
                log.warning("shown is what is on this box, for the bucket does not answer: %s", message_of(error))
            self.refreshed_s[scope] = time.monotonic()


def scope_of(name: str) -> str:
    """Return the series that a name is in, or the suite; everything where it is in none."""
    parts = name.split("/")
    if parts[0] == NIGHTS and len(parts) > 1:
        return "/".join(parts[:2])
    return "/".join(parts[:3]) if len(parts) > 3 or (len(parts) == 3 and "." not in parts[2]) else ""


SCRIPT = re.compile(rb"<script\b[^>]*>(.*?)</script\s*>", re.IGNORECASE | re.DOTALL)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


def policy_header(scripts: Iterable[str] = ()) -> str:
    """Return the Content-Security-Policy of a page with these scripts (digests as the header has them)."""
    allowed = " ".join(f"'sha256-{digest}'" for digest in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def policy_header_of(file: Path) -> str:
    """Return the policy of a served file; only a page may run scripts."""
    if file.suffix != PAGE:
        return policy_header()
    state = file.stat()
    return policy_header(_scripts_of(file, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=256)
def _scripts_of(file: Path, _changed_ns: int, _size: int) -> tuple[str, ...]:
    return scripts_in(file.read_bytes())


def scripts_in(page: bytes) -> tuple[str, ...]:
    """Return digests of the scripts in the page that are ours."""
    bodies = (match[1] for match in SCRIPT.finditer(page))
    return tuple(dict.fromkeys(_digest(body) for body in bodies if body.strip() in shipped_scripts()))


@cache
def shipped_scripts() -> frozenset[bytes]:
    """Return the text of every script that our pages include; white space around it depends on the template."""
    files = (*(ROOT / "analysis").rglob("*.js"), *(ROOT / "analysis").rglob("*.js.j2"))
    return frozenset(file.read_bytes().strip() for file in files)


def _digest(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()
