"""The origin of a series' measurements: the code's commit and its uncommitted changes, of files that git tracks, stored
in the series as a patch that others can apply (`git apply`), the versions of the software, and the box.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from analysis.bundle.content import secret_search
from analysis.record.files import keep_bytes
from barograph.code.git import SHORT, GitFailed, git, git_bytes
from barograph.errors import ExperimentError
from barograph.settings import ROOT, process_environment
from playbooks.storm_home.assemble import storm_version

PRODUCT = ("dags", "inventory", "playbooks", "topologies", "scheduler_plugins", "analysis", "barograph",
         "pyproject.toml", "requirements.txt")  # fmt: skip
# Version of a run's load and sample counts: raised where runs before and after must not be compared.
# 1 (the default of old records): a source's schedule was its process's; 2: it is its topology's.
MEASUREMENT = 2
SECRET_FILE = re.compile(r"(^|/)(id_[a-z0-9]+|\.env|\.netrc|credentials?)$|\.(pem|key|p12|pfx|jks|keystore|vault)$")


def save_patch(series_dir: Path, patch: bytes) -> str | None:
    """Save the patch in the series' folder and return its name; None where nothing was changed."""
    if not patch:
        return None
    name = f"changes-{hashlib.sha256(patch).hexdigest()[:12]}.patch"
    keep_bytes(series_dir / name, patch)
    return name


def work_tree_patch(root: Path = ROOT) -> bytes:
    """Return the changes of tracked files in Barograph's own folders; empty where clean, and without git. Untracked
    files are left out: an inventory may hold passwords. Raises ExperimentError naming a changed file that seems to
    contain a secret: it would be in results and bundles."""
    try:
        house = [name for name in PRODUCT if (root / name).exists()]
        names = git_bytes(root, "diff", "--name-only", "-z", "HEAD", "--", *house).split(b"\0")
        patches = {name.decode(): _file_patch(root, name.decode()) for name in names if name}
    except (OSError, GitFailed):
        return b""
    search = secret_search(process_environment())
    for name, patch in patches.items():
        content = "a secret, by its name" if SECRET_FILE.search(name) else None
        if (secret := search.first_in(patch)) is not None:
            content = secret.what
        if content:
            raise ExperimentError(
                f"{name} is changed and not committed, and holds {content}; changes are kept with the results: take it"
                " out of the file, or `git stash` the change"
            )
    return b"".join(patches.values())


def _file_patch(root: Path, name: str) -> bytes:
    return git_bytes(root, "diff", "--binary", "--no-color", "--no-ext-diff", "--no-renames", "HEAD", "--", name)


def unknown_files(root: Path = ROOT) -> tuple[str, ...]:
    """Return untracked files in Barograph's own folders that git does not ignore: they may change results, and are
    stored nowhere."""
    try:
        house = [name for name in PRODUCT if (root / name).exists()]
        paths = git_bytes(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *house).split(b"\0")
    except (OSError, GitFailed):
        return ()
    return tuple(sorted(name.decode() for name in paths if name))


def git_state() -> tuple[str | None, bool | None]:
    """Return the code's commit, and whether it was changed since; None outside a git work tree."""
    try:
        return git(ROOT, "rev-parse", "HEAD"), bool(git(ROOT, "status", "--porcelain"))
    except GitFailed:
        return None, None


SIMULATING = ("scheduler_plugins", "topologies", "inventory", "playbooks", "analysis", "barograph")


def simulating_code_sha256(root: Path = ROOT) -> str:
    """Return the digest of all code that a simulated run may use, in git or not; an experiment's own document covers
    its data."""
    digest = hashlib.sha256()
    for house in SIMULATING:
        for file in sorted(path for kind in ("*.py", "*.yaml") for path in (root / house).rglob(kind)):
            name = file.relative_to(root)
            # Not Maven's copies in `target`, nor hidden files, such as Emacs' links `.#name.py`.
            if not any(part == "target" or part.startswith(".") for part in name.parts) and file.is_file():
                with suppress(FileNotFoundError):  # an editor's temporary file, gone meanwhile
                    digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def code_of_today() -> dict[str, Any]:
    """Return the work tree's code, as the record of a point's run has it."""
    commit, dirty = git_state()
    return {"git_commit": commit, "git_dirty": dirty, "code_sha256": simulating_code_sha256()}


def is_of_code(run: Mapping[str, Any], today: Mapping[str, Any]) -> bool:
    """Return whether the record of a simulated run has this code, whatever its commit."""
    return bool(run.get("code_sha256") == today["code_sha256"])


def code_words(facts: Mapping[str, Any]) -> str:
    """Return a text such as `1f2e3d4c5b6a with uncommitted changes`."""
    commit = facts.get("git_commit")
    name = str(commit)[:SHORT] if commit else "an unknown commit"
    return f"{name}{' with uncommitted changes' if facts.get('git_dirty') else ''}"


DISTRIBUTIONS = ("apache-airflow", "ansible-core", "ansible-runner", "pyspark")


def versions() -> dict[str, str]:
    versions_by_name = {"storm": storm_version(), "python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            versions_by_name[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions_by_name


def box_facts() -> dict[str, Any]:
    """Return CPU, memory, kernel and the load when the run began."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return {
        "cpu_model": next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "load_1min": os.getloadavg()[0],
    }
