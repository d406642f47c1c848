"""This repository's commits, as git knows them, for nights and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.code.git import GitFailed, git, shallow_hint
from barograph.errors import ExperimentError
from barograph.settings import ROOT

POLICY_FOLDER = "scheduler_plugins"  # its changes change decisions; the rest is the measuring instrument


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
        commit, when_s = git(root, "log", "-1", "--format=%H %ct").split()
        return Head(commit, float(when_s), bool(git(root, "status", "--porcelain")))
    except (GitFailed, ValueError):
        return Head(None, None, None)


def commit_of(ref: str, root: Path = ROOT) -> Commit:
    """Return the commit. Raises ExperimentError where the ref does not exist."""
    try:
        output = git(root, "log", "-1", "--format=%H%x00%ct%x00%s", "--end-of-options", f"{ref}^{{commit}}", "--")
    except GitFailed as error:
        names = ", ".join(branches(root)) or "none"
        raise ExperimentError(
            f"{ref!r} is no commit of {root}; give a branch, a tag or a hash; branches: {names}{shallow_hint(root)}"
        ) from error
    return _commit(output)


def branches(root: Path) -> tuple[str, ...]:
    """Return the branches, newest first; empty where the folder is not a git repository."""
    try:
        output = git(
            root, "for-each-ref", "--format=%(refname:short)", "--sort=-committerdate", "refs/heads", "refs/remotes"
        )
    except GitFailed:
        return ()
    return tuple(output.split())


def commits_between(good: Commit, bad: Commit, *, all_commits: bool, root: Path = ROOT) -> tuple[Commit, ...]:
    """Return the commits after `good` up to `bad`, oldest first, along first parents; those that change decisions, or
    all.

    Raises ExperimentError where `good` is no ancestor of `bad`.
    """
    if good.hash == bad.hash:
        raise ExperimentError(f"GOOD and BAD are the same commit {good.short}; there is nothing between them")
    try:
        base = git(root, "merge-base", good.hash, bad.hash)
    except GitFailed:
        base = ""
    if base != good.hash:
        hint = f"; their common ancestor is {base[:10]}: compare BAD with that first" if base else ""
        if base == bad.hash:
            hint = ", which is the older of the two: give the commit where the number was well first"
        raise ExperimentError(f"GOOD {good.short} is not an ancestor of BAD {bad.short}{hint}{shallow_hint(root)}")
    paths: Sequence[str] = () if all_commits else (POLICY_FOLDER,)
    output = git(
        root, "log", "--first-parent", "--reverse", "--format=%H%x00%ct%x00%s", f"{good.hash}..{bad.hash}", "--", *paths
    )
    return tuple(_commit(line) for line in output.split("\n") if line)


def _commit(line: str) -> Commit:
    commit, when_s, subject = line.split("\0", 2)
    return Commit(commit, subject, float(when_s))
