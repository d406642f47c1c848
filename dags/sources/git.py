"""Git as a program: it asks nobody for a password, runs no hooks of a repository, and ends."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

LOOK_S = 30
FETCH_S = 600
# The owner of a checkout may be another user (sudo); who names a repository here wants its code run in any case.
# No collection: a mirror keeps the commits of branches that are gone.
ALWAYS = (
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
    """Git ended with an error, or not in time; the message is what it said."""


def git(folder: Path | None, *arguments: str, limit_s: float = LOOK_S) -> str:
    """What git prints, without the last line's end. Raises GitFailed."""
    argv = ["git", *ALWAYS, *(["-C", str(folder)] if folder else []), *arguments]
    try:
        done = subprocess.run(
            argv, env=_environment(), capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {arguments[0]} took more than {limit_s:g} s") from error
    except OSError as error:
        raise GitFailed(f"git cannot be started: {error}; install it with: apt-get install git") from error
    if done.returncode:
        raise GitFailed(" ".join(done.stderr.split()) or f"git {arguments[0]} ended with {done.returncode}")
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    """The user's own, for their keys and proxies; nothing binds git to another repository or waits."""
    bound = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_COMMON_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in bound}
    ssh = {"GIT_SSH_COMMAND": kept.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")}
    return {**kept, **ssh, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
