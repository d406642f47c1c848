"""What git says, of a repository that a test makes."""

from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import ExperimentError
from barograph.nights.commits import commit_of, commits_between, head
from tests.support.measured_nights import MakeCommit
from tests.support.repositories import git


def test_only_what_changes_decisions_unless_all(commit: MakeCommit, tmp_path: Path) -> None:
    good, *rest = [
        commit("one"),
        commit("words", "docs/a.md"),
        commit("two"),
        commit("three"),
        commit("more", "README"),
    ]
    ends = commit_of(good, tmp_path), commit_of("main", tmp_path)
    assert [each.subject for each in commits_between(*ends, all_commits=False, root=tmp_path)] == ["two", "three"]
    every = commits_between(*ends, all_commits=True, root=tmp_path)
    assert [each.hash for each in every] == rest


def test_a_merge_counts_as_one(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("one")
    git(tmp_path, "checkout", "-q", "-b", "side")
    commit("side 1", "scheduler_plugins/side.py")
    commit("side 2", "scheduler_plugins/side.py")
    git(tmp_path, "checkout", "-q", "main")
    commit("two")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "the side", "side")
    found = commits_between(commit_of(good, tmp_path), commit_of("main", tmp_path), all_commits=False, root=tmp_path)
    assert [each.subject for each in found] == ["two", "the side"]


def test_ends_that_are_none(commit: MakeCommit, tmp_path: Path) -> None:
    good, bad = (commit_of(commit(name), tmp_path) for name in ("one", "two"))
    with pytest.raises(ExperimentError, match=r"'nope' is no commit of .*; branches: main"):
        commit_of("nope", tmp_path)
    with pytest.raises(ExperimentError, match="--option' is no commit"):
        commit_of("--option", tmp_path)
    with pytest.raises(ExperimentError, match="the same commit"):
        commits_between(good, good, all_commits=False, root=tmp_path)
    with pytest.raises(
        ExperimentError, match=f"GOOD {bad.short} is not an ancestor of BAD {good.short}, which is the older of the two"
    ):
        commits_between(bad, good, all_commits=False, root=tmp_path)


def test_a_shallow_clone_and_a_branch_of_the_remote(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("one")
    bad = commit("two")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}", str(clone))
    with pytest.raises(ExperimentError, match=r"branches: .*origin/main.*shallow clone: git fetch --unshallow"):
        commit_of(good, clone)
    older = replace(commit_of(bad, clone), hash=good)
    with pytest.raises(ExperimentError, match=r"is not an ancestor of .*shallow clone: git fetch --unshallow"):
        commits_between(older, commit_of("main", clone), all_commits=True, root=clone)


def test_a_copy_without_git_has_no_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ExperimentError, match=r"'main' is no commit of .*; branches: none"):
        commit_of("main", tmp_path)
    assert head(tmp_path).hash is None


def test_the_code_of_a_night(commit: MakeCommit, tmp_path: Path) -> None:
    first = commit("one")
    assert (head(tmp_path).hash, head(tmp_path).dirty) == (first, False)
    (tmp_path / "new.py").write_text("")
    assert head(tmp_path).dirty is True
    assert head(tmp_path / "nowhere").hash is None
