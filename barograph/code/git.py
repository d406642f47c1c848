"""Git as a program: mirrors of other repositories, the commits of branches, tags and short hashes, and their files.

Git asks for no password, runs no hooks of a repository, and ends in time. A mirror keeps a commit when its branch is
rebased. A series records the commit, and is resumed on the same one. The user's work tree is not touched.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from barograph.code import NoSuchRef, NoSuchRepository, Unfit
from barograph.code.store import lock_folder, sweep
from barograph.plan.experiment import Code, Experiment
from barograph.settings import ROOT, barograph_home, process_environment
from playbooks.storm_home.assemble import atomic_folder

COMMAND_LIMIT_S = 30
FETCH_LIMIT_S = 600
FILE_BYTES = 6 * 2**30  # of a pack or an archive: somebody else's repository must not fill this box's disk
# The owner of a checkout may be another user (sudo); the user who names a repository here wants its code run in any
# case. No collection: a mirror keeps the commits of deleted branches.
OPTIONS = (
    "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", "-c", "gc.auto=0",
)  # fmt: skip
BINDINGS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_COMMON_DIR")


class GitFailed(Exception):
    """Git ended with an error, or not in time; the message is git's."""


def git(folder: Path | None, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> str:
    """Return git's output, without the last line's end. Raises GitFailed."""
    return git_bytes(folder, *arguments, limit_s=limit_s).decode(errors="replace").strip()


def git_bytes(folder: Path | None, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> bytes:
    """Return git's output unchanged: patches, and names that end with a zero. Raises GitFailed.

    The environment is the user's, for their keys and proxies, without bindings to another repository and prompts.
    """
    variables = {name: value for name, value in process_environment().items() if name not in BINDINGS}
    ssh = {"GIT_SSH_COMMAND": variables.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")}
    environment = {**variables, **ssh, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if arguments[0] == "archive":  # a commit names filters, and the user's settings (git-lfs') what those start
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    place = ["-C", str(folder)] if folder else []
    argv = ["prlimit", f"--fsize={FILE_BYTES}", "--", "git", *OPTIONS, *place, *arguments]
    try:
        process = subprocess.run(argv, env=environment, capture_output=True, timeout=limit_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {arguments[0]} took more than {limit_s:g} s") from error
    except OSError as error:
        raise GitFailed(f"git cannot be started: {error}; install it with: apt-get install git") from error
    if process.returncode:
        message = " ".join(process.stderr.decode(errors="replace").split())
        if process.returncode == -signal.SIGXFSZ or "index-pack" in message:
            message += f"; was one file above {FILE_BYTES // 10**6} MB, which is the limit?"
        raise GitFailed(message or f"git {arguments[0]} ended with {process.returncode}")
    return process.stdout


MIRROR = "mirror.git"


def sources_home() -> Path:
    return barograph_home() / "sources"


def repository_home(repository: str) -> Path:
    """Return the folder for everything of this repository; `here` is this one."""
    if not repository:
        return sources_home() / "here"
    return sources_home() / hashlib.sha256(address(repository).encode()).hexdigest()[:12]


def address(repository: str) -> str:
    """Return the address for `git clone`: a folder by its whole path, anything else unchanged."""
    folder = Path(repository).expanduser()
    return str(folder.absolute()) if folder.exists() else repository


def mirror_of(repository: str, *, fetch: bool) -> Path:
    """Return the mirror; it is cloned where it is missing, and updated if `fetch`. Raises NoSuchRepository."""
    mirror, source = repository_home(repository) / MIRROR, address(repository)
    try:
        with lock_folder(mirror):
            sweep(mirror)
            if not mirror.is_dir():
                with atomic_folder(mirror) as draft:
                    git(None, "clone", "--quiet", "--mirror", "--", source, str(draft), limit_s=FETCH_LIMIT_S)
            elif fetch:
                git(mirror, "fetch", "--quiet", "--prune", "origin", limit_s=FETCH_LIMIT_S)
                # A fetch leaves HEAD where the clone found it.
                head = git(mirror, "ls-remote", "--symref", "origin", "HEAD").split()
                change = ("symbolic-ref", "HEAD", head[1]) if head[:1] == ["ref:"] else (
                    "update-ref", "--no-deref", "HEAD", *head[:1])  # fmt: skip
                if head:
                    git(mirror, *change)
    except GitFailed as error:
        raise NoSuchRepository(
            f"repository {repository!r} cannot be cloned: {error}; give a folder or an address that `git clone` takes"
            " without asking for a password"
        ) from error
    return mirror


FULL = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
SECRET = re.compile(r"^https?://[^/]*@|://[^/@]*:[^/@]*@")
MOST_REFS = 8  # of the repository's refs, in a message


def resolve_code(code: Code) -> Code:
    """Add the full commit. A code that has it is not looked up: its repository may be out of reach now."""
    if SECRET.search(code.repository):
        raise NoSuchRepository(
            "a repository's address must hold no password or token, because records name it; give it without, and"
            " let git's credential helper know them"
        )
    if FULL.fullmatch(code.commit):
        return code
    if code.is_jar_file:
        files_sha256 = files_digest(code.files) if code.files else None
        return replace(code, commit=files_digest([code.repository]), files_sha256=files_sha256)
    repository = address(code.repository) if code.repository else ""
    folder, ref = repository_folder(repository, fetch=True), code.commit
    try:
        commit = git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitFailed as error:
        where = code.repository or "this repository"
        raise NoSuchRef(f"{where} has no commit {ref!r}{_suggestion(folder, ref)}") from error
    return replace(code, commit=commit, repository=repository)


def _suggestion(folder: Path, ref: str) -> str:
    try:
        names = git(folder, "for-each-ref", "--sort=-committerdate", "--format=%(refname:short)").split()
    except GitFailed:
        return "; it is no git repository: clone it with git instead of copying its files"
    close = [n for n in names if n.endswith(f"/{ref}")] or difflib.get_close_matches(ref, names, n=3)
    newest = f"its newest refs: {', '.join(names[:MOST_REFS]) or 'none'}"
    suggestion = f"; did you mean {' or '.join(close)}?" if close else f"; {newest}"
    return suggestion + shallow_hint(folder)


def shallow_hint(folder: Path) -> str:
    """Return what a clone without its older commits lacks; empty for any other folder."""
    try:
        is_shallow = git(folder, "rev-parse", "--is-shallow-repository") == "true"
    except GitFailed:
        return ""
    return "; it is a shallow clone: git fetch --unshallow gives it the rest" if is_shallow else ""


def files_digest(paths: Sequence[str]) -> str:
    """Return the SHA-256 of files that are in no repository: of one its own, of several that of theirs. Raises
    NoSuchRepository."""
    digests = []
    for path in paths:
        try:
            digests.append(hashlib.sha256(Path(path).read_bytes()).hexdigest())
        except OSError as error:
            raise NoSuchRepository(f"{path}: {error.strerror}; give the path of a file") from error
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def resolve_experiment(experiment: Experiment) -> Experiment:
    """Add the full commit to each variant's code. Raises NoSuchRef, NoSuchRepository naming the variant."""
    variants = []
    for variant in experiment.variants:
        try:
            variants.append(replace(variant, code=variant.code and resolve_code(variant.code)))
        except (NoSuchRef, NoSuchRepository) as error:
            key = "ref" if isinstance(error, NoSuchRef) else "repository"
            raise type(error)(f"variants.{variant.name}.code.{key}: {error}") from error
    return replace(experiment, variants=tuple(variants))


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


SHORT = 12  # digits of a commit in messages


def has_same_folder(a: Code, b: Code, name: str) -> bool:
    """Return True for two commits with equal content of that folder."""
    try:
        trees = [git(folder_with_commit(code), "rev-parse", f"{code.commit}:{name}") for code in (a, b)]
    except (GitFailed, NoSuchRef, NoSuchRepository):
        return False
    return trees[0] == trees[1]


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
    hint = shallow_hint(folder)
    raise NoSuchRef(f"{where} has no commit {code.commit} (any more); give a ref that it has{hint}")


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
        plain = (
            each
            for each in tar
            if each.isfile() and not each.name.startswith("/") and ".." not in Path(each.name).parts
        )
        tar.extractall(to, members=plain)
    archive.unlink()


def clone_commit(code: Code, to: Path) -> None:
    """Clone the commit, without files: builds ask git for versions. No object is shared with the source, which the
    build does not see, and whose files it must not own.

    A jar without git is copied, if it is still the one that was resolved.
    """
    if code.is_jar_file:
        to.mkdir()
        copies = [str(to / Path(each).name) for each in (code.jar, *code.files)]
        for original, copy in zip((code.repository, *code.files), copies, strict=True):
            try:
                shutil.copy2(original, copy)
            except OSError as error:
                raise NoSuchRepository(f"{original}: {error.strerror}; give the path of a file") from error
        # Hashed after the copy: a file may be written anew meanwhile.
        if files_digest(copies[:1]) != code.commit or (code.files and files_digest(copies[1:]) != code.files_sha256):
            name = ", ".join((code.repository, *code.files))
            raise NoSuchRef(f"{name} has changed since the series began; start a new one with --new")
        return
    source = str(folder_with_commit(code))
    try:
        git(None, "clone", "-q", "--no-hardlinks", "--no-checkout", "--", source, str(to), limit_s=FETCH_LIMIT_S)
    except GitFailed as error:
        raise NoSuchRef(
            f"{code_label(code)} of {code.repository or 'this repository'} cannot be checked out: {error}"
        ) from error
