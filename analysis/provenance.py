"""Which code and which package versions made a series' tables and report: analysed.json, kept beside them, so that a
bundle can carry that very code.
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
OMISSIONS = ("__pycache__", "target", "src")  # of Maven's modules: what runs on machines, not here
# The packages that the analysis imports; what these need follows from requirements.txt.
DISTRIBUTIONS = (
    "boltons", "fastavro", "filelock", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "pymetis",
    "pyspark", "pyyaml", "scipy", "seaborn",
)  # fmt: skip


def code_files() -> dict[str, Path]:
    """Every file that the analysis is made of, by its name below the root."""
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


# What only reads tables: a series' tables are the same whatever is written there.
READERS_OF_TABLES = tuple(
    f"analysis/{name}/"
    for name in ("bundle", "calibration", "claims", "compare", "nights", "query", "report", "storage")
)


def code_digests() -> dict[str, str]:
    """`code`: of all that code; `tables`: of what can make tables other than they are."""
    files = code_files()
    makers = {name: path for name, path in files.items() if not name.startswith(READERS_OF_TABLES)}
    return {"code": _digest(files), "tables": _digest(makers)}


def code_digest() -> str:
    """Of names and contents of all that code."""
    return _digest(code_files())


def _digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def write_provenance(paths: SeriesPaths, spark: SparkSession, made_by: Mapping[str, str]) -> None:
    """`made_by`: `code_digests` when the analysis began."""
    java = spark._jvm.System.getProperty("java.version")  # type: ignore[union-attr] # py4j's, without types
    versions = {"python": platform.python_version(), "java": str(java)}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    write_json_atomic(paths.root / FILE, {"v": 1, **made_by, "versions": versions})


def remove_provenance(paths: SeriesPaths) -> None:
    """A series that is analysed anew is of no known code until that ends well."""
    (paths.root / FILE).unlink(missing_ok=True)


def digest_of_series(root: Path) -> str | None:
    """The digest of the code that a series was analysed by; None where nobody noted it."""
    try:
        return str(read_json(root / FILE)["code"])
    except (RecordError, KeyError):
        return None


def tables_code_of_series(root: Path) -> str | None:
    """The digest of the code that made a series' tables; of older analyses, which did not note it, that of all code."""
    document = read_json_or_none(root / FILE) or {}
    found = document.get("tables") or document.get("code")
    return None if found is None else str(found)
