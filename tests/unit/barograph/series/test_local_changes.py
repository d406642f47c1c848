"""What had been changed since a commit is kept as a patch that gives that very code again; and code for a bundle."""

import subprocess
from pathlib import Path

import pytest

from barograph.cli import bundle
from barograph.series import provenance


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "dags").mkdir(parents=True)
    (tree / "dags" / "one.py").write_text("one\n")
    (tree / "barograph.py").write_text("main\n")
    (tree / ".gitignore").write_text("*.log\n")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "first")
    return tree


def test_a_patch_gives_the_changed_code_again(tree: Path, tmp_path: Path) -> None:
    assert provenance.save_patch(tmp_path, tree) is None
    (tree / "dags" / "one.py").write_text("one\nchanged")
    (tree / "dags" / "new.py").write_text("new\n\nwithout an end")
    (tree / "dags" / "run me").write_bytes(b"#!/bin/sh\r\n")
    (tree / "dags" / "run me").chmod(0o755)
    (tree / "dags" / "ignored.log").write_text("x")
    (tree / "notes-of-mine.txt").write_text("not of the house")
    name = provenance.save_patch(tmp_path, tree)
    assert name is not None and name.startswith("changes-") and provenance.save_patch(tmp_path, tree) == name
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(tree), str(clone))
    git(clone, "apply", str(tmp_path / name))
    for path in ("dags/one.py", "dags/new.py", "dags/run me"):
        assert (clone / path).read_bytes() == (tree / path).read_bytes(), path
    assert (clone / "dags" / "run me").stat().st_mode & 0o100
    assert not (clone / "notes-of-mine.txt").exists() and not (clone / "dags" / "ignored.log").exists()


def test_outside_git_nothing_is_kept(tmp_path: Path) -> None:
    assert provenance.save_patch(tmp_path, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_code_of_runs_is_that_of_their_commits(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = git(tree, "rev-parse", "HEAD")
    (tree / "dags" / "one.py").write_text("two\n")
    git(tree, "commit", "-q", "-a", "-m", "second")
    monkeypatch.setattr(bundle, "ROOT", tree)
    code = {"label": "main", "commit": first, "repository": ""}
    runs = {
        "a": {"git_commit": git(tree, "rev-parse", "HEAD"), "variant": {"name": "stela_a", "code": code}},
        "b": {"git_commit": first, "git_dirty": True, "git_changes": "changes-x.patch", "variant": {"name": "b"}},
        "c": {"git_commit": "f" * 40, "git_dirty": False},
    }
    found = bundle.sources_of(runs, tmp_path)
    content = {entry.name: entry.source for entry in found.entries}
    assert content[f"source/{first[:12]}/dags/one.py"] == b"one\n"
    assert content[f"source/{git(tree, 'rev-parse', 'HEAD')[:12]}/dags/one.py"] == b"two\n"
    assert content["source/work_tree/dags/one.py"] == tree / "dags" / "one.py"
    said = "\n".join(found.lines)
    assert "the code of the variant stela_a (main)" in said
    assert f"the work tree had been changed since {first[:12]}; the changes are in `series/changes-x.patch`" in said
    assert len(found.missing) == 1 and f"commit {'f' * 40} of this repository cannot be had" in found.missing[0]


def test_code_of_another_repository_that_is_not_mirrored_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path))
    code = {"label": "v2", "commit": "a" * 40, "repository": "https://example.org/s.git", "build": ["mvn", "package"]}
    found = bundle.sources_of({"a": {"variant": {"name": "theirs", "code": code}}}, tmp_path)
    assert found.entries == []
    assert found.lines == [
        f"commit {'a' * 40} of https://example.org/s.git cannot be had (it is not mirrored here): the code of the"
        " variant theirs (v2, built with `mvn package`)"
    ]
