"""Git repositories for tests: real ones, small, in a folder of the test's own."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from barograph.code.git import resolve_code
from barograph.plan.experiment import Code

PERSON = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
PLUGINS = Path(__file__).parents[2] / "scheduler_plugins"


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", *PERSON, "-C", str(folder), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True)
class Repository:
    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Repository:
        folder.mkdir(parents=True)
        made = cls(folder)
        made.git("init", "-q", "-b", "main")
        return made

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def commit(self, files: Mapping[str, str | bytes], message: str = "change") -> str:
        """The full hash of a commit in which these files are so."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        self.git("checkout", "-q", "-B", name)


def with_plugins(folder: Path) -> Repository:
    """A repository with this one's `scheduler_plugins` as its first commit on `main`."""
    made = Repository.at(folder)
    ignored = shutil.ignore_patterns("target", "__pycache__")
    shutil.copytree(PLUGINS, folder / "scheduler_plugins", ignore=ignored)
    made.commit({}, "as it is")
    return made


def with_policy(folder: Path, name: str, file: Path) -> Repository:
    """The same with one policy more, which is the ENTRY of a file."""
    made, policies = with_plugins(folder), "scheduler_plugins/policies"
    registry = (folder / policies / "__init__.py").read_text()
    registry += f"from scheduler_plugins.policies import {name} as added\n\n"
    registry += f'POLICIES = {{**POLICIES, "{name}": added.ENTRY}}\n'
    made.commit({f"{policies}/{name}.py": file.read_text(), f"{policies}/__init__.py": registry}, f"with {name}")
    return made


def jar(path: Path, *classes: str) -> Path:
    """A jar with empty classes of these names."""
    with zipfile.ZipFile(path, "w") as packed:
        for name in classes:
            packed.writestr(f"{name.replace('.', '/')}.class", b"")
    return path


def resolve_ref(ref: str, repository: str = "") -> Code:
    """The code of a branch, a tag or a commit."""
    return resolve_code(Code(ref, ref, repository))
