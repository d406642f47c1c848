"""The code and the package versions that made a series' tables and report: analysed.json, kept beside them, so that a
bundle can include that code.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.record.files import SeriesPaths, read_json_or_none, write_json_atomic

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

    def files(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if not path.name.startswith(".") and path.name not in OMISSIONS:
                yield from files(path) if path.is_dir() else [path]

    paths = [ROOT / name for name in MODULES] + [path for name in PACKAGES for path in files(ROOT / name)]
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


# Code that only reads tables: it cannot change a series' tables.
READERS_OF_TABLES = (
    "analysis/sql.py",
    *(f"analysis/{name}/" for name in ("bundle", "calibration", "claims", "compare", "nights", "report", "storage")),
)


def code_digests() -> dict[str, str]:
    """Return digests of names and contents. `code`: of all that code; `tables`: of the code that can change tables."""
    digests = {"code": hashlib.sha256(), "tables": hashlib.sha256()}
    for name, path in code_files().items():
        line = f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        digests["code"].update(line)
        if not name.startswith(READERS_OF_TABLES):
            digests["tables"].update(line)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def code_digest() -> str:
    return code_digests()["code"]


def write_provenance(paths: SeriesPaths, spark: SparkSession, made_by: Mapping[str, str]) -> None:
    """Write analysed.json. `made_by`: `code_digests` when the analysis began."""
    java = spark._jvm.System.getProperty("java.version")  # type: ignore[union-attr] # py4j's, without types
    versions = {"python": platform.python_version(), "java": str(java)}
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    write_json_atomic(paths.root / FILE, {"v": 1, **made_by, "versions": versions})


def remove_provenance(paths: SeriesPaths) -> None:
    """Remove analysed.json: while a series is analysed anew its code is unknown."""
    (paths.root / FILE).unlink(missing_ok=True)


def digest_of_series(root: Path, part: str = "code") -> str | None:
    """Return the digest of the code that analysed a series, or that made its `tables`; None if it is not on record."""
    digest = (read_json_or_none(root / FILE) or {}).get(part)
    return None if digest is None else str(digest)
