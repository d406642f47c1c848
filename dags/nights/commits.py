"""What git says of this repository's commits, for nights and searches."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dags.errors import ExperimentError
from dags.places import ROOT

DECIDING = "scheduler_plugins"  # what a commit may change of a variant's decisions; the rest is the ruler
LIMIT_S = 60


@dataclass(frozen=True)
class Head:
    """The code of a night; None: no git work tree."""

    hash: str | None
    committed_s: float | None
    dirty: bool | None


@dataclass(frozen=True)
class Commit:
    hash: str
    subject: str
    committed_s: float

    @property
    def short(self) -> str:
        return self.hash[:10]


def head(root: Path = ROOT) -> Head:
    try:
        commit, when_s = _git(root, "log", "-1", "--format=%H %ct").split()
        return Head(commit, float(when_s), bool(_git(root, "status", "--porcelain")))
    except (OSError, ValueError, subprocess.SubprocessError):
        return Head(None, None, None)


def commit_of(ref: str, root: Path = ROOT) -> Commit:
    """Raises ExperimentError for a ref that is none."""
    try:
        said = _git(root, "log", "-1", "--format=%H%x00%ct%x00%s", "--end-of-options", f"{ref}^{{commit}}", "--")
    except subprocess.CalledProcessError as error:
        known = ", ".join(branches(root)) or "none"
        raise ExperimentError(
            f"{ref!r} is no commit of {root}; give a branch, a tag or a hash; branches: {known}"
        ) from error
    return _commit(said)


def branches(root: Path = ROOT) -> tuple[str, ...]:
    return tuple(_git(root, "for-each-ref", "--format=%(refname:short)", "--sort=-committerdate", "refs/heads").split())


def between(good: Commit, bad: Commit, *, everything: bool, root: Path = ROOT) -> tuple[Commit, ...]:
    """The commits after `good` up to `bad`, oldest first, along first parents; those that change what decides, or all.

    Raises ExperimentError where `good` is not behind `bad`.
    """
    if good.hash == bad.hash:
        raise ExperimentError(f"GOOD and BAD are the same commit {good.short}; there is nothing between them")
    if not _is_ancestor(root, good.hash, bad.hash):
        base = _merge_base(root, good.hash, bad.hash)
        hint = f"; their common ancestor is {base[:10]}: compare BAD with that first" if base else ""
        if base == bad.hash:
            hint = ", which is the older of the two: give the commit where the number was well first"
        raise ExperimentError(f"GOOD {good.short} is not an ancestor of BAD {bad.short}{hint}")
    paths: Sequence[str] = () if everything else (DECIDING,)
    said = _git(
        root, "log", "--first-parent", "--reverse", "--format=%H%x00%ct%x00%s", f"{good.hash}..{bad.hash}", "--", *paths
    )
    return tuple(_commit(line) for line in said.split("\n") if line)


def _commit(line: str) -> Commit:
    commit, when_s, subject = line.split("\0", 2)
    return Commit(commit, subject, float(when_s))


def _is_ancestor(root: Path, one: str, other: str) -> bool:
    argv = ["git", "merge-base", "--is-ancestor", one, other]
    return subprocess.run(argv, cwd=root, capture_output=True, timeout=LIMIT_S).returncode == 0


def _merge_base(root: Path, one: str, other: str) -> str:
    argv = ["git", "merge-base", one, other]
    return subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=LIMIT_S).stdout.strip()


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return done.stdout.strip()
