"""Git as a program, and mirrors of other repositories.

Git asks for no password, runs no hooks of a repository, and ends in time. A mirror uses git's own transports; it keeps
a commit when its branch is rebased.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from barograph.code.errors import NoSuchRepository
from barograph.code.store import lock_folder, sweep
from barograph.settings import barograph_home, process_environment
from playbooks.storm_home.assemble import atomic_folder

COMMAND_LIMIT_S = 30
FETCH_LIMIT_S = 600
# The owner of a checkout may be another user (sudo); the user who names a repository here wants its code run in any
# case. No collection: a mirror keeps the commits of deleted branches.
OPTIONS = (
    "-c",
    "safe.directory=*",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "advice.detachedHead=false",
    "-c",
    "gc.auto=0",
)


class GitFailed(Exception):
    """Git ended with an error, or not in time; the message is git's."""


def git(folder: Path | None, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> str:
    """Return git's output, without the last line's end. Raises GitFailed."""
    return git_bytes(folder, *arguments, limit_s=limit_s).decode(errors="replace").strip()


def git_bytes(folder: Path | None, *arguments: str, limit_s: float = COMMAND_LIMIT_S) -> bytes:
    """Return git's output unchanged: patches, and names that end with a zero. Raises GitFailed."""
    argv = ["git", *OPTIONS, *(["-C", str(folder)] if folder else []), *arguments]
    try:
        process = subprocess.run(
            argv, env=_git_environment(), capture_output=True, timeout=limit_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {arguments[0]} took more than {limit_s:g} s") from error
    except OSError as error:
        raise GitFailed(f"git cannot be started: {error}; install it with: apt-get install git") from error
    if process.returncode:
        message = " ".join(process.stderr.decode(errors="replace").split())
        raise GitFailed(message or f"git {arguments[0]} ended with {process.returncode}")
    return process.stdout


def _git_environment() -> dict[str, str]:
    """Return the user's environment, for their keys and proxies, without bindings to another repository or prompts."""
    bindings = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_COMMON_DIR")
    variables = {name: value for name, value in process_environment().items() if name not in bindings}
    ssh = {"GIT_SSH_COMMAND": variables.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")}
    return {**variables, **ssh, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


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
                _follow_head(mirror)
    except GitFailed as error:
        raise NoSuchRepository(
            f"repository {repository!r} cannot be cloned: {error}; give a folder or an address that `git clone` takes"
            " without asking for a password"
        ) from error
    return mirror


def _follow_head(mirror: Path) -> None:
    """Update HEAD, which a fetch leaves where the clone found it."""
    for line in git(mirror, "ls-remote", "--symref", "origin", "HEAD").splitlines():
        if line.startswith("ref: "):
            git(mirror, "symbolic-ref", "HEAD", line.split()[1])
            return
        git(mirror, "update-ref", "--no-deref", "HEAD", line.split()[0])
