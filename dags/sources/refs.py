"""Branches, tags and short hashes to full commits: a series records the commit, and is resumed on the very same one."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from pathlib import Path

from dags.experiment import Code, Experiment, Variant
from dags.places import ROOT
from dags.sources.errors import NoSuchRef, NoSuchRepository
from dags.sources.git import GitFailed, git
from dags.sources.mirror import address, mirrored

FULL = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
SECRET = re.compile(r"^https?://[^/]*@|://[^/@]*:[^/@]*@")
NAMED = 8  # of the repository's refs, in a message


def resolve(ref: str, repository: str = "") -> Code:
    """The code of a branch, a tag or a commit; what is not said is as for a ref of this repository.

    Raises NoSuchRef naming close ones, NoSuchRepository.
    """
    return resolved_code(Code(ref, ref, repository))


def resolved_code(code: Code) -> Code:
    """With its full commit. One that has it is not looked for: its repository may be out of reach now."""
    if FULL.fullmatch(code.commit):
        return code
    _refuse_secrets(code.repository)
    repository = address(code.repository) if code.repository else ""
    return replace(code, commit=_commit(folder_of(repository, fetch=True), code), repository=repository)


def resolved(experiment: Experiment) -> Experiment:
    """Each variant's code with its full commit. Raises NoSuchRef, NoSuchRepository naming the variant."""
    if all(variant.code is None for variant in experiment.variants):
        return experiment
    return replace(experiment, variants=tuple(_resolved(variant) for variant in experiment.variants))


def folder_of(repository: str, *, fetch: bool = False) -> Path:
    """A local git folder with the repository's commits; of another repository its mirror."""
    return mirrored(repository, fetch=fetch) if repository else ROOT


def uncommitted(experiment: Experiment) -> str | None:
    """What is worth saying where this repository's refs are compared while its files are changed."""
    ours = [v for v in experiment.variants if v.code is not None and not v.code.repository]
    if not ours:
        return None
    try:
        changed = git(ROOT, "status", "--porcelain", "--untracked-files=no").splitlines()
    except GitFailed:
        return None
    if not changed:
        return None
    files, names = f"{len(changed)} file{'s'[: len(changed) - 1]}", ", ".join(variant.name for variant in ours)
    return f"what is changed here and not committed ({files}) is in no ref: {names} run without it"


def _refuse_secrets(repository: str) -> None:
    """What names a repository stands in every record."""
    if SECRET.search(repository):
        raise NoSuchRepository(
            "a repository's address must hold no password or token, because records name it; give it without, and"
            " let git's credential helper know them"
        )


def _resolved(variant: Variant) -> Variant:
    if variant.code is None:
        return variant
    try:
        return replace(variant, code=resolved_code(variant.code))
    except (NoSuchRef, NoSuchRepository) as error:
        key = "ref" if isinstance(error, NoSuchRef) else "repository"
        raise type(error)(f"variants.{variant.name}.code.{key}: {error}") from error


def _commit(folder: Path, code: Code) -> str:
    ref = code.commit
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitFailed as error:
        raise NoSuchRef(f"{_where(code)} has no commit {ref!r}{_instead(folder, ref)}") from error


def _instead(folder: Path, ref: str) -> str:
    try:
        names = git(folder, "for-each-ref", "--sort=-committerdate", "--format=%(refname:short)").split()
        shallow = git(folder, "rev-parse", "--is-shallow-repository") == "true"
    except GitFailed:
        return "; it is no git repository: clone it with git instead of copying its files"
    close = difflib.get_close_matches(ref, names, n=3) or [n for n in names if n.rpartition("/")[2] == ref]
    said = (
        f"; did you mean {' or '.join(close)}?" if close else f"; its newest refs: {', '.join(names[:NAMED]) or 'none'}"
    )
    return said + ("; it is a shallow clone: git fetch --unshallow gives it the rest" if shallow else "")


def _where(code: Code) -> str:
    return code.repository or "this repository"
