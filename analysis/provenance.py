"""The code and the package versions that made a series' tables and report: analysed.json, kept beside them, so that a
bundle can include that code.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import RecordError
from analysis.record.files import SeriesPaths, read_json, read_json_or_none, write_json_atomic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILE = "analysed.json"
ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("analysis", "barograph/plan", "scheduler_plugins", "topologies")
MODULES = ("barograph/__init__.py", "barograph/errors.py", "barograph/yaml_files.py")
OMISSIONS = ("__pycache__", "target", "src")  # of Maven's modules: code that runs on machines, not here
# The packages that the analysis imports; their dependencies follow from requirements.txt.
DISTRIBUTIONS = (
    "boltons", "fastavro", "filelock", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "pymetis",
    "pyspark", "pyyaml", "scipy", "seaborn",
)  # fmt: skip


def code_files() -> dict[str, Path]:
    """Return every file of the analysis' code, by its name below the root."""
    files = [ROOT / name for name in MODULES] + [path for name in PACKAGES for path in _files(ROOT / name)]
    return {path.relative_to(ROOT).as_posix(): path for path in files}


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in OMISSIONS:
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


# Code that only reads tables: it cannot change a series' tables.
READERS_OF_TABLES = (
    "analysis/sql.py",
    *(f"analysis/{name}/" for name in ("bundle", "calibration", "claims", "compare", "nights", "report", "storage")),
)


def code_digests() -> dict[str, str]:
    """Return digests. `code`: of all that code; `tables`: of the code that can change tables."""
    files = code_files()
    makers = {name: path for name, path in files.items() if not name.startswith(READERS_OF_TABLES)}
    return {"code": _digest(files), "tables": _digest(makers)}


def code_digest() -> str:
    """Return the digest of names and contents of all that code."""
    return _digest(code_files())


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def write_provenance(paths: SeriesPaths, spark: SparkSession, made_by: Mapping[str, str]) -> None:
    """Write analysed.json. `made_by`: `code_digests` when the analysis began."""
    java = spark._jvm.System.getProperty("java.version")  # type: ignore[union-attr] # py4j's, without types
    versions = {"python": platform.python_version(), "java": str(java)}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    write_json_atomic(paths.root / FILE, {"v": 1, **made_by, "versions": versions})


def remove_provenance(paths: SeriesPaths) -> None:
    """Remove analysed.json: while a series is analysed anew its code is unknown."""
    (paths.root / FILE).unlink(missing_ok=True)


def digest_of_series(root: Path) -> str | None:
    """Return the digest of the code that analysed a series; None if it is not on record."""
    try:
        return str(read_json(root / FILE)["code"])
    except (RecordError, KeyError):
        return None


def tables_code_of_series(root: Path) -> str | None:
    """Return the digest of the code that made a series' tables; older analyses recorded only that of all code."""
    document = read_json_or_none(root / FILE) or {}
    digest = document.get("tables") or document.get("code")
    return None if digest is None else str(digest)
