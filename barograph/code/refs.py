"""Resolve branches, tags and short hashes to full commits, and copy a commit's files to a folder.

A series records the commit, and is resumed on the same one. The user's work tree is not touched.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

from barograph.code.errors import NoSuchRef, NoSuchRepository, Unfit
from barograph.code.git import FETCH_LIMIT_S, GitFailed, address, git, mirror_of
from barograph.plan.experiment import Code, Experiment, Variant
from barograph.settings import ROOT

FULL = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
SECRET = re.compile(r"^https?://[^/]*@|://[^/@]*:[^/@]*@")
MOST_REFS = 8  # of the repository's refs, in a message


def resolve_ref(ref: str, repository: str = "") -> Code:
    """Return the code of a branch, a tag or a commit; other settings are those of a ref of this repository.

    Raises NoSuchRef naming similar ones, NoSuchRepository.
    """
    return resolve_code(Code(ref, ref, repository))


def resolve_code(code: Code) -> Code:
    """Add the full commit. A code that has it is not looked up: its repository may be out of reach now."""
    _refuse_secrets(code.repository)
    if FULL.fullmatch(code.commit):
        return code
    if code.is_jar_file:
        return replace(code, commit=_jar_digest(Path(code.repository)))
    repository = address(code.repository) if code.repository else ""
    return replace(code, commit=_commit_of(repository_folder(repository, fetch=True), code), repository=repository)


def _jar_digest(jar: Path) -> str:
    """Return the SHA-256 of a jar that is in no repository. Raises NoSuchRepository."""
    try:
        return hashlib.sha256(jar.read_bytes()).hexdigest()
    except OSError as error:
        raise NoSuchRepository(f"{jar}: {error.strerror}; give the path of a jar") from error


def resolve_experiment(experiment: Experiment) -> Experiment:
    """Add the full commit to each variant's code. Raises NoSuchRef, NoSuchRepository naming the variant."""
    if all(variant.code is None for variant in experiment.variants):
        return experiment
    return replace(experiment, variants=tuple(_resolve_variant(variant) for variant in experiment.variants))


def repository_folder(repository: str, *, fetch: bool = False) -> Path:
    """Return a local git folder with the repository's commits; for another repository its mirror."""
    return mirror_of(repository, fetch=fetch) if repository else ROOT


def uncommitted_remark(experiment: Experiment) -> str | None:
    """Return a remark where this repository's refs are compared while its files have uncommitted changes."""
    variants = [v for v in experiment.variants if v.code is not None and not v.code.repository]
    if not variants:
        return None
    try:
        changes = git(ROOT, "status", "--porcelain", "--untracked-files=no").splitlines()
    except GitFailed:
        return None
    if not changes:
        return None
    files, names = f"{len(changes)} file{'s'[: len(changes) - 1]}", ", ".join(variant.name for variant in variants)
    return f"what is changed here and not committed ({files}) is in no ref: {names} run without it"


def _refuse_secrets(repository: str) -> None:
    """Refuse an address with secrets: every record contains it."""
    if SECRET.search(repository):
        raise NoSuchRepository(
            "a repository's address must hold no password or token, because records name it; give it without, and"
            " let git's credential helper know them"
        )


def _resolve_variant(variant: Variant) -> Variant:
    if variant.code is None:
        return variant
    try:
        return replace(variant, code=resolve_code(variant.code))
    except (NoSuchRef, NoSuchRepository) as error:
        key = "ref" if isinstance(error, NoSuchRef) else "repository"
        raise type(error)(f"variants.{variant.name}.code.{key}: {error}") from error


def _commit_of(folder: Path, code: Code) -> str:
    ref = code.commit
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitFailed as error:
        raise NoSuchRef(f"{_repository_name(code)} has no commit {ref!r}{_suggestion(folder, ref)}") from error


def _suggestion(folder: Path, ref: str) -> str:
    try:
        names = git(folder, "for-each-ref", "--sort=-committerdate", "--format=%(refname:short)").split()
        shallow = git(folder, "rev-parse", "--is-shallow-repository") == "true"
    except GitFailed:
        return "; it is no git repository: clone it with git instead of copying its files"
    close = difflib.get_close_matches(ref, names, n=3) or [n for n in names if n.rpartition("/")[2] == ref]
    suggestion = (
        f"; did you mean {' or '.join(close)}?"
        if close
        else f"; its newest refs: {', '.join(names[:MOST_REFS]) or 'none'}"
    )
    return suggestion + ("; it is a shallow clone: git fetch --unshallow gives it the rest" if shallow else "")


def _repository_name(code: Code) -> str:
    return code.repository or "this repository"


SHORT = 12  # digits of a commit in messages


def code_label(code: Code) -> str:
    """Return `my-branch (0123456789ab)`, for messages."""
    short = code.commit[:SHORT]
    return short if code.commit.startswith(code.label) else f"{code.label} ({short})"


def folder_with_commit(code: Code) -> Path:
    """Return a git folder that has the commit; a mirror without it is fetched. Raises NoSuchRef."""
    for fetch in (False, True):
        folder = repository_folder(code.repository, fetch=fetch)
        try:
            git(folder, "cat-file", "-e", f"{code.commit}^{{commit}}")
        except GitFailed:
            continue
        return folder
    where = code.repository or "this repository"
    raise NoSuchRef(f"{where} has no commit {code.commit} (any more); give a ref that it has")


def export_folder(code: Code, name: str, to: Path) -> None:
    """Copy one top folder of the commit, without git's files. Raises Unfit where the commit has no such folder."""
    source, archive = folder_with_commit(code), to / "part.tar"
    try:
        git(source, "archive", "--format=tar", f"--output={archive}", code.commit, name, limit_s=FETCH_LIMIT_S)
    except GitFailed as error:
        raise Unfit(
            f"{code_label(code)} has no {name}/: it is not a commit of Barograph; for a scheduler that is not ours give"
            " build, jar and scheduler too"
        ) from error
    with tarfile.open(archive) as tar:
        # A commit may hold a link to anywhere, and a file behind it: plain files only.
        tar.extractall(to, members=(member for member in tar if _is_plain(member)))
    archive.unlink()


def _is_plain(member: tarfile.TarInfo) -> bool:
    path = PurePosixPath(member.name)
    return member.isfile() and not path.is_absolute() and ".." not in path.parts


def _copy_jar(code: Code, to: Path) -> None:
    """Copy first and hash the copy: the file may be rebuilt meanwhile."""
    to.mkdir()
    copy = to / Path(code.jar).name
    try:
        shutil.copy2(code.repository, copy)
    except OSError as error:
        raise NoSuchRepository(f"{code.repository}: {error.strerror}; give the path of a jar") from error
    if _jar_digest(copy) != code.commit:
        raise NoSuchRef(f"{code.repository} has changed since the series began; start a new one with --new")


def clone_commit(code: Code, to: Path) -> None:
    """Clone the commit: builds ask git for versions. No object is shared with the source, which the build does not see,
    and whose files it must not own.

    A jar without git is copied, if it is still the one that was resolved.
    """
    if code.is_jar_file:
        _copy_jar(code, to)
        return
    try:
        git(
            None,
            "clone",
            "--quiet",
            "--no-hardlinks",
            "--no-checkout",
            "--",
            str(folder_with_commit(code)),
            str(to),
            limit_s=FETCH_LIMIT_S,
        )
        git(to, "checkout", "--quiet", "--detach", code.commit, limit_s=FETCH_LIMIT_S)
    except GitFailed as error:
        raise NoSuchRef(
            f"{code_label(code)} of {code.repository or 'this repository'} cannot be checked out: {error}"
        ) from error
