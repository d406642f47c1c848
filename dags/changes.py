"""What of the code had been changed since its commit when a series was opened, kept in the series as a patch.

A result of changed code can be told from one of the commit, and others can have that very code (`git apply`).
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dags.places import ROOT

HOUSE = ("dags", "inventory", "playbooks", "topologies", "scheduler_plugins", "analysis", "barograph.py",
         "pyproject.toml", "requirements.txt")  # fmt: skip
LARGEST = 5_000_000  # bytes of one file: what is larger is no code
LIMIT_S = 30


def keep(series_dir: Path, root: Path = ROOT) -> str | None:
    """The name of the patch in the series' folder; None where nothing was changed, or git does not say what."""
    try:
        patch = changes(root)
    except (OSError, subprocess.SubprocessError):
        return None
    if not patch:
        return None
    name = f"changes-{hashlib.sha256(patch).hexdigest()[:12]}.patch"
    (series_dir / name).write_bytes(patch)
    return name


def changes(root: Path) -> bytes:
    """Of files that git knows and of new ones that it would take, in the folders of the house; empty where clean."""
    house = [name for name in HOUSE if (root / name).exists()]
    known = _git(root, "diff", "--binary", "--no-color", "--no-ext-diff", "HEAD", "--", *house)
    new = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *house).split(b"\0")
    return known + b"".join(part for name in sorted(new) if name for part in _added(root, name.decode()))


def _added(root: Path, name: str) -> Iterator[bytes]:
    """A new text file as `git diff` would show it, were it known; anything else is only named."""
    path = root / name
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
        return
    content = path.read_bytes()
    if b"\0" in content or not content:
        return
    lines = [line + b"\n" for line in content.removesuffix(b"\n").split(b"\n")]
    mode = "100755" if path.stat().st_mode & 0o100 else "100644"
    yield f"diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n".encode()
    yield f"@@ -0,0 +1,{len(lines)} @@\n".encode()
    yield b"".join(b"+" + line for line in lines)
    if not content.endswith(b"\n"):
        yield b"\\ No newline at end of file\n"


def _git(root: Path, *arguments: str) -> bytes:
    argv = ["git", "-c", "safe.directory=*", *arguments]
    done = subprocess.run(argv, cwd=root, capture_output=True, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    return done.stdout


def git_state() -> tuple[str | None, bool | None]:
    """The code's commit, and whether it was changed since; None outside a git work tree."""
    try:
        commit = _git(ROOT, "rev-parse", "HEAD").decode().strip()
        return commit, bool(_git(ROOT, "status", "--porcelain").strip())
    except (OSError, subprocess.SubprocessError):
        return None, None
