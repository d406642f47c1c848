"""Whose a name below the results is: the DAG that one must be allowed to read. Pure, but for a look at folders."""

from __future__ import annotations

from pathlib import Path

COMPARISONS, SEARCHES, NIGHTS = "compare", "bisect", "nightly"
COMPARISON_DAG = "compare_branches"


def dag_of(name: str) -> str | None:
    """The DAG whose runs leave what is called `name`; None where that is not one alone."""
    first, _, rest = name.partition("/")
    second, _, inside = rest.partition("/")
    if not (first and second and inside):
        return None
    # A search is made of comparisons, and has no DAG.
    return COMPARISON_DAG if first in (COMPARISONS, SEARCHES) else f"{first}.{second}"


def dags_of(root: Path, name: str) -> frozenset[str]:
    """Every DAG that has a part in the page: a family's for the family's page, all for a page at the root."""
    alone = dag_of(name)
    if alone is not None:
        return frozenset({alone})
    folders = experiments(root, name.partition("/")[0] if "/" in name else None)
    return frozenset(dag for folder in folders if (dag := dag_of(f"{folder}/any")) is not None)


def experiments(root: Path, family: str | None = None) -> tuple[str, ...]:
    """Folders `family/name` of the results, sorted; of one family, or of all."""
    families = _folders(root) if family is None else [path for path in _folders(root) if path.name == family]
    return tuple(sorted(f"{above.name}/{path.name}" for above in families for path in _folders(above)))


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return [each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")]
