"""What a series was measured with: the code's commit and its uncommitted changes, kept in the series as a patch that
others can apply (`git apply`), the versions of what did the work, and the box.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from barograph.code.git import GitFailed, git, git_bytes
from barograph.settings import ROOT

PRODUCT = ("dags", "inventory", "playbooks", "topologies", "scheduler_plugins", "analysis", "barograph",
         "pyproject.toml", "requirements.txt")  # fmt: skip
LARGEST_FILE_BYTES = 5_000_000  # bytes of one file: what is larger is no code


def save_patch(series_dir: Path, root: Path = ROOT) -> str | None:
    """The name of the patch in the series' folder; None where nothing was changed, or git does not say what."""
    try:
        patch = work_tree_patch(root)
    except (OSError, GitFailed):
        return None
    if not patch:
        return None
    name = f"changes-{hashlib.sha256(patch).hexdigest()[:12]}.patch"
    (series_dir / name).write_bytes(patch)
    return name


def work_tree_patch(root: Path) -> bytes:
    """Of files that git knows and of new ones that it would take, in the folders of the house; empty where clean."""
    house = [name for name in PRODUCT if (root / name).exists()]
    known = git_bytes(root, "diff", "--binary", "--no-color", "--no-ext-diff", "HEAD", "--", *house)
    new = git_bytes(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *house).split(b"\0")
    return known + b"".join(part for name in sorted(new) if name for part in _new_file_patch(root, name.decode()))


def _new_file_patch(root: Path, name: str) -> Iterator[bytes]:
    """A new text file as `git diff` would show it, were it known; anything else is only named."""
    path = root / name
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_FILE_BYTES:
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


def git_state() -> tuple[str | None, bool | None]:
    """The code's commit, and whether it was changed since; None outside a git work tree."""
    try:
        return git(ROOT, "rev-parse", "HEAD"), bool(git(ROOT, "status", "--porcelain"))
    except GitFailed:
        return None, None


DISTRIBUTIONS = ("apache-airflow", "ansible-core", "ansible-runner", "pyspark")


def versions() -> dict[str, str]:
    from playbooks.storm_home.assemble import storm_version

    known = {"storm": storm_version(), "python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known


def box_facts() -> dict[str, Any]:
    """CPU, memory, kernel and the load when the run began."""
    return {
        "cpu_model": _proc_field(Path("/proc/cpuinfo"), "model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "load_1min": os.getloadavg()[0],
    }


def _proc_field(path: Path, key: str) -> str | None:
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)
