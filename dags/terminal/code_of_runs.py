"""The code that runs were made with, as files for a bundle: each commit, changes since, foreign schedulers."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.bundle.archive import Entry
from dags.places import ROOT
from dags.sources.git import GitFailed, git

SHORT = 12
ARCHIVE_S = 300


@dataclass
class Source:
    """`lines`: what the README says of the code; `missing`: what is not there any more."""

    entries: list[Entry] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Wanted:
    repository: str  # empty: this one
    commit: str
    what: str


def sources_of(runs: Mapping[str, Mapping[str, Any]], scratch: Path) -> Source:
    """`runs`: the documents of the runs. Files of an archive wait in `scratch`."""
    found = Source()
    for wanted in dict.fromkeys(_wanted(runs)):
        _add(found, wanted, scratch)
    dirty = sorted({str(run.get("git_commit"))[:SHORT] for run in runs.values() if run.get("git_dirty")})
    if dirty:
        found.lines.append(_of_changes(runs, dirty))
    if not found.lines:
        found.lines.append("the runs name no commit: they were read from other people's logs, or not run from git")
    return found


def _wanted(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[_Wanted]:
    for run in runs.values():
        if run.get("git_commit"):
            yield _Wanted("", run["git_commit"], "the harness and its policies")
        variant = run.get("variant") or {}
        if code := variant.get("code"):
            built = f", built with `{' '.join(code['build'])}`" if code.get("build") else ""
            what = f"the code of the variant {variant.get('name')} ({code['label']}{built})"
            yield _Wanted(code.get("repository") or "", code["commit"], what)


def _of_changes(runs: Mapping[str, Mapping[str, Any]], dirty: list[str]) -> str:
    """Changes of the work tree are kept when a series is opened (dags/changes.py), since that is."""
    names = sorted({str(run["git_changes"]) for run in runs.values() if run.get("git_changes")})
    where = ", ".join(f"`series/{name}`" for name in names)
    said = f"the changes are in {where} (`git apply`)" if names else "the changes were not kept"
    return f"the work tree had been changed since {', '.join(dirty)}; {said}"


def _add(found: Source, wanted: _Wanted, scratch: Path) -> None:
    folder = _repository(wanted.repository)
    short = wanted.commit[:SHORT]
    tar = scratch / f"{short}-{len(found.lines)}.tar"
    try:
        if folder is None:
            raise GitFailed("no mirror")
        git(folder, "archive", "--format=tar", "-o", str(tar), wanted.commit, limit_s=ARCHIVE_S)
    except GitFailed:
        _without(found, wanted, "it is not mirrored here" if wanted.repository else "it is not in it any more")
        return
    name = f"source/{short}"
    if not any(entry.name.startswith(f"{name}/") for entry in found.entries):
        found.entries += _members(tar, name)
    of = f" of {wanted.repository}" if wanted.repository else ""
    found.lines.append(f"`{name}/`: commit {wanted.commit}{of}: {wanted.what}")


def _repository(repository: str) -> Path | None:
    """This one, or the mirror of another as it stands; nothing is fetched."""
    if not repository:
        return ROOT
    from dags.sources.mirror import MIRROR, home_of

    mirror = home_of(repository) / MIRROR
    return mirror if mirror.is_dir() else None


def _without(found: Source, wanted: _Wanted, why: str) -> None:
    """The work tree stands in for a commit of this repository that is gone; of another one its name must do."""
    said = f"commit {wanted.commit} of {wanted.repository or 'this repository'} cannot be had ({why})"
    name = "source/work_tree"
    if not wanted.repository and not any(entry.name.startswith(f"{name}/") for entry in found.entries):
        found.entries += [Entry(f"{name}/{each}", ROOT / each) for each in _work_tree()]
    instead = "" if wanted.repository else f"; `{name}/` is the code as it stood when this was bundled"
    found.lines.append(f"{said}: {wanted.what}{instead}")
    found.missing.append(said + instead)


def _work_tree() -> list[str]:
    """Files of the work tree that git knows or would take; outside git those of the analysis and the house."""
    try:
        listed = git(ROOT, "ls-files", "-co", "--exclude-standard").splitlines()
    except GitFailed:
        from analysis.analysed import code

        listed = [*code(), "barograph.py", "pyproject.toml", "README.md"]
    return sorted(name for name in set(listed) if (ROOT / name).is_file() and not (ROOT / name).is_symlink())


def _members(tar: Path, name: str) -> Iterator[Entry]:
    with tarfile.open(tar) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isfile() else None
            if file is not None:
                yield Entry(f"{name}/{member.name}", file.read(), executable=bool(member.mode & 0o100))
