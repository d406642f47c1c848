"""Other repositories, mirrored by git's own transports: a commit stays here when its branch is rebased."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dags.places import barograph_home
from dags.sources.errors import NoSuchRepository
from dags.sources.git import FETCH_S, GitFailed, git
from dags.sources.store import locked, sweep
from playbooks.storm_home.assemble import appearing

MIRROR = "mirror.git"


def sources_home() -> Path:
    return barograph_home() / "sources"


def home_of(repository: str) -> Path:
    """Where everything of this repository is; `here` is this one."""
    if not repository:
        return sources_home() / "here"
    return sources_home() / hashlib.sha256(address(repository).encode()).hexdigest()[:12]


def address(repository: str) -> str:
    """What git clones: a folder by its whole path, anything else as it is written."""
    folder = Path(repository).expanduser()
    return str(folder.absolute()) if folder.exists() else repository


def mirrored(repository: str, *, fetch: bool) -> Path:
    """The mirror; it is made where it is not there, and brought up to date if `fetch`. Raises NoSuchRepository."""
    mirror, source = home_of(repository) / MIRROR, address(repository)
    try:
        with locked(mirror):
            sweep(mirror)
            if not mirror.is_dir():
                with appearing(mirror) as unfinished:
                    git(None, "clone", "--quiet", "--mirror", "--", source, str(unfinished), limit_s=FETCH_S)
            elif fetch:
                git(mirror, "fetch", "--quiet", "--prune", "origin", limit_s=FETCH_S)
                _follow_head(mirror)
    except GitFailed as error:
        raise NoSuchRepository(
            f"repository {repository!r} cannot be cloned: {error}; give a folder or an address that `git clone` takes"
            " without asking for a password"
        ) from error
    return mirror


def _follow_head(mirror: Path) -> None:
    """A fetch leaves HEAD where the clone found it."""
    for line in git(mirror, "ls-remote", "--symref", "origin", "HEAD").splitlines():
        if line.startswith("ref: "):
            git(mirror, "symbolic-ref", "HEAD", line.split()[1])
            return
        git(mirror, "update-ref", "--no-deref", "HEAD", line.split()[0])
