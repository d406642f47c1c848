"""A commit's files, in a folder of their own: the user's work tree is not touched."""

from __future__ import annotations

import tarfile
from pathlib import Path

from dags.experiment import Code
from dags.sources.errors import NoSuchRef, Unfit
from dags.sources.git import FETCH_S, GitFailed, git
from dags.sources.refs import folder_of

SHORT = 12  # digits of a commit that people are shown


def named(code: Code) -> str:
    """`my-branch (0123456789ab)`, as messages call it."""
    short = code.commit[:SHORT]
    return short if code.commit.startswith(code.label) else f"{code.label} ({short})"


def source_of(code: Code) -> Path:
    """A git folder that has the commit; a mirror that has not is fetched. Raises NoSuchRef."""
    for fetch in (False, True):
        folder = folder_of(code.repository, fetch=fetch)
        try:
            git(folder, "cat-file", "-e", f"{code.commit}^{{commit}}")
        except GitFailed:
            continue
        return folder
    where = code.repository or "this repository"
    raise NoSuchRef(f"{where} has no commit {code.commit} (any more); give a ref that it has")


def part(code: Code, name: str, to: Path) -> None:
    """The files of one top folder of the commit, without git's. Raises Unfit where the commit has no such folder."""
    source, packed = source_of(code), to / "part.tar"
    try:
        git(source, "archive", "--format=tar", f"--output={packed}", code.commit, name, limit_s=FETCH_S)
    except GitFailed as error:
        raise Unfit(
            f"{named(code)} has no {name}/: it is not a commit of Barograph; for a scheduler that is not ours give"
            " build, jar and scheduler too"
        ) from error
    with tarfile.open(packed) as opened:
        opened.extractall(to)  # made by git a line above
    packed.unlink()


def whole(code: Code, to: Path) -> None:
    """The commit as its own clone: builds ask git for versions. Its objects are the source's."""
    try:
        git(None, "clone", "--quiet", "--shared", "--no-checkout", "--", str(source_of(code)), str(to), limit_s=FETCH_S)
        git(to, "checkout", "--quiet", "--detach", code.commit, limit_s=FETCH_S)
    except GitFailed as error:
        raise NoSuchRef(
            f"{named(code)} of {code.repository or 'this repository'} cannot be checked out: {error}"
        ) from error
